"""A step of the same Llama in PyTorch: forward, backward, clipping, AdamW.

usage: torch_step.py MODEL SEQUENCE GLOBAL_BATCH MICRO_BATCH eager|compiled

bf16 parameters with f32 master copies and f32 gradient accumulation, the fused
attention and optimizer that PyTorch has. Prints one JSON object.
"""
import json
import statistics
import sys
import time


def main(model, sequence, batch, micro, mode):
    import torch
    import torch.nn.functional as F
    from torch import nn

    config = json.load(open(model + "/config.json"))
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    size, eps = hidden // heads, config["rms_norm_eps"]
    device = "cuda"

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            linear = lambda a, b: nn.Linear(a, b, bias=False)
            self.n1, self.n2 = nn.RMSNorm(hidden, eps), nn.RMSNorm(hidden, eps)
            self.q, self.k = linear(hidden, heads * size), linear(hidden, kv * size)
            self.v, self.o = linear(hidden, kv * size), linear(heads * size, hidden)
            self.gate, self.up = linear(hidden, ffn), linear(hidden, ffn)
            self.down = linear(ffn, hidden)

        def forward(self, x, cos, sin):
            def rotate(t):
                a, b = t.chunk(2, -1)
                return t * cos + torch.cat((-b, a), -1) * sin
            y = self.n1(x)
            b, s, _ = y.shape
            q = rotate(self.q(y).view(b, s, heads, size).transpose(1, 2))
            k = rotate(self.k(y).view(b, s, kv, size).transpose(1, 2))
            v = self.v(y).view(b, s, kv, size).transpose(1, 2)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv)
            x = x + self.o(a.transpose(1, 2).reshape(b, s, heads * size))
            y = self.n2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(config["vocab_size"], hidden)
            self.layers = nn.ModuleList(Layer() for _ in range(config["num_hidden_layers"]))
            self.norm = nn.RMSNorm(hidden, eps)
            self.head = nn.Linear(hidden, config["vocab_size"], bias=False)

        def forward(self, tokens, labels, cos, sin):
            x = self.table(tokens)
            for layer in self.layers:
                x = layer(x, cos, sin)
            return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1),
                                   labels.flatten())

    torch.manual_seed(0)
    net = Llama().to(device, torch.bfloat16)
    for parameter in net.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=config["initializer_range"])
    angles = torch.outer(torch.arange(sequence, device=device).float(), 1.0 / config[
        "rope_theta"] ** (torch.arange(0, size, 2, device=device).float() / size))
    angles = torch.cat((angles, angles), -1)
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    masters = [parameter.detach().float() for parameter in net.parameters()]
    for master in masters:
        master.grad = torch.zeros_like(master)
    optimizer = torch.optim.AdamW(masters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    forward = torch.compile(net) if mode == "compiled" else net

    def step():
        tokens = torch.randint(0, config["vocab_size"], (batch, sequence + 1), device=device)
        for first in range(0, batch, micro):
            part = tokens[first:first + micro]
            loss = forward(part[:, :-1], part[:, 1:], cos, sin) * (micro / batch)
            loss.backward()
            with torch.no_grad():
                torch._foreach_add_([m.grad for m in masters],
                                    [p.grad.float() for p in net.parameters()])
            net.zero_grad(set_to_none=True)
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(list(net.parameters()), masters)
            torch._foreach_zero_([m.grad for m in masters])

    for _ in range(4):
        step()
    seconds = []
    for _ in range(8):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    print(json.dumps({"step_seconds": median, "tokens_per_second": batch * sequence / median,
                      "torch": torch.__version__,
                      "peak_bytes": torch.cuda.max_memory_allocated()}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5])

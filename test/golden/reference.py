#!/usr/bin/python3
"""Trains the tiny models of this folder with PyTorch and writes what came out.

An implementation of its own: models as Hugging Face's code defines them, random
numbers and data as the compiled program draws them, gradients by autograd, all
in double precision on one device. Needs python3-torch and python3-numpy; the
tests read only the JSON files.

    /usr/bin/python3 test/golden/reference.py [--check] [NAME ...]

writes NAME/golden.json beside each NAME/config.json; --check compares with the
files that are there instead (relative difference up to 1e-9) and exits 1 if
they differ.
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
import torch

import draws
import families

HERE = pathlib.Path(__file__).parent
RUN = {
    "seed": 1234,
    "data": "corpus.txt",
    "steps": 5,
    "sequence": 24,
    "global_batch": 8,
    "learning_rate": 0.003,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "clip": 1.0,
}
SAMPLES = 4  # elements of each tensor that are written down


# Models -----------------------------------------------------------------------

class Weights:
    """Parameters by Hugging Face name, created when first asked for."""

    def __init__(self, seed):
        self.seed = seed
        self.tensors = {}

    def normal(self, name, shape, std):
        values = draws.normal(self.seed, name, math.prod(shape), std)
        self.tensors[name] = torch.from_numpy(values.reshape(shape))

    def zeros(self, name, *shape):
        self.tensors[name] = torch.zeros(*shape, dtype=torch.float64)

    def ones(self, name, *shape):
        self.tensors[name] = torch.ones(*shape, dtype=torch.float64)


def attention(q, k, v):
    """Causal; q, k, v are [batch, heads, sequence, width]."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    length = q.shape[-2]
    mask = torch.ones(length, length, dtype=torch.bool).tril()
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


class Llama:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        c, std = config, config["initializer_range"]
        hidden, ffn = c["hidden_size"], c["intermediate_size"]
        width = c["num_attention_heads"] * c["head_dim"]
        kv_width = c["num_key_value_heads"] * c["head_dim"]

        def linear(name, rows, columns, bias):
            weights.normal(name + ".weight", (rows, columns), std)
            if bias:
                weights.zeros(name + ".bias", rows)

        weights.normal("model.embed_tokens.weight", (c["vocab_size"], hidden),
                       std)
        for layer in range(c["num_hidden_layers"]):
            p = f"model.layers.{layer}."
            weights.ones(p + "input_layernorm.weight", hidden)
            bias = c.get("attention_bias", False)
            linear(p + "self_attn.q_proj", width, hidden, bias)
            linear(p + "self_attn.k_proj", kv_width, hidden, bias)
            linear(p + "self_attn.v_proj", kv_width, hidden, bias)
            linear(p + "self_attn.o_proj", hidden, width, bias)
            weights.ones(p + "post_attention_layernorm.weight", hidden)
            bias = c.get("mlp_bias", False)
            linear(p + "mlp.gate_proj", ffn, hidden, bias)
            linear(p + "mlp.up_proj", ffn, hidden, bias)
            linear(p + "mlp.down_proj", hidden, ffn, bias)
        weights.ones("model.norm.weight", hidden)
        if not c["tie_word_embeddings"]:
            weights.normal("lm_head.weight", (c["vocab_size"], hidden), std)

    def frequencies(self):
        c = self.c
        exponent = torch.arange(0, c["head_dim"], 2, dtype=torch.float64)
        inverse = 1.0 / c["rope_theta"]**(exponent / c["head_dim"])
        scaling = c.get("rope_scaling")
        if scaling is None:
            return inverse
        assert scaling["rope_type"] == "llama3"
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        old = scaling["original_max_position_embeddings"]
        result = []
        for value in inverse.tolist():
            wavelength = 2 * math.pi / value
            if wavelength < old / high:
                result.append(value)
            elif wavelength > old / low:
                result.append(value / scaling["factor"])
            else:
                smooth = (old / wavelength - low) / (high - low)
                result.append((1 - smooth) * value / scaling["factor"]
                              + smooth * value)
        return torch.tensor(result, dtype=torch.float64)

    def rotate(self, x):
        positions = torch.arange(x.shape[-2], dtype=torch.float64)
        angles = torch.outer(positions, self.frequencies())
        angles = torch.cat([angles, angles], -1)
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()

    def norm(self, x, name):
        variance = x.pow(2).mean(-1, keepdim=True)
        return (x * torch.rsqrt(variance + self.c["rms_norm_eps"])
                * self.w.tensors[name + ".weight"])

    def linear(self, x, name):
        t = self.w.tensors
        return torch.nn.functional.linear(x, t[name + ".weight"],
                                          t.get(name + ".bias"))

    def logits(self, tokens):
        c, t = self.c, self.w.tensors
        x = t["model.embed_tokens.weight"][tokens]
        for layer in range(c["num_hidden_layers"]):
            p = f"model.layers.{layer}."
            h = self.norm(x, p + "input_layernorm")

            def heads(name, count):
                y = self.linear(h, p + "self_attn." + name)
                return y.unflatten(-1, (count, c["head_dim"])).transpose(1, 2)

            n, kv = c["num_attention_heads"], c["num_key_value_heads"]
            q = self.rotate(heads("q_proj", n))
            k = self.rotate(heads("k_proj", kv)).repeat_interleave(n // kv, 1)
            v = heads("v_proj", kv).repeat_interleave(n // kv, 1)
            y = attention(q, k, v).transpose(1, 2).flatten(-2)
            x = x + self.linear(y, p + "self_attn.o_proj")
            h = self.norm(x, p + "post_attention_layernorm")
            gate = torch.nn.functional.silu(self.linear(h, p + "mlp.gate_proj"))
            up = self.linear(h, p + "mlp.up_proj")
            x = x + self.linear(gate * up, p + "mlp.down_proj")
        x = self.norm(x, "model.norm")
        head = "lm_head" if "lm_head.weight" in t else "model.embed_tokens"
        return x @ t[head + ".weight"].T


class Gpt2:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        c, std = config, config["initializer_range"]
        hidden = c["n_embd"]
        ffn = c["n_inner"] or 4 * hidden
        small = std / math.sqrt(2 * c["n_layer"])

        def conv(name, rows, columns, deviation):
            weights.normal(name + ".weight", (rows, columns), deviation)
            weights.zeros(name + ".bias", columns)

        def norm(name):
            weights.ones(name + ".weight", hidden)
            weights.zeros(name + ".bias", hidden)

        weights.normal("transformer.wte.weight", (c["vocab_size"], hidden), std)
        weights.normal("transformer.wpe.weight", (c["n_positions"], hidden),
                       std)
        for layer in range(c["n_layer"]):
            p = f"transformer.h.{layer}."
            norm(p + "ln_1")
            conv(p + "attn.c_attn", hidden, 3 * hidden, std)
            conv(p + "attn.c_proj", hidden, hidden, small)
            norm(p + "ln_2")
            conv(p + "mlp.c_fc", hidden, ffn, std)
            conv(p + "mlp.c_proj", ffn, hidden, small)
        norm("transformer.ln_f")

    def norm(self, x, name):
        t = self.w.tensors
        return torch.nn.functional.layer_norm(
            x, x.shape[-1:], t[name + ".weight"], t[name + ".bias"],
            self.c["layer_norm_epsilon"])

    def conv(self, x, name):
        t = self.w.tensors
        return x @ t[name + ".weight"] + t[name + ".bias"]

    def logits(self, tokens):
        c, t = self.c, self.w.tensors
        positions = t["transformer.wpe.weight"][:tokens.shape[-1]]
        x = t["transformer.wte.weight"][tokens] + positions
        for layer in range(c["n_layer"]):
            p = f"transformer.h.{layer}."
            h = self.norm(x, p + "ln_1")
            q, k, v = (part.unflatten(-1, (c["n_head"], -1)).transpose(1, 2)
                       for part in self.conv(h, p + "attn.c_attn").chunk(3, -1))
            y = attention(q, k, v).transpose(1, 2).flatten(-2)
            x = x + self.conv(y, p + "attn.c_proj")
            h = self.conv(self.norm(x, p + "ln_2"), p + "mlp.c_fc")
            h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi)
                                          * (h + 0.044715 * h.pow(3))))
            x = x + self.conv(h, p + "mlp.c_proj")
        return self.norm(x, "transformer.ln_f") @ t["transformer.wte.weight"].T


# Training ---------------------------------------------------------------------

def samples(name, tensor):
    """[index, value] of a few elements, spread; of those that are not zero if
    there are any. Most rows of an embedding get no gradient, and that of a key
    bias is zero but for rounding: softmax does not see it."""
    flat = tensor.detach().flatten()
    small = 1e-9 * flat.abs().max()
    candidates = (flat.abs() > small).nonzero().flatten().tolist()
    candidates = candidates or range(len(flat))
    picked = sorted({candidates[draws.fnv1a(f"{name}#{i}") % len(candidates)]
                     for i in range(SAMPLES)})
    return [[i, flat[i].item()] for i in picked]


def norm(tensor):
    return tensor.detach().pow(2).sum().sqrt().item()


def train(folder):
    config = json.loads((folder / "config.json").read_text())
    run = RUN
    weights = Weights(run["seed"])
    models = {"llama": Llama, "gpt2": Gpt2, **families.MODELS}
    model = models[config["model_type"]](config, weights)
    tensors = weights.tensors
    for tensor in tensors.values():
        tensor.requires_grad_(True)
    data = np.frombuffer((HERE / run["data"]).read_bytes(),
                         dtype=np.uint8).astype(np.int64)
    golden = {
        "schema": "shardwright.golden/1",
        "comment": "written by test/golden/reference.py",
        "model": folder.name,
        "run": run,
        "parameters": sum(t.numel() for t in tensors.values()),
        "losses": [],
        "grad_norms": [],
        "tensors": {name: {"shape": list(t.shape), "initial": samples(name, t)}
                    for name, t in tensors.items()},
    }
    first = {n: torch.zeros_like(t) for n, t in tensors.items()}
    second = {n: torch.zeros_like(t) for n, t in tensors.items()}
    for step in range(run["steps"]):
        tokens, labels = map(torch.from_numpy, draws.batch(run, data, step))
        loss = torch.nn.functional.cross_entropy(
            model.logits(tokens).flatten(0, 1), labels.flatten())
        for tensor in tensors.values():
            tensor.grad = None
        loss.backward()
        total = math.sqrt(sum(norm(t.grad)**2 for t in tensors.values()))
        golden["losses"].append(loss.item())
        golden["grad_norms"].append(total)
        if step == 0:
            # Softmax does not see key biases without a rotation: what stands in
            # their gradients is rounding, which differs from run to run.
            unseen = {name for name, tensor in tensors.items()
                      if norm(tensor.grad) < 1e-12 * total}
            for name, tensor in tensors.items():
                grad = tensor.grad * (name not in unseen)
                golden["tensors"][name]["grad_norm"] = norm(grad)
                golden["tensors"][name]["grad"] = samples(name, grad)
        scale = min(1.0, run["clip"] / (total + 1e-6))
        with torch.no_grad():
            for name, tensor in tensors.items():
                g = tensor.grad * scale
                m, v = first[name], second[name]
                m.mul_(run["beta1"]).add_(g, alpha=1 - run["beta1"])
                v.mul_(run["beta2"]).addcmul_(g, g, value=1 - run["beta2"])
                update = ((m / (1 - run["beta1"]**(step + 1)))
                          / ((v / (1 - run["beta2"]**(step + 1))).sqrt()
                             + run["eps"]))
                decay = run["weight_decay"] if tensor.ndim >= 2 else 0.0
                tensor -= run["learning_rate"] * (update + decay * tensor)
    for name, tensor in tensors.items():
        final = tensor * (name not in unseen)
        golden["tensors"][name]["final_norm"] = norm(final)
        golden["tensors"][name]["final"] = samples(name, final)
    return golden


def close(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float):
        # Key biases have no gradient but rounding, which differs from run to
        # run with the blocking of BLAS; Adam makes steps of 1e-13 of it.
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-3)
    return a == b


def text(golden):
    """Readable and small: one line a tensor."""
    lines = []
    for key, value in golden.items():
        if key != "tensors":
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}"
                      for name, entry in golden["tensors"].items())
    lines.append('  "tensors": {\n' + rows + "\n  }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true",
                        help="compare with the golden files, write nothing")
    parser.add_argument("models", nargs="*", help="folders; default: all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for config in sorted(HERE.glob("*/config.json")):
        if arguments.models and config.parent.name not in arguments.models:
            continue
        golden = train(config.parent)
        path = config.parent / "golden.json"
        if not arguments.check:
            path.write_text(text(golden))
            print(f"{path.relative_to(HERE)}: losses {golden['losses']}")
        elif not close(json.loads(path.read_text()), golden):
            print(f"{path}: differs", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

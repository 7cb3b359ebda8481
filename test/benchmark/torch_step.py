#!/usr/bin/python3
"""A Llama training step in eager PyTorch, as a process that takes orders.

An implementation of its own, written as one writes PyTorch for speed: no loop
in Python below a layer, rotary tables and mask made once, gradients freed
instead of zeroed, and the faster one of AdamW's two implementations. Starts from
the parameters of a compiled program's --dump and takes its batches.

  torch_step.py CONFIG DUMP DATA SEQUENCE BATCH SEED FOREACH

Reads `run N` lines on stdin; answers each with one JSON line: seconds of every
step, CPU seconds of all of them together, losses and gradient norms.
"""
import json
import math
import pathlib
import resource
import struct
import sys
import time

import numpy as np
import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import draws  # noqa: E402


def parameters(path):
    """HF name -> parameter, from the dump of a compiled program."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    result = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name.startswith("param:"):
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data[8 + length + begin:8 + length + end], dtype=np.float32)
            result[name[6:]] = torch.nn.Parameter(
                torch.from_numpy(values.reshape(entry["shape"]).copy()))
    return result


class Llama:
    def __init__(self, config, weights, sequence):
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config["num_key_value_heads"]
        self.width = config["hidden_size"] // self.heads
        self.eps = config["rms_norm_eps"]
        self.weights = weights
        frequencies = config["rope_theta"] ** (
            -torch.arange(0, self.width, 2, dtype=torch.float64) / self.width)
        angles = torch.outer(torch.arange(sequence, dtype=torch.float64), frequencies)
        angles = torch.cat([angles, angles], -1)
        self.cosines, self.sines = angles.cos().float(), angles.sin().float()
        self.mask = torch.full((sequence, sequence), -math.inf).triu(1)

    def norm(self, x, name):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weights[name + ".weight"]

    def linear(self, x, name):
        return functional.linear(x, self.weights[name + ".weight"])

    def rotate(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cosines + torch.cat([-high, low], -1) * self.sines

    def attention(self, x, prefix):
        batch, sequence, _ = x.shape

        def heads(name, count):
            return self.linear(x, prefix + name).view(batch, sequence, count,
                                                      self.width).transpose(1, 2)

        # Query heads of a group share their keys by broadcast.
        group = self.heads // self.kv_heads
        q = self.rotate(heads("q_proj", self.heads)) * (1 / math.sqrt(self.width))
        k = self.rotate(heads("k_proj", self.kv_heads))
        v = heads("v_proj", self.kv_heads)
        q = q.reshape(batch, self.kv_heads, group * sequence, self.width)
        scores = (q @ k.transpose(-1, -2)).view(batch, self.kv_heads, group, sequence, sequence)
        weights = (scores + self.mask).softmax(-1)
        y = weights.view(batch, self.kv_heads, group * sequence, sequence) @ v
        y = y.view(batch, self.heads, sequence, self.width)
        return self.linear(y.transpose(1, 2).reshape(batch, sequence, -1), prefix + "o_proj")

    def loss(self, tokens, labels):
        x = functional.embedding(tokens, self.weights["model.embed_tokens.weight"])
        for layer in range(self.layers):
            prefix = "model.layers.%d." % layer
            h = self.norm(x, prefix + "input_layernorm")
            x = x + self.attention(h, prefix + "self_attn.")
            h = self.norm(x, prefix + "post_attention_layernorm")
            gate = functional.silu(self.linear(h, prefix + "mlp.gate_proj"))
            up = self.linear(h, prefix + "mlp.up_proj")
            x = x + self.linear(gate * up, prefix + "mlp.down_proj")
        logits = self.linear(self.norm(x, "model.norm"), "lm_head")
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    config, dump, data, sequence, batch, seed, foreach = sys.argv[1:]
    config = json.loads(pathlib.Path(config).read_text())
    run = {"seed": int(seed), "sequence": int(sequence), "global_batch": int(batch)}
    text = np.frombuffer(pathlib.Path(data).read_bytes(), dtype=np.uint8).astype(np.int64)
    weights = parameters(dump)
    model = Llama(config, weights, run["sequence"])
    matrices = [w for w in weights.values() if w.ndim > 1]
    vectors = [w for w in weights.values() if w.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.95), eps=1e-8, foreach=foreach == "1")
    step = 0
    for line in sys.stdin:
        seconds, losses, norms = [], [], []
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(int(line.split()[1])):
            start = time.perf_counter()
            tokens, labels = map(torch.from_numpy, draws.batch(run, text, step))
            loss = model.loss(tokens, labels)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            norms.append(norm.item())
            seconds.append(time.perf_counter() - start)
            step += 1
        after = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"seconds": seconds, "losses": losses, "grad_norms": norms,
                          "user_seconds": after.ru_utime - before.ru_utime,
                          "cpu_seconds": after.ru_utime - before.ru_utime
                          + after.ru_stime - before.ru_stime}), flush=True)


main()

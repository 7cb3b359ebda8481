#!/usr/bin/python3
"""Runs a differentiated module with numpy and compares with a golden file.

The slow obvious reading of the model dialect: each op is one numpy expression
over the dims that its letters name, in double precision. A batch is run at
once, as no op cares how long dim `b` is.

    interpret.py MODULE.mlir GOLDEN.json POLICY

checks loss and gradients of the first step. Needs python3-numpy.
"""
import json
import math
import pathlib
import re
import sys

import numpy as np

import draws

OP = re.compile(r'(?:(.*?) = )?"model\.(\w+)"\((.*?)\) (?:<(\{.*\})> )?'
                r'(?:\{.*\} )?: ')
ARGUMENT = re.compile(r'#model\.arg<(\w+), (\d+)>')
RESULT = re.compile(r'#model\.res<(\w+), (\d+)>')


# Reading ----------------------------------------------------------------------

class Function:
    def __init__(self):
        self.arguments, self.results, self.names, self.ops = [], [], [], []
        self.returned = []


def attribute(text, name, default=None):
    match = re.search(r'\b' + name + r' = ("[^"]*"|[^,}<]+)', text)
    return match.group(1).strip('"').split(" :")[0] if match else default


def integers(text, name):
    match = re.search(name + r' = array<i64: ([^>]*)>', text)
    return [int(x) for x in match.group(1).split(",")]


def read(path):
    """Functions by name, parameters by kind and the stack, of generic IR."""
    functions, parameters, stack, current = {}, {}, None, None
    for line in pathlib.Path(path).read_text().splitlines():
        line = line.strip()
        if line.startswith('"model.param"'):
            parameters.setdefault(attribute(line, "kind"), []).append(line)
        elif line.startswith('"model.stack"'):
            stack = [(k, int(n)) for k, n in
                     re.findall(r'\["(\w+)", (\d+)\]', line)]
        elif line.startswith('"model.kind"'):
            current = Function()
            functions[attribute(line, "sym_name")] = current
            current.arguments = ARGUMENT.findall(line)
            current.results = RESULT.findall(line)
        elif line.startswith("^bb0("):
            current.names = re.findall(r'(%\w+):', line)
        elif line.startswith('"model.return"'):
            current.returned = re.findall(r'%[\w#]+', line.split(")")[0])
        elif (match := OP.match(line)) and current:
            results, op, operands, attributes = match.groups()
            current.ops.append((op, re.findall(r'%[\w#]+', operands),
                                results, attributes or ""))
    return functions, parameters, stack


# Ops --------------------------------------------------------------------------

def last(x):
    return x[..., None]


def rope(x, a, axis=0):
    theta, d = float(attribute(a, "theta")), x.shape[-1]
    inverse = theta ** (-np.arange(0, d, 2) / d)
    if attribute(a, "rope_type"):
        factor = float(attribute(a, "factor"))
        if attribute(a, "rope_type") == "linear":
            inverse = inverse / factor
        else:
            low = float(attribute(a, "low_freq_factor"))
            high = float(attribute(a, "high_freq_factor"))
            old = int(attribute(a, "original_max_position_embeddings"))
            turns = old * inverse / (2 * math.pi)
            smooth = np.clip((turns - low) / (high - low), 0, 1)
            inverse = inverse * (smooth + (1 - smooth) / factor)
    angles = np.outer(np.arange(x.shape[axis]), inverse)
    angles = angles.reshape(angles.shape[:1] + (1,) * (x.ndim - 2)
                            + angles.shape[1:])
    sign = -1 if attribute(a, "inverse") == "true" else 1
    cos, sin = np.cos(angles), sign * np.sin(angles)
    first, second = np.split(x, 2, -1)
    return np.concatenate([first * cos - second * sin,
                           second * cos + first * sin], -1)


def probabilities(q, k, a):
    scores = float(attribute(a, "scale")) * np.einsum("sbngd,tbnd->bngst", q, k)
    if attribute(a, "causal") == "true":
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores,
                          -np.inf)
    top = scores.max(-1)
    total = np.exp(scores - last(top)).sum(-1)
    lse = top + np.log(total)
    return np.exp(scores - last(lse)), lse


def attention(q, k, v, a):
    p, lse = probabilities(q, k, a)
    return (np.einsum("bngst,tbnd->sbngd", p, v),
            np.einsum("bngs->sbng", lse))


def attention_grad(do, q, k, v, o, lse, a):
    p, _ = probabilities(q, k, a)
    dv = np.einsum("bngst,sbngd->tbnd", p, do)
    dp = np.einsum("sbngd,tbnd->bngst", do, v)
    delta = np.einsum("sbngd,sbngd->bngs", do, o)
    ds = p * (dp - last(delta)) * float(attribute(a, "scale"))
    return (np.einsum("bngst,tbnd->sbngd", ds, k),
            np.einsum("bngst,sbngd->tbnd", ds, q), dv)


def rms_norm(x, w, a):
    rstd = 1 / np.sqrt((x * x).mean(-1) + float(attribute(a, "eps")))
    return x * last(rstd) * w, rstd


def rms_norm_grad(dy, x, w, rstd, a):
    n, g = x * last(rstd), dy * w
    return last(rstd) * (g - n * (g * n).mean(-1, keepdims=True))


def layer_norm(x, w, b, a):
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(((x - last(mean))**2).mean(-1)
                       + float(attribute(a, "eps")))
    return (x - last(mean)) * last(rstd) * w + b, mean, rstd


def layer_norm_grad(dy, x, w, mean, rstd, a):
    n, g = (x - last(mean)) * last(rstd), dy * w
    return last(rstd) * (g - g.mean(-1, keepdims=True)
                         - n * (g * n).mean(-1, keepdims=True))


def rows(x):
    return tuple(range(x.ndim - 1))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swiglu_grad(dy, gate, up, a):
    s = sigmoid(gate)
    return dy * up * s * (1 + gate * (1 - s)), dy * gate * s


def gelu(x, a):
    if attribute(a, "approximate") == "true":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + np.tanh(inner))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_grad(dy, x, a):
    if attribute(a, "approximate") == "true":
        c = math.sqrt(2 / math.pi)
        t = np.tanh(c * (x + 0.044715 * x**3))
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t)
                     * c * (1 + 3 * 0.044715 * x * x))
    return dy * (0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
                 + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


class Ops:
    """The ops that need sizes of the model, or the scale of the loss."""

    def __init__(self, vocab, positions, scale):
        self.vocab, self.positions, self.scale = vocab, positions, scale
        self.table = {
            "contract": lambda x, y, a: np.einsum(attribute(a, "spec"), x, y),
            "add": lambda x, y, a: x + y,
            "bias_add": lambda x, b, a: x + b,
            "column_sum": lambda x, a: np.einsum(attribute(a, "spec"), x),
            "rms_norm": rms_norm,
            "rms_norm_grad": rms_norm_grad,
            "rms_norm_weight_grad":
                lambda dy, x, r, a: (dy * x * last(r)).sum(rows(x)),
            "layer_norm": layer_norm,
            "layer_norm_grad": layer_norm_grad,
            "layer_norm_weight_grad": lambda dy, x, m, r, a:
                (dy * (x - last(m)) * last(r)).sum(rows(x)),
            "rope": rope,
            "attention": attention,
            "attention_grad": attention_grad,
            "swiglu": lambda g, u, a: g * sigmoid(g) * u,
            "swiglu_grad": swiglu_grad,
            "gelu": gelu,
            "gelu_grad": gelu_grad,
            "embedding": lambda ids, t, a: t[ids],
            "embedding_grad": self.embedding_grad,
            "add_positions": lambda x, t, a: x + t[:len(x), None],
            "add_positions_grad": self.add_positions_grad,
            "max_logit": lambda x, a: x.max(-1),
            "sum_exp": lambda x, m, a: np.exp(x - last(m)).sum(-1),
            "target_logit": lambda x, ids, a:
                np.take_along_axis(x, last(ids), -1)[..., 0],
            "token_loss": lambda m, s, t, a:
                self.scale * (np.log(s) + m - t).sum(),
            "softmax_grad": self.softmax_grad,
        }

    def embedding_grad(self, ids, dy, a):
        table = np.zeros((self.vocab, dy.shape[-1]))
        np.add.at(table, ids, dy)
        return table

    def add_positions_grad(self, dy, a):
        table = np.zeros((self.positions, dy.shape[-1]))
        table[:len(dy)] = dy.sum(1)
        return table

    def softmax_grad(self, x, m, s, ids, a):
        return self.scale * (np.exp(x - last(m)) / last(s)
                             - np.eye(self.vocab)[ids])

    def call(self, function, values):
        """`values` by ("saved", 0) and the like; results the same way."""
        env = dict(zip(function.names,
                       (values[key] for key in function.arguments)))
        for op, operands, results, attributes in function.ops:
            out = self.table[op](*(env[x] for x in operands), attributes)
            name = results.split(":")[0]
            if ":" in results:
                env.update({f"{name}#{i}": y for i, y in enumerate(out)})
            else:
                env[name] = out
        return dict(zip(function.results, (env[x] for x in function.returned)))


# A step -----------------------------------------------------------------------

def weights_of(lines, layer, seed):
    """Parameters of a layer, each cut out of its Hugging Face tensor."""
    result = {}
    for line in lines:
        name = attribute(line, "hf_name").replace("{}", str(layer))
        shape = [int(x) for x in
                 re.search(r'type = tensor<([\dx]+)xf32>', line).group(1)
                 .split("x")]
        count = math.prod(integers(line, "hf_shape"))
        init = re.search(r'init = #model\W+(?:init )?(\w+)>', line).group(1)
        flat = {"zeros": np.zeros, "ones": np.ones,
                "normal": lambda n: draws.normal(
                    seed, name, n, float(attribute(line, "init_scale")))
                }[init](count)
        strides = integers(line, "hf_strides")
        at = int(attribute(line, "hf_offset")) + sum(
            np.arange(n).reshape([-1] + [1] * (len(shape) - i - 1)) * stride
            for i, (n, stride) in enumerate(zip(shape, strides)))
        index = ("parameter", str(len(result)))
        result[index] = (name, integers(line, "hf_shape"), at, flat[at])
    return result


def main():
    module, golden_path, policy = sys.argv[1:]
    functions, parameters, stack = read(module)
    golden_path = pathlib.Path(golden_path)
    golden = json.loads(golden_path.read_text())
    run = golden["run"]
    data = np.frombuffer((golden_path.parent.parent / run["data"]).read_bytes(),
                         dtype=np.uint8).astype(np.int64)
    tokens, labels = draws.batch(run, data, 0)
    shapes = {n: t["shape"] for n, t in golden["tensors"].items()}
    table = "model.embed_tokens.weight"
    ops = Ops(shapes.get(table, shapes.get("transformer.wte.weight"))[0],
              shapes.get("transformer.wpe.weight", [0])[0],
              1 / (run["global_batch"] * run["sequence"]))

    layers, number = [], 0
    for kind, count in stack:
        for _ in range(count):
            layer = number if kind == "dense" else 0
            number += kind == "dense"
            prefix = f"{kind}.{policy if kind == 'dense' else 'none'}."
            layers.append((prefix, weights_of(parameters[kind], layer,
                                              run["seed"])))
    base = {("tokens", "0"): tokens.T, ("labels", "0"): labels.T}
    slots, stream = [], None
    for prefix, weights in layers:
        values = {**base, **{i: w[3] for i, w in weights.items()}}
        if stream is not None:
            values[("stream_in", "0")] = stream
        out = ops.call(functions[prefix + "forward"], values)
        stream = out.get(("stream_out", "0"))
        slots.append({**values, **out})
    loss = slots[-1][("loss", "0")]

    gradients = {n: np.zeros(math.prod(s)) for n, s in shapes.items()}
    dy = None
    for (prefix, weights), values in zip(reversed(layers), reversed(slots)):
        values = {**values, ("stream_grad", "0"): dy}
        dx = None
        if prefix + "data_grad" in functions:
            out = ops.call(functions[prefix + "data_grad"], values)
            dx = out.pop(("stream_grad", "0"))
            values.update(out)
        out = ops.call(functions[prefix + "weight_grad"], values)
        for index, (name, _, at, _) in weights.items():
            gradients[name][at] += out[("parameter_grad", index[1])]
        dy = dx

    worst = abs(loss - golden["losses"][0]) / golden["losses"][0]
    total = math.sqrt(sum((g * g).sum() for g in gradients.values()))
    worst = max(worst, abs(total / golden["grad_norms"][0] - 1))
    for name, entry in golden["tensors"].items():
        floor = max(entry["grad_norm"], 1e-6 * total)
        for index, value in entry["grad"]:
            worst = max(worst, abs(gradients[name][index] - value) / floor)
        norm = math.sqrt((gradients[name]**2).sum())
        worst = max(worst, abs(norm - entry["grad_norm"]) / floor)
    print(f"{golden['model']} {policy}: loss {loss:.12f}, gradient norm "
          f"{total:.12f}, worst relative difference {worst:.1e}")
    return 0 if worst < 1e-11 else 1


if __name__ == "__main__":
    sys.exit(main())

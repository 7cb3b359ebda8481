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


def yarn(d, theta, factor, a):
    """What each frequency is multiplied by."""
    old = int(attribute(a, "original_max_position_embeddings"))
    low, high = (d * math.log(old / (2 * math.pi * float(attribute(a, turns))))
                 / (2 * math.log(theta)) for turns in ("beta_fast", "beta_slow"))
    low, high = max(math.floor(low), 0), min(math.ceil(high), d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    return 1 - ramp + ramp / factor


def rope(x, a, axis=0):
    theta = float(attribute(a, "theta"))
    d = int(attribute(a, "rotary_dim", x.shape[-1]))
    x, rest = x[..., :d], x[..., d:]
    inverse = theta ** (-np.arange(0, d, 2) / d)
    if attribute(a, "rope_type"):
        factor = float(attribute(a, "factor", 1))
        if attribute(a, "rope_type") == "linear":
            inverse = inverse / factor
        elif attribute(a, "rope_type") == "longrope":
            listed = re.search(r"factors = array<f64: ([^>]*)>", a).group(1)
            inverse = inverse / np.array([float(x) for x in listed.split(",")])
        elif attribute(a, "rope_type") == "yarn":
            inverse = inverse * yarn(d, theta, factor, a)
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
    size = float(attribute(a, "attention_factor", 1))
    cos, sin = size * np.cos(angles), sign * size * np.sin(angles)
    if attribute(a, "interleaved") == "true":
        first, second = x[..., 0::2], x[..., 1::2]
        turned = np.empty_like(x)
        turned[..., 0::2] = first * cos - second * sin
        turned[..., 1::2] = second * cos + first * sin
        return np.concatenate([turned, rest], -1)
    first, second = np.split(x, 2, -1)
    return np.concatenate([first * cos - second * sin,
                           second * cos + first * sin, rest], -1)


def alibi_slope(head, heads):
    power = 2**int(math.log2(heads))
    if head < power:
        return 2**(-8 * (head + 1) / power)
    return 2**(-8 * (2 * (head - power) + 1) / (2 * power))


def probabilities(q, k, a):
    """Probabilities, log of the sum, and the derivative of the bound."""
    scores = float(attribute(a, "scale")) * np.einsum("sbngd,tbnd->bngst", q, k)
    slope, cap = 1.0, attribute(a, "softcap")
    if cap:
        bounded = np.tanh(scores / float(cap))
        scores, slope = float(cap) * bounded, 1 - bounded**2
    length, count = scores.shape[-1], q.shape[2] * q.shape[3]
    away = np.arange(length)[None, :] - np.arange(length)[:, None]
    if attribute(a, "alibi"):
        slopes = np.array([alibi_slope(i, count) for i in range(count)])
        slopes = slopes.reshape(q.shape[2:4] + (1, 1))
        scores = scores + float(attribute(a, "alibi")) * slopes * away
    if attribute(a, "causal") == "true":
        window = int(attribute(a, "window", length))
        scores = np.where((away <= 0) & (away > -window), scores, -np.inf)
    top = scores.max(-1)
    total = np.exp(scores - last(top)).sum(-1)
    lse = top + np.log(total)
    return np.exp(scores - last(lse)), lse, slope


def attention(q, k, v, a):
    p, lse, _ = probabilities(q, k, a)
    return (np.einsum("bngst,tbnd->sbngd", p, v),
            np.einsum("bngs->sbng", lse))


def attention_grad(do, q, k, v, o, lse, a):
    p, _, slope = probabilities(q, k, a)
    dv = np.einsum("bngst,sbngd->tbnd", p, do)
    dp = np.einsum("sbngd,tbnd->bngst", do, v)
    delta = np.einsum("sbngd,sbngd->bngs", do, o)
    ds = p * (dp - last(delta)) * slope * float(attribute(a, "scale"))
    return (np.einsum("bngst,tbnd->sbngd", ds, k),
            np.einsum("bngst,sbngd->tbnd", ds, q), dv)


def rms_weight(w, a):
    return 1 + w if attribute(a, "unit_offset") == "true" else w


def rms_norm(x, w, a):
    rstd = 1 / np.sqrt((x * x).mean(-1) + float(attribute(a, "eps")))
    return x * last(rstd) * rms_weight(w, a), rstd


def rms_norm_grad(dy, x, w, rstd, a):
    n, g = x * last(rstd), dy * rms_weight(w, a)
    return last(rstd) * (g - n * last((g * n).mean(-1)))


def along(a):
    """Axes of a row, and a function that gives a row statistic them back."""
    count = len(attribute(a, "columns", "h"))
    return (tuple(range(-count, 0)),
            lambda x: x[(...,) + (None,) * count])


def rms_norm_weight_grad(dy, x, rstd, a):
    row, wide = along(a)
    return (dy * x * wide(rstd)).sum(tuple(range(x.ndim - len(row))))


def square_sum(x, a):
    return (x * x).sum(along(a)[0])


def rms_apply(x, w, total, a):
    rstd = 1 / np.sqrt(total / int(attribute(a, "count"))
                       + float(attribute(a, "eps")))
    return x * along(a)[1](rstd) * w, rstd


def row_dot(dy, x, w, a):
    return (dy * w * x).sum(along(a)[0])


def rms_apply_grad(dy, x, w, rstd, dot, a):
    wide = along(a)[1]
    return wide(rstd) * (dy * w - x * wide(rstd**2 * dot
                                           / int(attribute(a, "count"))))


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


def gate_form(a):
    """Attributes of the gelu that a gate is, or None for silu."""
    match = re.search(r"gate_kind = #model\W+(?:gate\W+)?(gelu\w*)", a)
    if not match:
        return None
    tanh = "true" if match.group(1) == "gelu_tanh" else "false"
    return f"{{approximate = {tanh}}}"


def swiglu(gate, up, a):
    form = gate_form(a)
    return (gelu(gate, form) if form else gate * sigmoid(gate)) * up


def swiglu_grad(dy, gate, up, a):
    form = gate_form(a)
    if form:
        return gelu_grad(dy * up, gate, form), dy * gelu(gate, form)
    s = sigmoid(gate)
    return dy * up * s * (1 + gate * (1 - s)), dy * gate * s


def limit(a):
    return float(attribute(a, "limit"))


def softcap(x, a):
    cap = float(attribute(a, "cap"))
    return cap * np.tanh(x / cap)


def softcap_grad(dy, y, a):
    return dy * (1 - (y / float(attribute(a, "cap")))**2)


def shifted(a):
    return int(attribute(a, "offset", 0))


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
            "rms_norm_weight_grad": rms_norm_weight_grad,
            "square_sum": square_sum,
            "rms_apply": rms_apply,
            "row_dot": row_dot,
            "rms_apply_grad": rms_apply_grad,
            "layer_norm": layer_norm,
            "layer_norm_grad": layer_norm_grad,
            "layer_norm_weight_grad": lambda dy, x, m, r, a:
                (dy * (x - last(m)) * last(r)).sum(rows(x)),
            "rope": rope,
            "attention": attention,
            "attention_grad": attention_grad,
            "swiglu": swiglu,
            "swiglu_grad": swiglu_grad,
            "gelu": gelu,
            "gelu_grad": gelu_grad,
            "relu": lambda x, a: np.maximum(x, 0),
            "relu_grad": lambda dy, y, a: np.where(y > 0, dy, 0),
            "scale": lambda x, a: float(attribute(a, "factor")) * x,
            "clip": lambda x, a: np.clip(x, -limit(a), limit(a)),
            "clip_grad": lambda dy, x, a:
                np.where(np.abs(x) <= limit(a), dy, 0),
            "softcap": softcap,
            "softcap_grad": softcap_grad,
            # One number spreads over any shape.
            "fill": lambda a: np.array(float(attribute(a, "value"))),
            "embedding": lambda ids, t, a: t[ids],
            "embedding_grad": self.embedding_grad,
            "add_positions": lambda x, t, a:
                x + t[shifted(a):shifted(a) + len(x), None],
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
        table[shifted(a):shifted(a) + len(dy)] = dy.sum(1)
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
    embedding = {attribute(line, "letters"): shapes[attribute(line, "hf_name")]
                 for line in parameters["embed"]}
    vocab = (embedding.get("vh") or embedding["vi"])[0]
    ops = Ops(vocab, embedding.get("ph", [0])[0],
              1 / (run["global_batch"] * run["sequence"]))

    layers, number = [], 0
    for kind, count in stack:
        for _ in range(count):
            repeated = kind not in ("embed", "head")
            layer = number if repeated else 0
            number += repeated
            prefix = f"{kind}.{policy if repeated else 'none'}."
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

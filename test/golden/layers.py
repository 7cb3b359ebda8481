"""What models of several families share: functions of tensors, and Base.

Fused tensors are split by the views of the original code.
"""
import math

import torch

F = torch.nn.functional


def heads(x, count):
    """[batch, sequence, count * width] -> [batch, count, sequence, width]."""
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(-2)


def mask(length, window=None):
    """True where a query (row) may look."""
    query = torch.arange(length)[:, None]
    key = torch.arange(length)[None, :]
    visible = key <= query
    return visible if window is None else visible & (key > query - window)


def attention(q, k, v, scale=None, window=None, cap=None, bias=None):
    """Causal; k and v may have fewer heads. `bias` is added to the scores."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    v = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    scores = q @ k.transpose(-1, -2)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    if bias is not None:
        scores = scores + bias
    hidden = ~mask(q.shape[-2], window)
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


def frequencies(width, base, factor=1.0):
    exponent = torch.arange(0, width, 2, dtype=torch.float64) / width
    return 1.0 / base**exponent / factor


def yarn(width, base, scaling):
    """_compute_yarn_parameters of transformers: frequencies and magnitude."""
    factor = scaling["factor"]
    length = scaling["original_max_position_embeddings"]

    def dim(turns):
        return (width * math.log(length / (turns * 2 * math.pi))
                / (2 * math.log(base)))

    low = max(math.floor(dim(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(dim(scaling.get("beta_slow", 1))), width - 1)
    ramp = torch.arange(width // 2, dtype=torch.float64) - low
    kept = 1 - (ramp / (high - low)).clamp(0, 1)
    plain = frequencies(width, base)
    return (plain / factor * (1 - kept) + plain * kept,
            0.1 * math.log(factor) + 1)


def rotary(width, c):
    """Frequencies and magnitude that the config asks for."""
    base = c.get("rope_theta", 10000.0)
    scaling = c.get("rope_scaling")
    if not scaling:
        return frequencies(width, base), 1.0
    if scaling.get("rope_type") == "yarn":
        return yarn(width, base, scaling)
    # longrope, of sequences longer than the original.
    length = c["original_max_position_embeddings"]
    factor = c["max_position_embeddings"] / length
    longer = torch.tensor(scaling["long_factor"], dtype=torch.float64)
    return (frequencies(width, base) / longer,
            math.sqrt(1 + math.log(factor) / math.log(length)))


def rotate(x, inverse, magnitude=1.0):
    """Halves of the first 2 * len(inverse) columns turn."""
    width = 2 * len(inverse)
    turned, rest = x[..., :width], x[..., width:]
    positions = torch.arange(x.shape[-2], dtype=torch.float64)
    angles = torch.outer(positions, inverse)
    angles = torch.cat([angles, angles], -1)
    first, second = turned.chunk(2, -1)
    turned = (turned * angles.cos()
              + torch.cat([-second, first], -1) * angles.sin()) * magnitude
    return torch.cat([turned, rest], -1)


def rotate_neighbours(x, inverse):
    """Columns 2i and 2i + 1 turn together."""
    width = 2 * len(inverse)
    pairs = x[..., :width].unflatten(-1, (-1, 2))
    positions = torch.arange(x.shape[-2], dtype=torch.float64)
    angles = torch.outer(positions, inverse)
    cos, sin = angles.cos(), angles.sin()
    turned = torch.stack(
        [pairs[..., 0] * cos - pairs[..., 1] * sin,
         pairs[..., 1] * cos + pairs[..., 0] * sin], -1).flatten(-2)
    return torch.cat([turned, x[..., width:]], -1)


def slopes(count):
    """build_alibi_tensor of BLOOM, without the positions."""
    closest = 2 ** math.floor(math.log2(count))
    base = 2 ** (-(2 ** -(math.log2(closest) - 3)))
    result = [base**power for power in range(1, closest + 1)]
    if closest != count:
        extra = 2 ** (-(2 ** -(math.log2(2 * closest) - 3)))
        rest = min(closest, count - closest)
        result += [extra**power for power in range(1, 2 * rest, 2)]
    return torch.tensor(result, dtype=torch.float64)


def alibi(count, length):
    return slopes(count)[:, None, None] * torch.arange(length)[None, None, :]


def gelu(x):
    return F.gelu(x)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


class Base:
    """Holds config and weights; subclasses define `create` and `logits`."""

    std_key = "initializer_range"

    def __init__(self, config, weights):
        self.c, self.w, self.t = config, weights, weights.tensors
        self.std = config.get(self.std_key, 0.02)
        self.create()

    def new(self, name, rows, columns, bias=False):
        self.w.normal(name + ".weight", (rows, columns), self.std)
        if bias:
            self.w.zeros(name + ".bias", rows)

    def new_norm(self, name, width, bias=False, zero=False):
        (self.w.zeros if zero else self.w.ones)(name + ".weight", width)
        if bias:
            self.w.zeros(name + ".bias", width)

    def linear(self, x, name):
        return F.linear(x, self.t[name + ".weight"], self.t.get(name + ".bias"))

    def rms(self, x, name, eps, offset=0.0):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return x * (offset + self.t[name + ".weight"])

    def layer_norm(self, x, name, eps):
        return F.layer_norm(x, x.shape[-1:], self.t.get(name + ".weight"),
                            self.t.get(name + ".bias"), eps)

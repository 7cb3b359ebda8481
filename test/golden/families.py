"""Models of more families, each as Hugging Face's code of it computes.

Used by reference.py. One class a family; what they share are functions of
tensors. Fused tensors are split by the views of the original code.
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


class LlamaLike(Base):
    """Mistral, Qwen2, Qwen3, OLMo, OLMo2, openPangu."""

    qkv_bias = o_bias = False
    qk_norm = None

    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["intermediate_size"]
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        d = self.d = c.get("head_dim") or h // n
        self.n, self.kv = n, kv
        self.new("model.embed_tokens", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            self.new(p + "self_attn.q_proj", n * d, h, self.qkv_bias)
            self.new(p + "self_attn.k_proj", kv * d, h, self.qkv_bias)
            self.new(p + "self_attn.v_proj", kv * d, h, self.qkv_bias)
            self.new(p + "self_attn.o_proj", h, n * d, self.o_bias)
            if self.qk_norm:
                whole = self.qk_norm == "whole"
                self.new_norm(p + "self_attn.q_norm", n * d if whole else d)
                self.new_norm(p + "self_attn.k_norm", kv * d if whole else d)
            self.new(p + "mlp.gate_proj", f, h)
            self.new(p + "mlp.up_proj", f, h)
            self.new(p + "mlp.down_proj", h, f)
            self.new_norms(p, h)
        self.new_final_norm(h)
        if not c["tie_word_embeddings"]:
            self.new("lm_head", c["vocab_size"], h)

    def new_norms(self, p, h):
        self.new_norm(p + "input_layernorm", h)
        self.new_norm(p + "post_attention_layernorm", h)

    def new_final_norm(self, h):
        self.new_norm("model.norm", h)

    def window(self, layer):
        return None

    def norm(self, x, name):
        return self.rms(x, name, self.c["rms_norm_eps"])

    def attend(self, h, p, layer):
        q = self.linear(h, p + "q_proj")
        k = self.linear(h, p + "k_proj")
        v = self.linear(h, p + "v_proj")
        if self.c.get("clip_qkv") is not None:
            q, k, v = (x.clamp(-self.c["clip_qkv"], self.c["clip_qkv"])
                       for x in (q, k, v))
        if self.qk_norm == "whole":
            q, k = self.norm(q, p + "q_norm"), self.norm(k, p + "k_norm")
        q, k, v = heads(q, self.n), heads(k, self.kv), heads(v, self.kv)
        if self.qk_norm == "head":
            q, k = self.norm(q, p + "q_norm"), self.norm(k, p + "k_norm")
        turn = rotary(self.d, self.c)
        y = attention(rotate(q, *turn), rotate(k, *turn), v,
                      window=self.window(layer))
        return self.linear(merged(y), p + "o_proj")

    def mlp(self, h, p):
        return self.linear(F.silu(self.linear(h, p + "gate_proj"))
                           * self.linear(h, p + "up_proj"), p + "down_proj")

    def block(self, x, p, layer):
        x = x + self.attend(self.norm(x, p + "input_layernorm"),
                            p + "self_attn.", layer)
        return x + self.mlp(self.norm(x, p + "post_attention_layernorm"),
                            p + "mlp.")

    def logits(self, tokens):
        x = self.t["model.embed_tokens.weight"][tokens]
        for i in range(self.c["num_hidden_layers"]):
            x = self.block(x, f"model.layers.{i}.", i)
        tied = self.c["tie_word_embeddings"]
        return self.linear(self.norm(x, "model.norm"),
                           "model.embed_tokens" if tied else "lm_head")


class Mistral(LlamaLike):
    def window(self, layer):
        return self.c["sliding_window"]


class Qwen2(LlamaLike):
    qkv_bias = True

    def window(self, layer):
        c = self.c
        if c["use_sliding_window"] and layer >= c["max_window_layers"]:
            return c["sliding_window"]
        return None


class Qwen3(LlamaLike):
    qk_norm = "head"


class Olmo(LlamaLike):
    def new_norms(self, p, h):
        pass

    def new_final_norm(self, h):
        pass

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], None, None, 1e-5)


class Olmo2(LlamaLike):
    qk_norm = "whole"

    def new_norms(self, p, h):
        self.new_norm(p + "post_attention_layernorm", h)
        self.new_norm(p + "post_feedforward_layernorm", h)

    def block(self, x, p, layer):
        x = x + self.norm(self.attend(x, p + "self_attn.", layer),
                          p + "post_attention_layernorm")
        return x + self.norm(self.mlp(x, p + "mlp."),
                             p + "post_feedforward_layernorm")


class Pangu(LlamaLike):
    qkv_bias = o_bias = True


class Gemma(Base):
    """Gemma 1, 2 and 3 by model_type."""

    def create(self):
        c = self.c
        self.second = c["model_type"] != "gemma"
        self.third = c["model_type"] == "gemma3_text"
        h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        self.new("model.embed_tokens", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            self.new(p + "self_attn.q_proj", n * d, h)
            self.new(p + "self_attn.k_proj", kv * d, h)
            self.new(p + "self_attn.v_proj", kv * d, h)
            self.new(p + "self_attn.o_proj", h, n * d)
            if self.third:
                self.new_norm(p + "self_attn.q_norm", d, zero=True)
                self.new_norm(p + "self_attn.k_norm", d, zero=True)
            self.new(p + "mlp.gate_proj", f, h)
            self.new(p + "mlp.up_proj", f, h)
            self.new(p + "mlp.down_proj", h, f)
            names = ["input_layernorm", "post_attention_layernorm"]
            if self.second:
                names += ["pre_feedforward_layernorm",
                          "post_feedforward_layernorm"]
            for name in names:
                self.new_norm(p + name, h, zero=True)
        self.new_norm("model.norm", h, zero=True)

    def norm(self, x, name):
        return self.rms(x, name, self.c["rms_norm_eps"], offset=1.0)

    def is_local(self, layer):
        if self.third:
            return (layer + 1) % self.c["sliding_window_pattern"] != 0
        return self.second and layer % 2 == 0

    def attend(self, h, p, layer):
        c = self.c
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        q = heads(self.linear(h, p + "q_proj"), n)
        k = heads(self.linear(h, p + "k_proj"), kv)
        v = heads(self.linear(h, p + "v_proj"), kv)
        if self.third:
            q, k = self.norm(q, p + "q_norm"), self.norm(k, p + "k_norm")
        local = self.is_local(layer)
        base, factor = c["rope_theta"], 1.0
        if self.third and local:
            base = c["rope_local_base_freq"]
        elif self.third and c.get("rope_scaling"):
            factor = c["rope_scaling"]["factor"]
        inverse = frequencies(c["head_dim"], base, factor)
        scalar = c["query_pre_attn_scalar"] if self.second else c["head_dim"]
        y = attention(rotate(q, inverse), rotate(k, inverse), v,
                      scale=scalar**-0.5,
                      window=c["sliding_window"] if local else None,
                      cap=c.get("attn_logit_softcapping"))
        return self.linear(merged(y), p + "o_proj")

    def mlp(self, h, p):
        return self.linear(gelu_tanh(self.linear(h, p + "gate_proj"))
                           * self.linear(h, p + "up_proj"), p + "down_proj")

    def logits(self, tokens):
        c = self.c
        table = self.t["model.embed_tokens.weight"]
        x = table[tokens] * math.sqrt(c["hidden_size"])
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            y = self.attend(self.norm(x, p + "input_layernorm"),
                            p + "self_attn.", i)
            if not self.second:
                x = x + y
                x = x + self.mlp(self.norm(x, p + "post_attention_layernorm"),
                                 p + "mlp.")
                continue
            x = x + self.norm(y, p + "post_attention_layernorm")
            y = self.mlp(self.norm(x, p + "pre_feedforward_layernorm"),
                         p + "mlp.")
            x = x + self.norm(y, p + "post_feedforward_layernorm")
        y = F.linear(self.norm(x, "model.norm"), table)
        cap = c.get("final_logit_softcapping")
        return y if cap is None else torch.tanh(y / cap) * cap


class Neox(Base):
    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["intermediate_size"]
        self.new("gpt_neox.embed_in", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"gpt_neox.layers.{i}."
            self.new_norm(p + "input_layernorm", h, True)
            self.new_norm(p + "post_attention_layernorm", h, True)
            self.new(p + "attention.query_key_value", 3 * h, h, True)
            self.new(p + "attention.dense", h, h, True)
            self.new(p + "mlp.dense_h_to_4h", f, h, True)
            self.new(p + "mlp.dense_4h_to_h", h, f, True)
        self.new_norm("gpt_neox.final_layer_norm", h, True)
        self.new("embed_out", c["vocab_size"], h)

    def logits(self, tokens):
        c, eps = self.c, self.c["layer_norm_eps"]
        n = c["num_attention_heads"]
        d = c["hidden_size"] // n
        inverse = frequencies(int(d * c["rotary_pct"]), c["rotary_emb_base"])
        x = self.t["gpt_neox.embed_in.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            p = f"gpt_neox.layers.{i}."
            h = self.layer_norm(x, p + "input_layernorm", eps)
            qkv = self.linear(h, p + "attention.query_key_value")
            q, k, v = qkv.unflatten(-1, (n, 3 * d)).transpose(1, 2).chunk(3, -1)
            y = attention(rotate(q, inverse), rotate(k, inverse), v)
            y = self.linear(merged(y), p + "attention.dense")
            parallel = c["use_parallel_residual"]
            h = self.layer_norm(x if parallel else x + y,
                                p + "post_attention_layernorm", eps)
            m = self.linear(gelu(self.linear(h, p + "mlp.dense_h_to_4h")),
                            p + "mlp.dense_4h_to_h")
            x = m + y + x
        x = self.layer_norm(x, "gpt_neox.final_layer_norm", eps)
        return self.linear(x, "embed_out")


class Opt(Base):
    std_key = "init_std"

    def create(self):
        c = self.c
        h, f, narrow = c["hidden_size"], c["ffn_dim"], c["word_embed_proj_dim"]
        self.new("model.decoder.embed_tokens", c["vocab_size"], narrow)
        if narrow != h:
            self.new("model.decoder.project_in", h, narrow)
            self.new("model.decoder.project_out", narrow, h)
        self.new("model.decoder.embed_positions",
                 c["max_position_embeddings"] + 2, h)
        if c["do_layer_norm_before"]:
            self.new_norm("model.decoder.final_layer_norm", h, True)
        for i in range(c["num_hidden_layers"]):
            p = f"model.decoder.layers.{i}."
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                self.new(p + "self_attn." + name, h, h, True)
            self.new_norm(p + "self_attn_layer_norm", h, True)
            self.new(p + "fc1", f, h, True)
            self.new(p + "fc2", h, f, True)
            self.new_norm(p + "final_layer_norm", h, True)

    def logits(self, tokens):
        c, n = self.c, self.c["num_attention_heads"]
        before = c["do_layer_norm_before"]
        narrow = c["word_embed_proj_dim"] != c["hidden_size"]
        table = self.t["model.decoder.embed_tokens.weight"]
        rows = torch.arange(tokens.shape[-1]) + 2
        x = table[tokens]
        if narrow:
            x = self.linear(x, "model.decoder.project_in")
        x = x + self.t["model.decoder.embed_positions.weight"][rows]
        for i in range(c["num_hidden_layers"]):
            p = f"model.decoder.layers.{i}."
            h = x
            if before:
                h = self.layer_norm(h, p + "self_attn_layer_norm", 1e-5)
            q, k, v = (heads(self.linear(h, p + "self_attn." + name), n)
                       for name in ("q_proj", "k_proj", "v_proj"))
            x = x + self.linear(merged(attention(q, k, v)),
                                p + "self_attn.out_proj")
            if not before:
                x = self.layer_norm(x, p + "self_attn_layer_norm", 1e-5)
            h = x
            if before:
                h = self.layer_norm(h, p + "final_layer_norm", 1e-5)
            x = x + self.linear(torch.relu(self.linear(h, p + "fc1")),
                                p + "fc2")
            if not before:
                x = self.layer_norm(x, p + "final_layer_norm", 1e-5)
        if before:
            x = self.layer_norm(x, "model.decoder.final_layer_norm", 1e-5)
        if narrow:
            x = self.linear(x, "model.decoder.project_out")
        return F.linear(x, table)


class Bloom(Base):
    def create(self):
        c = self.c
        h = c["n_embed"]
        self.new("transformer.word_embeddings", c["vocab_size"], h)
        self.new_norm("transformer.word_embeddings_layernorm", h, True)
        for i in range(c["n_layer"]):
            p = f"transformer.h.{i}."
            self.new_norm(p + "input_layernorm", h, True)
            self.new(p + "self_attention.query_key_value", 3 * h, h, True)
            self.new(p + "self_attention.dense", h, h, True)
            self.new_norm(p + "post_attention_layernorm", h, True)
            self.new(p + "mlp.dense_h_to_4h", 4 * h, h, True)
            self.new(p + "mlp.dense_4h_to_h", h, 4 * h, True)
        self.new_norm("transformer.ln_f", h, True)

    def logits(self, tokens):
        c, eps = self.c, self.c["layer_norm_epsilon"]
        n = c["num_attention_heads"]
        d = c["n_embed"] // n
        post = c["apply_residual_connection_post_layernorm"]
        table = self.t["transformer.word_embeddings.weight"]
        x = self.layer_norm(table[tokens],
                            "transformer.word_embeddings_layernorm", eps)
        bias = alibi(n, tokens.shape[-1])
        for i in range(c["n_layer"]):
            p = f"transformer.h.{i}."
            h = self.layer_norm(x, p + "input_layernorm", eps)
            residual = h if post else x
            qkv = self.linear(h, p + "self_attention.query_key_value")
            q, k, v = (qkv.unflatten(-1, (n, 3, d))[..., j, :].transpose(1, 2)
                       for j in range(3))
            y = attention(q, k, v, bias=bias)
            x = residual + self.linear(merged(y), p + "self_attention.dense")
            h = self.layer_norm(x, p + "post_attention_layernorm", eps)
            residual = h if post else x
            h = gelu_tanh(self.linear(h, p + "mlp.dense_h_to_4h"))
            x = residual + self.linear(h, p + "mlp.dense_4h_to_h")
        return F.linear(self.layer_norm(x, "transformer.ln_f", eps), table)


class Falcon(Base):
    def create(self):
        c = self.c
        h, n = c["hidden_size"], c["num_attention_heads"]
        d = self.d = h // n
        self.newer = c["new_decoder_architecture"]
        self.kv = c["num_kv_heads"] if self.newer else (
            1 if c["multi_query"] else n)
        bias = c["bias"]
        self.new("transformer.word_embeddings", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"transformer.h.{i}."
            if self.newer:
                self.new_norm(p + "ln_attn", h, True)
                self.new_norm(p + "ln_mlp", h, True)
            else:
                self.new_norm(p + "input_layernorm", h, True)
                if not c["parallel_attn"]:
                    self.new_norm(p + "post_attention_layernorm", h, True)
            self.new(p + "self_attention.query_key_value",
                     (n + 2 * self.kv) * d, h, bias)
            self.new(p + "self_attention.dense", h, h, bias)
            self.new(p + "mlp.dense_h_to_4h", 4 * h, h, bias)
            self.new(p + "mlp.dense_4h_to_h", h, 4 * h, bias)
        self.new_norm("transformer.ln_f", h, True)

    def split(self, qkv):
        n, kv, d = self.c["num_attention_heads"], self.kv, self.d
        if self.newer:
            parts = qkv.unflatten(-1, (kv, n // kv + 2, d))
            q = parts[..., :-2, :].flatten(-3, -2)
            k, v = parts[..., -2, :], parts[..., -1, :]
        elif kv == n:
            q, k, v = qkv.unflatten(-1, (n, 3, d)).unbind(-2)
        else:
            parts = qkv.unflatten(-1, (n + 2, d))
            q, k, v = (parts[..., :-2, :], parts[..., [-2], :],
                       parts[..., [-1], :])
        return (y.transpose(1, 2) for y in (q, k, v))

    def logits(self, tokens):
        c, eps = self.c, self.c["layer_norm_epsilon"]
        table = self.t["transformer.word_embeddings.weight"]
        inverse = frequencies(self.d, 10000.0)
        x = table[tokens]
        for i in range(c["num_hidden_layers"]):
            p = f"transformer.h.{i}."
            h = self.layer_norm(
                x, p + ("ln_attn" if self.newer else "input_layernorm"), eps)
            q, k, v = self.split(
                self.linear(h, p + "self_attention.query_key_value"))
            bias = None
            if c["alibi"]:
                # Falcon scales scores and biases together.
                bias = (alibi(c["num_attention_heads"], tokens.shape[-1])
                        * self.d**-0.5)
            else:
                q, k = rotate(q, inverse), rotate(k, inverse)
            y = self.linear(merged(attention(q, k, v, bias=bias)),
                            p + "self_attention.dense")
            if self.newer:
                h = self.layer_norm(x, p + "ln_mlp", eps)
            elif not c["parallel_attn"]:
                x = x + y
                h = self.layer_norm(x, p + "post_attention_layernorm", eps)
            m = self.linear(gelu(self.linear(h, p + "mlp.dense_h_to_4h")),
                            p + "mlp.dense_4h_to_h")
            if self.newer or c["parallel_attn"]:
                m = m + y
            x = m + x
        return F.linear(self.layer_norm(x, "transformer.ln_f", eps), table)


class Phi(Base):
    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["intermediate_size"]
        self.new("model.embed_tokens", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            self.new_norm(p + "input_layernorm", h, True)
            for name in ("q_proj", "k_proj", "v_proj", "dense"):
                self.new(p + "self_attn." + name, h, h, True)
            if c["qk_layernorm"]:
                d = h // c["num_attention_heads"]
                self.new_norm(p + "self_attn.q_layernorm", d, True)
                self.new_norm(p + "self_attn.k_layernorm", d, True)
            self.new(p + "mlp.fc1", f, h, True)
            self.new(p + "mlp.fc2", h, f, True)
        self.new_norm("model.final_layernorm", h, True)
        self.new("lm_head", c["vocab_size"], h, True)

    def logits(self, tokens):
        c, eps = self.c, self.c["layer_norm_eps"]
        n = c["num_attention_heads"]
        d = c["hidden_size"] // n
        inverse = frequencies(int(d * c["partial_rotary_factor"]),
                              c["rope_theta"])
        x = self.t["model.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            h = self.layer_norm(x, p + "input_layernorm", eps)
            q, k, v = (heads(self.linear(h, p + "self_attn." + name), n)
                       for name in ("q_proj", "k_proj", "v_proj"))
            if c["qk_layernorm"]:
                q = self.layer_norm(q, p + "self_attn.q_layernorm", eps)
                k = self.layer_norm(k, p + "self_attn.k_layernorm", eps)
            y = merged(attention(rotate(q, inverse), rotate(k, inverse), v))
            m = self.linear(gelu_tanh(self.linear(h, p + "mlp.fc1")),
                            p + "mlp.fc2")
            x = self.linear(y, p + "self_attn.dense") + m + x
        return self.linear(self.layer_norm(x, "model.final_layernorm", eps),
                           "lm_head")


class Starcoder2(Base):
    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["intermediate_size"]
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        d = h // n
        self.new("model.embed_tokens", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            self.new(p + "self_attn.q_proj", n * d, h, True)
            self.new(p + "self_attn.k_proj", kv * d, h, True)
            self.new(p + "self_attn.v_proj", kv * d, h, True)
            self.new(p + "self_attn.o_proj", h, n * d, True)
            self.new(p + "mlp.c_fc", f, h, True)
            self.new(p + "mlp.c_proj", h, f, True)
            self.new_norm(p + "input_layernorm", h, True)
            self.new_norm(p + "post_attention_layernorm", h, True)
        self.new_norm("model.norm", h, True)

    def logits(self, tokens):
        c, eps = self.c, self.c["norm_epsilon"]
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        inverse = frequencies(c["hidden_size"] // n, c["rope_theta"])
        table = self.t["model.embed_tokens.weight"]
        x = table[tokens]
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            h = self.layer_norm(x, p + "input_layernorm", eps)
            q = rotate(heads(self.linear(h, p + "self_attn.q_proj"), n),
                       inverse)
            k = rotate(heads(self.linear(h, p + "self_attn.k_proj"), kv),
                       inverse)
            v = heads(self.linear(h, p + "self_attn.v_proj"), kv)
            y = merged(attention(q, k, v, window=c["sliding_window"]))
            x = x + self.linear(y, p + "self_attn.o_proj")
            h = self.layer_norm(x, p + "post_attention_layernorm", eps)
            x = x + self.linear(gelu_tanh(self.linear(h, p + "mlp.c_fc")),
                                p + "mlp.c_proj")
        return F.linear(self.layer_norm(x, "model.norm", eps), table)


class Qwen(Base):
    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["intermediate_size"] // 2
        width = c["kv_channels"] * c["num_attention_heads"]
        self.new("transformer.wte", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"transformer.h.{i}."
            self.new_norm(p + "ln_1", h)
            self.new(p + "attn.c_attn", 3 * width, h, True)
            self.new(p + "attn.c_proj", h, width)
            self.new_norm(p + "ln_2", h)
            self.new(p + "mlp.w1", f, h)
            self.new(p + "mlp.w2", f, h)
            self.new(p + "mlp.c_proj", h, f)
        self.new_norm("transformer.ln_f", h)
        self.new("lm_head", c["vocab_size"], h)

    def logits(self, tokens):
        c, eps = self.c, self.c["layer_norm_epsilon"]
        n = c["num_attention_heads"]
        inverse = frequencies(c["kv_channels"], c["rotary_emb_base"])
        x = self.t["transformer.wte.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            p = f"transformer.h.{i}."
            h = self.rms(x, p + "ln_1", eps)
            q, k, v = (heads(y, n) for y in
                       self.linear(h, p + "attn.c_attn").chunk(3, -1))
            y = merged(attention(rotate(q, inverse), rotate(k, inverse), v))
            x = x + self.linear(y, p + "attn.c_proj")
            h = self.rms(x, p + "ln_2", eps)
            y = self.linear(h, p + "mlp.w1") * F.silu(
                self.linear(h, p + "mlp.w2"))
            x = x + self.linear(y, p + "mlp.c_proj")
        return self.linear(self.rms(x, "transformer.ln_f", eps), "lm_head")


class Chatglm(Base):
    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["ffn_hidden_size"]
        n, kv, d = (c["num_attention_heads"], c["multi_query_group_num"],
                    c["kv_channels"])
        self.new("transformer.embedding.word_embeddings",
                 c["padded_vocab_size"], h)
        for i in range(c["num_layers"]):
            p = f"transformer.encoder.layers.{i}."
            self.new_norm(p + "input_layernorm", h)
            self.new(p + "self_attention.query_key_value", (n + 2 * kv) * d, h,
                     True)
            self.new(p + "self_attention.dense", h, n * d)
            self.new_norm(p + "post_attention_layernorm", h)
            self.new(p + "mlp.dense_h_to_4h", 2 * f, h)
            self.new(p + "mlp.dense_4h_to_h", h, f)
        self.new_norm("transformer.encoder.final_layernorm", h)
        self.new("transformer.output_layer", c["padded_vocab_size"], h)

    def logits(self, tokens):
        c, eps = self.c, self.c["layernorm_epsilon"]
        n, kv, d = (c["num_attention_heads"], c["multi_query_group_num"],
                    c["kv_channels"])
        inverse = frequencies(d // 2, 10000.0)
        x = self.t["transformer.embedding.word_embeddings.weight"][tokens]
        for i in range(c["num_layers"]):
            p = f"transformer.encoder.layers.{i}."
            h = self.rms(x, p + "input_layernorm", eps)
            q, k, v = self.linear(
                h, p + "self_attention.query_key_value").split(
                    [n * d, kv * d, kv * d], -1)
            y = merged(attention(rotate_neighbours(heads(q, n), inverse),
                                 rotate_neighbours(heads(k, kv), inverse),
                                 heads(v, kv)))
            x = x + self.linear(y, p + "self_attention.dense")
            h = self.rms(x, p + "post_attention_layernorm", eps)
            gate, up = self.linear(h, p + "mlp.dense_h_to_4h").chunk(2, -1)
            x = x + self.linear(F.silu(gate) * up, p + "mlp.dense_4h_to_h")
        x = self.rms(x, "transformer.encoder.final_layernorm", eps)
        return self.linear(x, "transformer.output_layer")


class Phi3(Base):
    def create(self):
        c = self.c
        h, f = c["hidden_size"], c["intermediate_size"]
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        d = h // n
        self.new("model.embed_tokens", c["vocab_size"], h)
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            self.new(p + "self_attn.qkv_proj", (n + 2 * kv) * d, h)
            self.new(p + "self_attn.o_proj", h, n * d)
            self.new(p + "mlp.gate_up_proj", 2 * f, h)
            self.new(p + "mlp.down_proj", h, f)
            self.new_norm(p + "input_layernorm", h)
            self.new_norm(p + "post_attention_layernorm", h)
        self.new_norm("model.norm", h)
        self.new("lm_head", c["vocab_size"], h)

    def logits(self, tokens):
        c, eps = self.c, self.c["rms_norm_eps"]
        n, kv = c["num_attention_heads"], c["num_key_value_heads"]
        d = c["hidden_size"] // n
        turn = rotary(d, c)
        x = self.t["model.embed_tokens.weight"][tokens]
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            h = self.rms(x, p + "input_layernorm", eps)
            qkv = self.linear(h, p + "self_attn.qkv_proj")
            q = rotate(heads(qkv[..., :n * d], n), *turn)
            k = rotate(heads(qkv[..., n * d:(n + kv) * d], kv), *turn)
            v = heads(qkv[..., (n + kv) * d:], kv)
            y = merged(attention(q, k, v, window=c["sliding_window"]))
            x = x + self.linear(y, p + "self_attn.o_proj")
            h = self.rms(x, p + "post_attention_layernorm", eps)
            gate, up = self.linear(h, p + "mlp.gate_up_proj").chunk(2, -1)
            x = x + self.linear(up * F.silu(gate), p + "mlp.down_proj")
        return self.linear(self.rms(x, "model.norm", eps), "lm_head")


MODELS = {
    "mistral": Mistral, "qwen2": Qwen2, "qwen3": Qwen3, "olmo": Olmo,
    "olmo2": Olmo2, "PanguEmbedded": Pangu, "gemma": Gemma, "gemma2": Gemma,
    "gemma3_text": Gemma, "gpt_neox": Neox, "opt": Opt, "bloom": Bloom,
    "falcon": Falcon, "phi": Phi, "starcoder2": Starcoder2, "qwen": Qwen,
    "chatglm": Chatglm, "phi3": Phi3,
}

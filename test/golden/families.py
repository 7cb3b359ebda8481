"""Models of more families, each as Hugging Face's code of it computes.

Used by reference.py. One class a family; those after GPT-2 are in
families_gpt.py, what families share in layers.py.
"""
import math

import torch

from families_gpt import Bloom, Falcon, Neox, Opt, Phi, Starcoder2
from layers import (F, attention, Base, frequencies, gelu_tanh, heads, merged, rotary,
                    rotate, rotate_neighbours)


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

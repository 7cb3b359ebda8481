"""GPT-NeoX, OPT, BLOOM, Falcon, Phi and StarCoder2, each as Hugging Face's code of
it computes: one class a family.
"""
import torch

from layers import (F, alibi, attention, Base, frequencies, gelu, gelu_tanh, heads,
                    merged, rotate)


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

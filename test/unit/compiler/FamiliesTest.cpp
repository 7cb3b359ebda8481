// What the odd keys of configs mean, and which of them are refused.
#include "Configs.h"

#include <cmath>

using namespace shardwright;
using namespace shardwright::test;

TEST_CASE("absent key/value heads are the default of the family, null all") {
  CHECK(accepted(small("mistral", "")).kvHeads == 8);
  CHECK(accepted(small("mistral", R"("num_key_value_heads": null)")).kvHeads ==
        8);
  CHECK(accepted(small("starcoder2", "")).kvHeads == 2);
  CHECK(accepted(small("phi", "")).kvHeads == 8);
  CHECK(has(refusal(small("qwen2", ""), cost::FailureKind::Input),
            "#/num_key_value_heads: expected a divisor of num_attention_heads "
            "(8), but got 32, the default of the family"));
}

TEST_CASE("windows by layer") {
  ModelSpec spec = accepted(small("mistral", ""));
  CHECK(spec.kinds == std::vector<LayerKind>{{"dense", 4096, Rope()}});
  spec = accepted(small("mistral", R"("sliding_window": null)"));
  CHECK(spec.kinds[0].window == 0);

  const std::string qwen = R"("num_key_value_heads": 4, "sliding_window": 16)";
  CHECK(accepted(small("qwen2", qwen)).kinds.size() == 1);
  spec = accepted(small("qwen2", qwen + R"(, "use_sliding_window": true,
      "max_window_layers": 4)"));
  REQUIRE(spec.kinds.size() == 2);
  CHECK(spec.stack == std::vector<LayerRun>{{1, 4}, {0, 2}});
  CHECK(spec.kinds[0].window == 16);
  CHECK(spec.kinds[1].window == 0);

  spec = accepted(small("gemma2", R"("num_key_value_heads": 4)"));
  CHECK(spec.stack ==
        std::vector<LayerRun>{{0, 1}, {1, 1}, {0, 1}, {1, 1}, {0, 1}, {1, 1}});
  CHECK(spec.kinds[0].window == 4096);
  CHECK(spec.attentionSoftcap == 50);
  CHECK(spec.logitSoftcap == 30);
  CHECK(spec.attentionScale == 1.0 / 16);
  spec = accepted(small("gemma2", R"("num_key_value_heads": 4,
      "attn_logit_softcapping": null, "final_logit_softcapping": null)"));
  CHECK(spec.attentionSoftcap == 0);
  CHECK(spec.logitSoftcap == 0);

  spec = accepted(small("gemma3_text", R"("num_key_value_heads": 4,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0})"));
  CHECK(spec.stack == std::vector<LayerRun>{{0, 5}, {1, 1}});
  CHECK(spec.kinds[0].rope.theta == 1e4);
  CHECK_FALSE(spec.kinds[0].rope.scaling);
  CHECK(spec.kinds[1].rope.theta == 1e6);
  CHECK(spec.kinds[1].rope.scaling);

  const std::string types = R"("num_key_value_heads": 4, "layer_types": [
      "full_attention", "sliding_attention", "sliding_attention",
      "full_attention", "full_attention", )";
  spec = accepted(small("gemma3_text", types + R"("sliding_attention"])"));
  CHECK(spec.stack == std::vector<LayerRun>{{1, 1}, {0, 2}, {1, 2}, {0, 1}});
  CHECK(has(refusal(small("gemma3_text", types + R"("chunked_attention"])")),
            "#/layer_types: expected \"sliding_attention\" or "
            "\"full_attention\", but got \"chunked_attention\""));
  CHECK(has(refusal(small("gemma3_text", types + R"("x", "y"])"),
                    cost::FailureKind::Input),
            "#/layer_types: expected a list of num_hidden_layers (6) strings, "
            "but got 7"));
}

TEST_CASE("sizes under several names") {
  const std::string bloom = R"({"model_type": "bloom", "vocab_size": 300, )";
  const std::string sizes = R"("n_layer": 2, "n_head": 4, "n_embed": 32)";
  CHECK(accepted(bloom + sizes + "}").hidden == 32);
  CHECK(accepted(bloom + R"("num_hidden_layers": 2, "hidden_size": 32,
      "num_attention_heads": 4})")
            .layers == 2);
  CHECK(accepted(bloom + sizes + R"(, "hidden_size": 32})").hidden == 32);
  CHECK(has(refusal(bloom + sizes + R"(, "hidden_size": 48})",
                    cost::FailureKind::Input),
            "#/n_embed: expected the value of hidden_size (48), but got 32"));
}

TEST_CASE("names of the attribute maps of Hugging Face's classes") {
  const ModelSpec gpt2 = accepted(R"({"model_type": "gpt2", "hidden_size": 64,
      "num_hidden_layers": 3, "num_attention_heads": 4,
      "max_position_embeddings": 32, "vocab_size": 300})");
  CHECK(gpt2.hidden == 64);
  CHECK(gpt2.layers == 3);
  CHECK(gpt2.heads == 4);
  CHECK(gpt2.positions == 32);
  CHECK(gpt2.notes.empty());
  CHECK(accepted(R"({"model_type": "opt", "d_model": 96})").hidden == 96);
  CHECK(accepted(R"({"model_type": "falcon", "n_embed": 142})").hidden == 142);
  CHECK(
      has(refusal(R"({"model_type": "gpt2", "hidden_size": 64, "n_embd": 32})",
                  cost::FailureKind::Input),
          "#/hidden_size: expected the value of n_embd (32), but got 64"));
}

TEST_CASE("absent keys are those of the configuration class, and noted") {
  // Totals are those of the models after which the classes are made, where
  // there is one.
  const struct {
    const char *family;
    int64_t parameters;
    const char *noted;
  } cases[] = {
      {"llama", 6738415616, "hidden_size 4096, num_hidden_layers 32"},
      {"mistral", 7241732096, "num_key_value_heads 8"},
      {"qwen2", 12049846272, "intermediate_size 22016"},
      {"qwen3", 12049461248, "head_dim 128"},
      {"gpt2", 124439808,
       "n_embd 768, n_layer 12, n_head 12, vocab_size 50257, n_positions 1024"},
      {"gpt_neox", 20554567680, "max_position_embeddings 2048"},
      {"opt", 125239296, "ffn_dim 3072"},
      {"falcon", 6921720704, "num_attention_heads 71"},
      {"phi", 1418270720, "hidden_size 2048"},
      {"phi3", 3821079552, "vocab_size 32064"},
      {"starcoder2", 3030371328, "num_key_value_heads 2"},
      {"gemma", 8537680896, "head_dim 256"},
      {"gemma2", 2614341888, "num_hidden_layers 26"},
      {"qwen", 7721324544, "kv_channels 128"},
      {"PanguEmbedded", 8030887936, "num_hidden_layers 34"},
  };
  for (const auto &c : cases) {
    INFO(c.family);
    const ModelSpec spec =
        accepted(R"({"model_type": ")" + std::string(c.family) + "\"}");
    CHECK(total(spec) == c.parameters);
    REQUIRE(spec.notes.size() == 1);
    CHECK(has(spec.notes[0], "config.json: the config leaves out, and the "
                             "configuration class of the family has: "));
    CHECK(has(spec.notes[0], c.noted));
  }
  // The text model of Gemma 3 4B states what differs from the class alone.
  const ModelSpec gemma = accepted(R"({"model_type": "gemma3", "text_config": {
      "model_type": "gemma3_text", "hidden_size": 2560,
      "intermediate_size": 10240, "num_hidden_layers": 34,
      "sliding_window": 1024}})");
  CHECK(total(gemma) == 3880263168);
  CHECK(has(gemma.notes[0], "config.json#/text_config: the config leaves out"));
  CHECK_FALSE(has(gemma.notes[0], "hidden_size"));
  // What the config states is no default, and null is no absent key.
  CHECK(has(refusal(R"({"model_type": "llama", "num_hidden_layers": null})",
                    cost::FailureKind::Input),
            "#/num_hidden_layers: expected an integer from 1 to 65536, but got "
            "null"));
}

TEST_CASE("names that families had before transformers took them up") {
  // config.json of falcon-7b and -40b as first published, without token ids.
  const std::string rw = R"({"architectures": ["RWForCausalLM"],
      "apply_residual_connection_post_layernorm": false, "bias": false,
      "alibi": false, "attention_dropout": 0.0, "hidden_dropout": 0.0,
      "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
      "vocab_size": 65024, )";
  const std::string small7 =
      rw + R"("model_type": "RefinedWebModel", "hidden_size": 4544,
              "n_head": 71, "n_layer": 32)";
  const std::string large40 =
      rw + R"("model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128,
              "n_layer": 60)";
  const ModelSpec seven =
      accepted(small7 + R"(, "multi_query": true, "parallel_attn": true})");
  CHECK(seven.family == "falcon");
  CHECK(total(seven) == 6921720704); // as of tiiuae/falcon-7b today
  CHECK(seven.kvHeads == 1);
  CHECK(has(seven.notes.front(), "config.json#/model_type: RWForCausalLM is "
                                 "an older name; read as falcon"));
  const ModelSpec forty =
      accepted(large40 + R"(, "n_head_kv": 8, "parallel_attn": true})");
  const ModelSpec now = accepted(R"({"model_type": "falcon",
      "architectures": ["FalconForCausalLM"], "hidden_size": 8192,
      "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8,
      "new_decoder_architecture": true, "vocab_size": 65024})");
  CHECK(forty.family == "falcon");
  CHECK(forty.kvHeads == 8);
  CHECK(total(forty) == total(now));
  CHECK(forty.names.mlpNorm == "transformer.h.{}.ln_mlp");
  // Absent keys meant something else under that name.
  CHECK(has(refusal(small7 + R"(, "parallel_attn": true})",
                    cost::FailureKind::Input),
            "#/multi_query: expected the key, whose absence meant something "
            "else under the name \"RefinedWebModel\", but got no such key"));
  CHECK(has(refusal(large40 + "}", cost::FailureKind::Input),
            "#/n_head_kv: expected the key"));
  CHECK(has(refusal(large40 + R"(, "n_head_kv": 8, "parallel_attn": true,
                    "new_decoder_architecture": false})",
                    cost::FailureKind::Input),
            "#/new_decoder_architecture: expected true, as it always is under "
            "the name \"RefinedWeb\", but got false"));
  // Keys that the family does not have are refused as ever.
  CHECK(has(refusal(small7 + R"(, "multi_query": true, "parallel_attn": true,
                    "some_new_norm": 2})",
                    cost::FailureKind::Unsupported),
            "some_new_norm"));
  // The architecture alone is an old name, too.
  CHECK(accepted(R"({"model_type": "llama",
                     "architectures": ["LLaMAForCausalLM"]})")
            .family == "llama");
  CHECK(accepted(R"({"model_type": "Yi", "architectures": ["YiForCausalLM"],
                     "num_key_value_heads": 4})")
            .family == "llama");
  CHECK(has(refusal(R"({"model_type": "Yi",
                        "architectures": ["LlamaForCausalLM2"]})",
                    cost::FailureKind::Unsupported),
            "#/architectures: expected"));
  CHECK(has(refusal(R"({"model_type": "phi-msft"})",
                    cost::FailureKind::Unsupported),
            "\"phi-msft\": keys of its first own code"));
}

TEST_CASE("rotary parameters as later classes write them") {
  ModelSpec spec = accepted(small("gemma3_text", R"("num_key_value_heads": 4,
      "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0,
                           "rope_theta": 2e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}})"));
  CHECK(spec.kinds[0].rope.theta == 3e4);
  CHECK_FALSE(spec.kinds[0].rope.scaling);
  CHECK(spec.kinds[1].rope.theta == 2e6);
  CHECK(spec.kinds[1].rope.scaling);
  const std::string half = R"("rope_parameters": {"rope_type": "default",
      "rope_theta": 1e4, "partial_rotary_factor": )";
  CHECK(accepted(small("phi", half + "0.25}")).kinds[0].rope.width == 2);
  CHECK(accepted(small("phi", half + R"(0.25}, "partial_rotary_factor": 0.25)"))
            .kinds[0]
            .rope.width == 2);
  CHECK(
      has(refusal(small("phi", half + R"(0.5}, "partial_rotary_factor": 0.25)"),
                  cost::FailureKind::Input),
          "#/partial_rotary_factor: expected the value of rope_parameters"));
  CHECK(accepted(small("llama", half + "1.0}")).kinds[0].rope.width == -1);
  CHECK(has(refusal(small("llama", half + "0.5}")),
            "#/rope_parameters: expected a partial_rotary_factor of 1"));
}

TEST_CASE("a wrapper around a text model alone is read") {
  const std::string text = small("gemma3_text", R"("num_key_value_heads": 4)");
  CHECK(accepted(R"({"model_type": "gemma3", "text_config": )" + text + "}")
            .family == "gemma3_text");
  CHECK_FALSE(accepted(R"({"model_type": "gemma3", "tie_word_embeddings": false,
      "text_config": )" +
                       text + "}")
                  .tied);
  CHECK(has(refusal(R"({"model_type": "gemma3", "vision_config": {},
      "text_config": )" +
                    text + "}"),
            "#/model_type: expected a supported decoder of text, but got "
            "\"gemma3\": a vision tower, which is not supported"));
  CHECK(has(refusal(R"({"model_type": "new_vl", "vision_config": {},
      "text_config": )" +
                    text + "}"),
            "#/vision_config: expected a text model alone"));
  // What is on top besides may be a part of the computation.
  CHECK(has(refusal(R"({"projector": {"width": 8}, "text_config": )" + text +
                    "}"),
            "#/projector: expected only known keys"));
  CHECK(has(refusal(R"({"hidden_size": 32, "text_config": )" + text + "}"),
            "#/hidden_size: expected only known keys"));
  CHECK(accepted(R"({"hidden_size": 64, "image_token_index": 9,
      "torch_dtype": "bfloat16", "audio_config": null, "text_config": )" +
                 text + "}")
            .hidden == 64);
  std::string both = text;
  both.insert(1, R"("tie_word_embeddings": false, )");
  CHECK(has(refusal(R"({"tie_word_embeddings": true, "text_config": )" + both +
                        "}",
                    cost::FailureKind::Input),
            "#/tie_word_embeddings: expected the value in text_config (false), "
            "but got true"));
}

TEST_CASE("what is no known decoder is refused with the reason") {
  const std::pair<const char *, const char *> cases[] = {
      {"jamba", "state-space layers and a mixture of experts"},
      {"nemotron_h", "state-space layers"},
      {"mamba2", "state-space layers"},
      {"lfm2", "short convolutions"},
      {"t5", "an encoder and a decoder"},
      {"bart", "an encoder and a decoder"},
      {"whisper", "an encoder and a decoder"},
      {"bert", "an encoder, which predicts no next token"},
      {"vit", "an image classifier"},
      {"llava", "a vision tower"},
      {"molmo", "a vision tower"},
      {"gemma3", "a vision tower"},
      {"gemma4", "heads of several widths and a vision tower"},
      {"kimi_k25", "a vision tower"},
      {"qwen3_next", "linear-attention layers"},
      {"qwen3_5", "linear-attention layers and a vision tower"},
      {"qwen3_5_moe", "linear-attention layers and a vision tower"},
      {"deepseek_v32", "sparse latent attention"},
      {"deepseek_v4", "sparse latent attention"},
      {"glm_moe_dsa", "sparse latent attention"},
      {"granite", "scales of embeddings, residuals and logits"},
      {"gptj", "rotary positions in pairs of neighbours beside parallel "
               "attention"},
      {"smollm3", "layers without positions"},
      {"baichuan", "positions and a head that its config does not tell"},
      {"rwkv", "recurrent layers"},
      {"qwen2_audio", "an audio tower"},
      {"moe", "a description of another tool, not a Hugging Face config"}};
  for (const auto &[type, why] : cases)
    CHECK(has(refusal(R"({"model_type": ")" + std::string(type) +
                      R"(", "time_step_limit": [0.0, Infinity]})"),
              "but got \"" + std::string(type) + "\": " + why +
                  ", which is not supported"));
  CHECK(has(refusal(R"({"dim": 64, "n_layers": 2, "n_heads": 4,
      "n_routed_experts": 8})"),
            "DeepSeek's own code, not a Hugging Face config"));
  CHECK(has(refusal(R"({"vision_chunk_size": 448, "dim": 4096})"),
            "a vision tower"));
  CHECK(has(refusal(R"({"encoder_layers": 32, "decoder_layers": 4})"),
            "an encoder and a decoder"));
  // Nothing is known of it: what there is.
  CHECK(has(refusal(R"({"model_type": "new_decoder"})"),
            "#/model_type: expected one of \"llama\", \"mistral\", "));
  // Keys of another tool beside a name of Hugging Face.
  CHECK(has(refusal(R"({"model_type": "gpt2", "hidden_dim": 64,
      "ffn_embed_dim": 256, "n_head": 4, "num_layers": 2})"),
            "a description of another tool, not a Hugging Face config"));
}

TEST_CASE("an FFN width absent or doubled") {
  const std::string gpt2 =
      R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4)";
  CHECK(accepted(gpt2 + "}").ffn == 256);
  CHECK(accepted(gpt2 + R"(, "n_inner": null})").ffn == 256);
  CHECK(accepted(gpt2 + R"(, "n_inner": 100})").ffn == 100);
  CHECK(accepted(R"({"model_type": "bloom", "n_embed": 64})").ffn == 256);
  CHECK(accepted(R"({"model_type": "falcon", "hidden_size": 142})").ffn == 568);
  // Qwen's first: gate and up together.
  CHECK(accepted(small("qwen", "")).ffn == 48);
  CHECK(has(refusal(R"({"model_type": "qwen", "intermediate_size": 97})",
                    cost::FailureKind::Input),
            "#/intermediate_size: expected an even number"));
  // Meta's: two thirds of 4 dim, rounded up to multiple_of.
  CHECK(accepted(R"({"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 300,
      "multiple_of": 32})")
            .ffn == 192);
}

TEST_CASE("null of every key that a llama config has") {
  // Left to the class, or asked for; never a crash, never another model.
  const std::vector<std::string> keys = {
      "hidden_size", "intermediate_size", "num_hidden_layers",
      "num_attention_heads", "max_position_embeddings", "vocab_size"};
  for (const std::string &key : keys) {
    INFO(key);
    std::string text = small("llama", "");
    const size_t at = text.find("\"" + key + "\": ");
    REQUIRE(at != std::string::npos);
    const size_t value = at + key.size() + 4;
    text.replace(value, text.find_first_of(",}", value) - value, "null");
    CHECK(has(refusal(text, cost::FailureKind::Input),
              "#/" + key + ": expected an integer"));
  }
  for (const char *key :
       {"head_dim", "num_key_value_heads", "rope_scaling", "rope_parameters",
        "attention_bias", "mlp_bias", "tie_word_embeddings", "rms_norm_eps",
        "rope_theta", "initializer_range", "hidden_act", "architectures",
        "quantization_config", "sliding_window", "attention_dropout"}) {
    INFO(key);
    ModelSpec spec =
        accepted(small("llama", "\"" + std::string(key) + "\": null"));
    const ModelSpec plain = accepted(small("llama", ""));
    CHECK(total(spec) == total(plain));
    CHECK(spec.kinds == plain.kinds);
    CHECK(spec.notes == plain.notes);
  }
}

TEST_CASE("numbers that JSON does not have") {
  // Python writes them; where they matter they are refused by what they are.
  CHECK(accepted(small("llama", R"("time_step_limit": null,
      "exponential_decay_length_penalty": Infinity)"))
            .hidden == 64);
  CHECK(has(refusal(small("llama", R"("rope_theta": Infinity)"),
                    cost::FailureKind::Input),
            "#/rope_theta: expected a number > 0, but got \"Infinity\""));
  CHECK(has(refusal(small("llama", R"("rms_norm_eps": NaN)"),
                    cost::FailureKind::Input),
            "#/rms_norm_eps: expected a number > 0, but got \"NaN\""));
}

TEST_CASE("forms that a family has but we do not are refused") {
  CHECK(has(refusal(small("gemma", R"("num_key_value_heads": 4,
      "hidden_activation": "relu")")),
            "#/hidden_activation: expected \"gelu_new\", but got \"relu\""));
  CHECK(has(refusal(small("qwen2", R"("num_key_value_heads": 4,
      "rope_scaling": {"rope_type": "dynamic", "factor": 4.0})")),
            "#/rope_scaling/rope_type: expected one of"));
}

TEST_CASE("norms and projections that some models of a family have") {
  const std::string opt = R"({"model_type": "opt", "hidden_size": 64,
      "ffn_dim": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 300, )";
  ModelSpec spec = accepted(opt + R"("do_layer_norm_before": false})");
  CHECK(spec.normAfterSum);
  CHECK(spec.names.finalNorm.empty());
  CHECK(spec.embeddingWidth == 0);
  spec = accepted(opt + R"("_remove_final_layer_norm": true})");
  CHECK_FALSE(spec.normAfterSum);
  CHECK(spec.names.finalNorm.empty());
  spec = accepted(opt + R"("word_embed_proj_dim": 32})");
  CHECK(spec.embeddingWidth == 32);
  CHECK_FALSE(spec.names.finalNorm.empty());
  CHECK(accepted(small("phi", R"("qk_layernorm": true)")).qkNorm ==
        QkNorm::Layer);
  CHECK(accepted(small("olmo", R"("clip_qkv": 8.0)")).qkvClip == 8);
  CHECK(has(refusal(small("olmo", R"("clip_qkv": -1)"),
                    cost::FailureKind::Input),
            "#/clip_qkv"));
}

TEST_CASE("scaled frequencies: yarn and longrope") {
  ModelSpec spec = accepted(small("qwen2", R"("num_key_value_heads": 4,
      "rope_scaling": {"rope_type": "yarn", "factor": 4.0})"));
  REQUIRE(spec.kinds[0].rope.scaling);
  const RopeScaling &yarn = *spec.kinds[0].rope.scaling;
  CHECK(yarn.originalPositions == 64); // those of the config
  CHECK(yarn.attentionFactor == Approx(1 + 0.1 * std::log(4.0)));
  CHECK(yarn.truncate);

  const std::string phi3 = R"("original_max_position_embeddings": 16,
      "rope_scaling": {"type": "longrope", "long_factor": [1, 2, 3, 4], )";
  spec = accepted(small("phi3", phi3 + R"("short_factor": [1, 1, 1, 1.5]})"));
  const RopeScaling &longer = *spec.kinds[0].rope.scaling;
  CHECK(longer.shortFactors.back() == 1.5);
  CHECK(longer.longFactors.back() == 4);
  // Four times the original positions: sqrt(1 + ln 4 / ln 16).
  CHECK(longer.attentionFactor == Approx(std::sqrt(1.5)));
  CHECK(has(refusal(small("phi3", phi3 + R"("short_factor": [1, 1]})"),
                    cost::FailureKind::Input),
            "expected one factor of longrope for every pair of rotated columns "
            "(4), but got 2"));
  CHECK(has(refusal(small("phi3", phi3 + R"("short_factor": [1, 1, 1, 0]})"),
                    cost::FailureKind::Input),
            "#/rope_scaling/short_factor: expected a list of numbers above 0"));
  // "su" and "yarn" were names of it before; nothing else is known there.
  for (const char *older : {"su", "yarn"}) {
    std::string text = small("phi3", phi3 + R"("short_factor": [1, 1, 1, 1.5]})");
    text.replace(text.find("longrope"), 8, older);
    CHECK(accepted(text).kinds[0].rope == accepted(small(
        "phi3", phi3 + R"("short_factor": [1, 1, 1, 1.5]})")).kinds[0].rope);
  }
  for (const char *other : {"linear", "llama3", "dynamic"})
    CHECK(has(refusal(small("phi3", R"("rope_scaling": {"type": ")" +
                                        std::string(other) +
                                        R"(", "factor": 2.0})")),
              "#/rope_scaling/rope_type: expected \"default\" or "
              "\"longrope\", but got \"" +
                  std::string(other) + "\", which is not supported"));
}

TEST_CASE("many keys that do not matter") {
  std::string labels = R"("id2label": {"0": "x")";
  for (int i = 1; i < 1500; ++i)
    labels +=
        ", \"" + std::to_string(i) + R"(": "label )" + std::to_string(i) + "\"";
  CHECK(labels.size() > 30000);
  CHECK(accepted(small("mistral", labels + "}")).hidden == 64);
}

TEST_CASE("norms of Falcon's parallel attention") {
  // Two layers of hidden 128 with a norm of 2 * 128 before attention, and one of
  // its own before the MLP where the class makes one.
  const auto falcon = [](const std::string &keys) {
    return R"({"model_type": "falcon", "hidden_size": 128,
        "num_attention_heads": 4, "num_kv_heads": 2, "num_hidden_layers": 2,
        "vocab_size": 256)" +
           keys + "}";
  };
  const std::string newer = R"(, "new_decoder_architecture": true)";
  const std::string one = R"(, "num_ln_in_parallel_attn": 1)";
  const std::string two = R"(, "num_ln_in_parallel_attn": 2)";
  const std::string null = R"(, "num_ln_in_parallel_attn": null)";
  CHECK(total(accepted(falcon(newer))) == total(accepted(falcon(newer + two))));
  CHECK(total(accepted(falcon(newer + null))) ==
        total(accepted(falcon(newer + two))));
  const ModelSpec shared = accepted(falcon(newer + one));
  CHECK(total(accepted(falcon(newer + two))) - total(shared) == 2 * 2 * 128);
  CHECK(shared.names.attnNorm == "transformer.h.{}.input_layernorm");
  CHECK(shared.names.mlpNorm.empty());
  CHECK(shared.parallel);
  // The older architecture has one, shared; with two the class makes norms that
  // its forward pass does not apply. Without parallel attention it is not read.
  CHECK(total(accepted(falcon(one))) == total(accepted(falcon(null))));
  CHECK(has(refusal(falcon(two), cost::FailureKind::Unsupported),
            "#/num_ln_in_parallel_attn: expected 1 or null without "
            "new_decoder_architecture, but got 2"));
  const std::string behind = R"(, "parallel_attn": false)";
  CHECK(total(accepted(falcon(behind + two))) ==
        total(accepted(falcon(behind))));
  CHECK(total(accepted(falcon(behind))) - total(accepted(falcon(""))) ==
        2 * 2 * 128);
}

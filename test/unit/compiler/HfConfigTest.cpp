#include "compiler/Import/HfConfig.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>

using namespace shardwright;

namespace {
const std::string llama = R"({
  "model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "hidden_size": 96, "intermediate_size": 200, "num_hidden_layers": 3,
  "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 10,
  "max_position_embeddings": 64, "vocab_size": 301)";
const std::string gpt2 = R"({
  "model_type": "gpt2", "n_embd": 40, "n_layer": 3, "n_head": 4,
  "n_positions": 32, "n_ctx": 32, "vocab_size": 261)";

/// Messages of a refused text, joined; empty if it was accepted.
std::string refusal(const std::string &text,
                    cost::FailureKind kind = cost::FailureKind::Input) {
  ModelSpec spec;
  cost::Failure failure;
  if (parseHfConfig(text, "config.json", spec, failure))
    return "";
  CHECK(failure.kind == kind);
  std::string all;
  for (const std::string &message : failure.messages)
    all += message + "\n";
  return all;
}

/// `base` with one member more (a later duplicate is refused, so `key` must
/// not stand in it).
std::string with(const std::string &base, const std::string &member) {
  return base + ", " + member + "}";
}

/// `base` with the value of `key` replaced.
std::string replaced(std::string base, const std::string &key,
                     const std::string &value) {
  size_t begin = base.find("\"" + key + "\":");
  REQUIRE(begin != base.npos);
  size_t start = begin + key.size() + 3;
  size_t end = base.find_first_of(",\n", start);
  return base.replace(start, end == base.npos ? base.npos : end - start,
                      " " + value) +
         "}";
}

ModelSpec accepted(const std::string &text) {
  ModelSpec spec;
  cost::Failure failure;
  bool good = parseHfConfig(text, "some/folder/config.json", spec, failure);
  INFO((failure.messages.empty() ? "" : failure.messages[0].text));
  REQUIRE(good);
  return spec;
}
} // namespace

TEST_CASE("a llama config is read completely") {
  ModelSpec spec = accepted(llama + "}");
  CHECK(spec.name == "folder");
  CHECK(spec.family == "llama");
  CHECK(spec.hidden == 96);
  CHECK(spec.ffn == 200);
  CHECK(spec.layers == 3);
  CHECK(spec.heads == 8);
  CHECK(spec.kvHeads == 2);
  CHECK(spec.headDim == 10);
  CHECK(spec.vocab == 301);
  CHECK(spec.positions == 64);
  CHECK_FALSE(spec.tied);
  CHECK(spec.attentionScale == Approx(1 / std::sqrt(10.0)));
  CHECK_FALSE(spec.kinds[0].rope.scaling);
}

TEST_CASE("a gpt2 config is read with the defaults of its family") {
  ModelSpec spec =
      accepted(with(gpt2, R"("n_inner": null, "attn_pdrop": 0.1)"));
  CHECK(spec.family == "gpt2");
  CHECK(spec.ffn == 160);
  CHECK(spec.kvHeads == 4);
  CHECK(spec.headDim == 10);
  CHECK(spec.tied);
  CHECK(spec.activation == Activation::GeluTanh);
  REQUIRE(spec.notes.size() == 1);
  CHECK(spec.notes[0].find("#/attn_pdrop: dropout is not applied") !=
        std::string::npos);
  CHECK(accepted(with(gpt2, R"("activation_function": "gelu")")).activation ==
        Activation::Gelu);
  CHECK(accepted(with(gpt2, R"("scale_attn_weights": false)")).attentionScale ==
        1.0);
}

TEST_CASE("rotary scaling under old and new names") {
  ModelSpec linear = accepted(
      with(llama, R"("rope_scaling": {"type": "linear", "factor": 4.0})"));
  const auto &linearScaling = linear.kinds[0].rope.scaling;
  REQUIRE(linearScaling);
  CHECK(linearScaling->type == RopeScaling::Type::Linear);
  CHECK(linearScaling->factor == 4.0);

  ModelSpec scaled = accepted(
      with(llama, R"("rope_scaling": {"rope_type": "llama3", "factor": 8,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192}, "rope_theta": 5e5)"));
  const auto &llama3Scaling = scaled.kinds[0].rope.scaling;
  REQUIRE(llama3Scaling);
  CHECK(llama3Scaling->type == RopeScaling::Type::Llama3);
  CHECK(llama3Scaling->originalPositions == 8192);
  CHECK(scaled.kinds[0].rope.theta == 500000.0);

  ModelSpec parameters = accepted(
      with(llama,
           R"("rope_parameters": {"rope_type": "default", "rope_theta": 7})"));
  CHECK(parameters.kinds[0].rope.theta == 7.0);
  CHECK_FALSE(parameters.kinds[0].rope.scaling);

  // Two descriptions may stand side by side if they say the same.
  const std::string linearHalf = with(
      llama, R"("rope_scaling": {"rope_type": "linear", "factor": 2})");
  const std::string open = linearHalf.substr(0, linearHalf.size() - 1);
  accepted(with(
      open, R"("rope_parameters": {"rope_type": "linear", "factor": 2,
               "rope_theta": 7})"));
  CHECK(refusal(with(open, R"("rope_parameters": {"rope_type": "default"})"))
            .find("expected what rope_scaling says") != std::string::npos);
  accepted(with(llama, R"("vision_config": null)")); // null: there is none

  CHECK(refusal(
            with(llama, R"("rope_scaling": {"type": "dynamic", "factor": 2})"),
            cost::FailureKind::Unsupported)
            .find("#/rope_scaling/rope_type: expected one of \"default\", "
                  "\"linear\", \"llama3\", \"yarn\", \"longrope\", but got "
                  "\"dynamic\"") !=
        std::string::npos);
  CHECK(refusal(with(llama, R"("rope_scaling": {"type": "linear"})"))
            .find("#/rope_scaling/factor: expected a number > 0, but got no "
                  "such key") != std::string::npos);
  CHECK(refusal(with(llama, R"("rope_scaling": {"rope_type": "llama3",
        "factor": 8, "low_freq_factor": 4, "high_freq_factor": 3,
        "original_max_position_embeddings": 8192})"))
            .find("#/rope_scaling/high_freq_factor: expected at least "
                  "low_freq_factor (4), but got 3") != std::string::npos);
  CHECK(refusal(with(llama, R"("rope_scaling": [1])"))
            .find("#/rope_scaling: expected an object or null") !=
        std::string::npos);
}

TEST_CASE("every bad size is one message with pointer, found and wanted") {
  for (const char *bad : {"-3", "0", "32.0", "\"8\"", "1e30", "true", "[8]",
                          "{}", "null", "18446744073709551615",
                          "-9223372036854775808", "99999999999999999999999"}) {
    CAPTURE(bad);
    std::string all = refusal(replaced(llama, "num_hidden_layers", bad));
    CHECK(all.starts_with("config.json#/num_hidden_layers: expected an integer "
                          "from 1 to 65536, but got "));
    CHECK(std::count(all.begin(), all.end(), '\n') == 1);
  }
}

TEST_CASE("several problems are reported together") {
  std::string all = refusal(R"({"model_type": "llama", "hidden_size": -1,
                 "num_attention_heads": "x", "tie_word_embeddings": 1,
                 "num_experts": 8})");
  for (const char *part :
       {"#/hidden_size: expected an integer from 1 to 1048576, but got -1",
        "#/num_attention_heads: expected", "but got \"x\"",
        "#/tie_word_embeddings: expected true or false, but got 1",
        "#/num_experts: expected only known keys, but got 8"}) {
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
}

TEST_CASE("what does not divide names both numbers") {
  CHECK(refusal(replaced(llama, "num_key_value_heads", "3"))
            .find("#/num_key_value_heads: expected a divisor of "
                  "num_attention_heads (8), but got 3") != std::string::npos);
  CHECK(refusal(replaced(llama, "head_dim", "9"))
            .find("#/head_dim: expected an even head width") !=
        std::string::npos);
  CHECK(refusal(replaced(gpt2, "n_head", "3"))
            .find("#/n_head: expected a divisor of n_embd (40), but got 3") !=
        std::string::npos);
  // The class of GLM-4.5 has 96 heads beside 4096 columns, and no width.
  CHECK(refusal(R"({"model_type": "glm4_moe"})")
            .find("#/num_attention_heads: expected a divisor of hidden_size "
                  "(4096) where there is no head_dim, but got 96, the default "
                  "of the family") != std::string::npos);
}

TEST_CASE("what changes the computation and is not known is unsupported") {
  auto unsupported = [](const std::string &text) {
    return refusal(text, cost::FailureKind::Unsupported);
  };
  CHECK(unsupported(with(llama, R"("hidden_act": "gelu")"))
            .find("#/hidden_act: expected \"silu\", but got \"gelu\"") !=
        std::string::npos);
  CHECK(unsupported(with(llama, R"("sliding_window": 4096)"))
            .find("#/sliding_window: expected only known keys") !=
        std::string::npos);
  CHECK(unsupported(with(llama, R"("rope_interleaved": true)"))
            .find("#/rope_interleaved: expected false, but got true") !=
        std::string::npos);
  CHECK(unsupported(with(llama, R"("atention_bias": true)"))
            .find("did you mean \"attention_bias\"?") != std::string::npos);
  CHECK(unsupported(with(gpt2, R"("scale_attn_by_inverse_layer_idx": true)"))
            .find("#/scale_attn_by_inverse_layer_idx: expected false") !=
        std::string::npos);
  CHECK(unsupported(R"({"model_type": "mamba"})")
            .find("but got \"mamba\": state-space layers, which is not "
                  "supported") != std::string::npos);
  CHECK(
      unsupported(R"({"model_type": "llama", "hidden_size": 96,
      "architectures": ["LlamaForSequenceClassification"],
      "intermediate_size": 200, "num_hidden_layers": 3,
      "num_attention_heads": 8, "vocab_size": 301})")
          .find("#/architectures: expected [\"LlamaForCausalLM\"], but got") !=
      std::string::npos);
}

TEST_CASE("keys that do not matter are ignored") {
  accepted(with(llama, R"("_name_or_path": "/x", "transformers_version": "4",
    "use_cache": true, "tokenizer": "fast", "bos_token_id": [1, 2],
    "sequence_parallel_enabled": false, "selective_checkpoint_enabled": false,
    "torch_dtype": "bfloat16", "pretraining_tp": 1, "rope_scaling": null,
    "attention_dropout": 0.0, "rope_interleaved": false,
    "is_llama_config": true, "max_sequence_length": 2048, "task_specific_params": {"a": {"b": 1}})"));
}

TEST_CASE("unknown keys that turn nothing on are passed over") {
  const ModelSpec plain = accepted(llama + "}");
  for (const char *inert : {"null", "false", "0", "0.0", "-0.0", "\"\"", "[]",
                            "{}"}) {
    CAPTURE(inert);
    ModelSpec spec = accepted(
        with(llama, R"("moe_layer_interval": )" + std::string(inert)));
    CHECK(spec.notes == plain.notes);
    // Known, and supported with one value only.
    accepted(with(llama, R"("add_cross_attention": )" + std::string(inert)));
    accepted(with(llama, R"("rope_scaling": )" + std::string(inert)));
  }
  for (const char *active : {"true", "1", "1e-9", "\"x\"", "[0]",
                             "{\"a\": 0}"}) {
    CAPTURE(active);
    CHECK(refusal(with(llama,
                       R"("moe_layer_interval": )" + std::string(active)),
                  cost::FailureKind::Unsupported)
              .find("#/moe_layer_interval: expected only known keys") !=
          std::string::npos);
  }
  // A misspelt key is passed over as well, but not in silence.
  ModelSpec misspelt = accepted(with(llama, R"("atention_bias": false)"));
  REQUIRE(misspelt.notes.size() == plain.notes.size() + 1);
  CHECK(misspelt.notes.back().find("#/atention_bias: not known, and passed "
                                   "over as false turns nothing on; did you "
                                   "mean \"attention_bias\"?") !=
        std::string::npos);
  // What says the same as the model without it.
  accepted(with(llama, R"("partial_rotary_factor": 1.0, "layer_types":
      ["full_attention", "full_attention", "full_attention"],
      "use_sliding_window": false, "sliding_window": 4096,
      "max_window_layers": 28)"));
  accepted(with(gpt2, R"("head_dim": 10, "num_key_value_heads": 4)"));
  // Unless it speaks of more layers than there are, or of others.
  CHECK(refusal(with(llama, R"("layer_types": ["full_attention"])"),
                cost::FailureKind::Input)
            .find("#/layer_types: expected a list of num_hidden_layers (3) "
                  "strings, but got 1") != std::string::npos);
  CHECK(refusal(with(gpt2, R"("layer_types": "full_attention")"),
                cost::FailureKind::Input)
            .find("#/layer_types: expected a list of n_layer (") !=
        std::string::npos);
  CHECK(refusal(with(llama, R"("layer_types": ["full_attention",
                "sliding_attention", "full_attention"])"),
                cost::FailureKind::Unsupported)
            .find("#/layer_types/1: expected \"full_attention\", but got "
                  "\"sliding_attention\"") != std::string::npos);
  for (const char *other : {R"("head_dim": 16)", R"("num_key_value_heads": 2)"})
    CHECK(refusal(with(gpt2, other), cost::FailureKind::Unsupported)
              .find("expected only known keys") != std::string::npos);
}

TEST_CASE("quantization is how a checkpoint is stored") {
  const std::string quantized = R"("quantization_config": {"bits": 4})";
  for (const std::string &base : {llama, gpt2}) {
    ModelSpec plain = accepted(base + "}"),
              spec = accepted(with(base, quantized));
    REQUIRE(spec.notes.size() == plain.notes.size() + 1);
    CHECK(spec.notes.front().find("#/quantization_config: how a checkpoint is "
                                  "stored") != std::string::npos);
    spec.notes = plain.notes;
    CHECK(spec.hidden == plain.hidden);
    accepted(with(base, R"("quantization_config": null)"));
  }
}

TEST_CASE("what is no JSON object is refused") {
  CHECK(refusal("").find("but got an empty file") != std::string::npos);
  CHECK(refusal(llama).find("expected JSON, but got parse error at line") !=
        std::string::npos);
  CHECK(refusal("[]").find("expected a JSON object, but got array") !=
        std::string::npos);
  CHECK(refusal("\"llama\"").find("but got string") != std::string::npos);
  CHECK(refusal("{\"a\": nan}").find("at line 1, column") != std::string::npos);
  CHECK(refusal("{\"a\": 1e999}").find("expected JSON") != std::string::npos);
  CHECK(refusal(llama + std::string("}\0, \"use_mrope\": true", 21))
            .find("expected JSON, but got a NUL byte at offset ") !=
        std::string::npos);
  CHECK(refusal("{\"\xff\": 1}").find("expected JSON") != std::string::npos);
  CHECK(refusal(std::string(100000, '[')).find("64 levels") !=
        std::string::npos);
  CHECK(refusal("{}").find("#/model_type: expected one of \"llama\", ") !=
        std::string::npos);
  CHECK(refusal(R"({"model_type": 3})").find("expected a string, but got 3") !=
        std::string::npos);
  CHECK(refusal(R"({"dim": 4096, "n_layers": 32})")
            .find("but got no such key") != std::string::npos);
  CHECK(refusal(with(llama, R"("hidden_size": 96)"))
            .find("config.json#/hidden_size: expected each key once, but got "
                  "it twice") != std::string::npos);
  CHECK(refusal(with(llama, R"("task_specific_params": {"a/b": 1, "a/b": 2})"))
            .find("#/task_specific_params/a~1b: expected each key once") !=
        std::string::npos);
}

TEST_CASE("files and folders") {
  namespace fs = std::filesystem;
  fs::path root = fs::temp_directory_path() / "shardwright-hfconfig-test";
  fs::remove_all(root);
  fs::create_directories(root / "tiny");
  fs::create_directories(root / "odd" / "config.json");
  auto read = [&](const std::string &path) {
    ModelSpec spec;
    cost::Failure failure;
    if (readHfConfig(path, spec, failure))
      return spec.name;
    CHECK(failure.kind == cost::FailureKind::Input);
    REQUIRE(failure.messages.size() == 1);
    return failure.messages[0].text;
  };
  CHECK(read((root / "tiny").string())
            .find("expected a folder with a config.json") != std::string::npos);
  CHECK(read((root / "none").string()).find("does not exist") !=
        std::string::npos);
  CHECK(read((root / "odd").string()).find("expected a file, but it is a folder") !=
        std::string::npos);
  CHECK(read("").find("empty path") != std::string::npos);
  std::ofstream(root / "tiny" / "config.json") << llama << "}";
  std::ofstream(root / "tiny" / "other.json") << llama << "}";
  CHECK(read((root / "tiny").string()) == "tiny");
  CHECK(read((root / "tiny" / "config.json").string()) == "tiny");
  CHECK(read((root / "tiny" / "other.json").string()) == "other");
  fs::remove_all(root);
}

TEST_CASE("the sequence length is chosen or refused") {
  cost::Failure failure;
  int64_t chosen = 0;
  ModelSpec spec = accepted(gpt2 + "}");
  CHECK(chooseSequence(spec, 0, chosen, failure));
  CHECK(chosen == 32);
  CHECK(chooseSequence(spec, 7, chosen, failure));
  CHECK(chosen == 7);
  CHECK_FALSE(chooseSequence(spec, 33, chosen, failure));
  CHECK(failure.kind == cost::FailureKind::Usage);
  CHECK_FALSE(chooseSequence(spec, -1, chosen, failure));
  spec = accepted(llama + "}");
  CHECK(chooseSequence(spec, 1000, chosen, failure));
  spec.positions = 0;
  CHECK_FALSE(chooseSequence(spec, 0, chosen, failure));
  spec.vocab = 1 << 24;
  spec.hidden = 1 << 20;
  failure = {};
  CHECK_FALSE(chooseSequence(spec, 1 << 24, chosen, failure));
  CHECK(failure.kind == cost::FailureKind::Unsupported);
}

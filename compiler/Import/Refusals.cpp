//===- Refusals.cpp - What does not import, and why -----------------------===//
#include "compiler/Import/Families.h"

namespace shardwright {

using nlohmann::json;

namespace {
struct Reason {
  std::string_view modelType, why;
};
constexpr std::string_view deepSeek =
    "a description of DeepSeek's own code, not a Hugging Face config";
constexpr std::string_view stateSpace = "state-space layers";
constexpr std::string_view encoderDecoder = "an encoder and a decoder";
constexpr std::string_view encoder = "an encoder, which predicts no next token";
constexpr std::string_view vision = "a vision tower";
constexpr std::string_view linear = "linear-attention layers";

constexpr Reason reasons[] = {
    {"phimoe", "routing by a sparse mixer"},
    {"granitemoe", "multipliers of embeddings, residuals and logits"},
    {"llama4", vision},
    {"deepseek_v32", "sparse latent attention"},
    {"deepseek_v4", "sparse latent attention"},
    {"kimi_k25", vision},
    {"glm_moe_dsa", "sparse latent attention"},
    {"jamba", "state-space layers and a mixture of experts"},
    {"nemotron_h", stateSpace},
    {"mamba", stateSpace},
    {"mamba2", stateSpace},
    {"falcon_mamba", stateSpace},
    {"lfm2", "short convolutions"},
    {"qwen3_next", linear},
    {"qwen3_5", "linear-attention layers and a vision tower"},
    {"qwen3_5_moe", "linear-attention layers and a vision tower"},
    {"minicpm3", "scales of embeddings, residuals and logits"},
    {"t5", encoderDecoder},
    {"mt5", encoderDecoder},
    {"bart", encoderDecoder},
    {"whisper", encoderDecoder},
    {"bert", encoder},
    {"roberta", encoder},
    {"distilbert", encoder},
    {"vit", "an image classifier"},
    {"clip", "a vision tower"},
    {"llava", vision},
    {"molmo", vision},
    {"mllama", vision},
    {"gemma3", vision},
    {"gemma3n", vision},
    {"gemma4", "heads of several widths and a vision tower"},
    {"paligemma", vision},
    {"qwen2_vl", vision},
    {"qwen2_5_vl", vision},
    {"mistral3", vision},
    {"moe", "a description of another tool, not a Hugging Face config"},
};

/// Keys that no Hugging Face config has, and whose description they are of.
struct Foreign {
  std::string_view first, second, why;
};
constexpr Foreign foreign[] = {
    {"vision_chunk_size", "dim", "a vision tower"},
    {"hidden_dim", "ffn_embed_dim",
     "a description of another tool, not a Hugging Face config"},
    {"n_routed_experts", "dim", deepSeek},
    {"n_dense_layers", "dim", deepSeek},
    {"layer_types", "dim", "short convolutions"},
    {"encoder_layers", "decoder_layers", encoderDecoder},
    {"encoder", "llm", encoderDecoder},
};
} // namespace

std::string_view whyRefused(std::string_view modelType) {
  for (const Reason &reason : reasons)
    if (reason.modelType == modelType)
      return reason.why;
  return "";
}

std::string_view whyForeign(const json &root) {
  for (const Foreign &entry : foreign)
    if (root.contains(std::string(entry.first)) &&
        root.contains(std::string(entry.second)))
      return entry.why;
  return "";
}

} // namespace shardwright

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
constexpr std::string_view recurrent = "recurrent layers";
constexpr std::string_view encoderDecoder = "an encoder and a decoder";
constexpr std::string_view encoder = "an encoder, which predicts no next token";
constexpr std::string_view classifier = "an image classifier";
constexpr std::string_view vision = "a vision tower";
constexpr std::string_view audio = "an audio tower";
constexpr std::string_view linear = "linear-attention layers";
constexpr std::string_view sparseLatent = "sparse latent attention";
constexpr std::string_view scales =
    "scales of embeddings, residuals and logits";
constexpr std::string_view pairs =
    "rotary positions in pairs of neighbours beside parallel attention";
constexpr std::string_view squared = "an MLP of squared ReLU";
constexpr std::string_view normedBehind =
    "norms behind attention and MLP, and rotary positions in pairs of "
    "neighbours";
constexpr std::string_view ownLayout =
    "products fused in a layout of its own code";

constexpr std::string_view ownKeys =
    "keys of its first own code; the checkpoint has a config of transformers "
    "today";

constexpr Reason reasons[] = {
    // Decoders of text with something that no family here has.
    {"apertus", "an activation of its own"},
    {"arcee", squared},
    {"arctic", "experts beside a dense MLP"},
    {"baichuan", "positions and a head that its config does not tell"},
    {"bitnet", "weights of three values"},
    {"codegen", ownLayout},
    {"cohere", "parallel attention and scaled logits"},
    {"cohere2", "parallel attention and scaled logits"},
    {"deepseek", "experts of DeepSeek's first own code"},
    {"deepseek_v32", sparseLatent},
    {"deepseek_v4", sparseLatent},
    {"glm", "rotary positions in pairs of neighbours"},
    {"glm4", normedBehind},
    {"glm_moe_dsa", sparseLatent},
    {"gpt_bigcode", "learned positions beside multi-query attention"},
    {"gpt_neo", "windows on alternate layers beside learned positions"},
    {"gptj", pairs},
    {"granite", scales},
    {"granitemoe", scales},
    {"granitemoeshared", scales},
    {"internlm2", ownLayout},
    {"minicpm", scales},
    {"minicpm3", scales},
    {"mixformer-sequential", ownKeys},
    {"mpt", "attention described in a form of its own (attn_config)"},
    {"nemotron", squared},
    {"phi-msft", ownKeys},
    {"phimoe", "routing by a sparse mixer"},
    {"smollm3", "layers without positions"},
    {"stablelm", "layer norms beside a gated MLP"},
    {"stablelm_epoch", "layer norms beside a gated MLP"},
    // Layers of another kind.
    {"bamba", stateSpace},
    {"falcon_h1", stateSpace},
    {"falcon_mamba", stateSpace},
    {"granitemoehybrid", "state-space layers and a mixture of experts"},
    {"jamba", "state-space layers and a mixture of experts"},
    {"kimi_linear", linear},
    {"lfm2", "short convolutions"},
    {"lfm2_moe", "short convolutions"},
    {"mamba", stateSpace},
    {"mamba2", stateSpace},
    {"minimax", linear},
    {"nemotron_h", stateSpace},
    {"qwen3_5", "linear-attention layers and a vision tower"},
    {"qwen3_5_moe", "linear-attention layers and a vision tower"},
    {"qwen3_next", linear},
    {"recurrent_gemma", recurrent},
    {"rwkv", recurrent},
    {"zamba", stateSpace},
    {"zamba2", stateSpace},
    // Encoders, with and without a decoder.
    {"albert", encoder},
    {"bart", encoderDecoder},
    {"bert", encoder},
    {"deberta", encoder},
    {"deberta-v2", encoder},
    {"distilbert", encoder},
    {"electra", encoder},
    {"encoder-decoder", encoderDecoder},
    {"esm", encoder},
    {"longt5", encoderDecoder},
    {"m2m_100", encoderDecoder},
    {"marian", encoderDecoder},
    {"mbart", encoderDecoder},
    {"modernbert", encoder},
    {"mt5", encoderDecoder},
    {"pegasus", encoderDecoder},
    {"roberta", encoder},
    {"t5", encoderDecoder},
    {"umt5", encoderDecoder},
    {"whisper", encoderDecoder},
    {"xlm-roberta", encoder},
    // Images and sound.
    {"clip", vision},
    {"gemma3", vision},
    {"gemma3n", vision},
    {"gemma4", "heads of several widths and a vision tower"},
    {"glm4v", vision},
    {"glm4v_moe", vision},
    {"idefics2", vision},
    {"idefics3", vision},
    {"internvl", vision},
    {"internvl_chat", vision},
    {"kimi_k25", vision},
    {"llama4", vision},
    {"llava", vision},
    {"llava_next", vision},
    {"mistral3", vision},
    {"mllama", vision},
    {"molmo", vision},
    {"paligemma", vision},
    {"phi3_v", vision},
    {"phi4mm", vision},
    {"pixtral", vision},
    {"qwen2_5_vl", vision},
    {"qwen2_audio", audio},
    {"qwen2_vl", vision},
    {"qwen3_vl", vision},
    {"qwen3_vl_moe", vision},
    {"smolvlm", vision},
    {"swin", classifier},
    {"vit", classifier},
    {"voxtral", audio},
    {"wav2vec2", audio},
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

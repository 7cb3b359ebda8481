//===- FamiliesExperts.cpp - Routed experts
//---------------------------------===//
#include "compiler/Import/ExpertReader.h"

#include <algorithm>
#include <cmath>

namespace shardwright {

using nlohmann::json;

namespace {

void readMixtral(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader);
  readExperts(reader, {"num_local_experts", "num_experts"}, "intermediate_size",
              0.001);
  spec.experts.normalize = true;
  spec.experts.router = "model.layers.{}.block_sparse_moe.gate";
  const std::string expert = "model.layers.{}.block_sparse_moe.experts.{x}.";
  spec.experts.gate = expert + "w1.weight";
  spec.experts.up = expert + "w3.weight";
  spec.experts.down = expert + "w2.weight";
  spec.kinds[0].window = reader.sizeOrNull("sliding_window", maxPositions, 0);
  setExpertLayers(spec, everyLayer(spec));
}

/// Layers of Qwen that have experts: not those of mlp_only_layers, and of the
/// others every decoder_sparse_step-th.
std::vector<bool> readSparseLayers(FamilyReader &reader) {
  std::vector<bool> experts = everyLayer(reader.spec);
  const int64_t step = reader.size("decoder_sparse_step", maxLayers, 1);
  for (size_t i = 0; i < experts.size(); ++i)
    experts[i] = step > 0 && (static_cast<int64_t>(i) + 1) % step == 0;
  const std::vector<bool> dense = reader.readLayerNumbers(
      "mlp_only_layers", std::vector<bool>(experts.size(), false));
  for (size_t i = 0; i < experts.size(); ++i)
    experts[i] = experts[i] && !dense[i];
  return experts;
}

/// Windows of these families are off in every published config.
void refuseQwenWindow(FamilyReader &reader) {
  reader.only("use_sliding_window", false);
  reader.ignoreAll({"sliding_window", "max_window_layers"});
}

void readQwen2Moe(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader);
  spec.qkvBias = reader.flag("qkv_bias", true);
  refuseQwenWindow(reader);
  readExperts(reader, {"num_experts", "num_local_experts"},
              "moe_intermediate_size", 0.001);
  spec.experts.normalize = reader.flag("norm_topk_prob", false);
  spec.experts.sharedFfn =
      reader.sizeOf("shared_expert_intermediate_size", maxFfn, 5632);
  spec.experts.sharedGate = true;
  spec.experts.shared = "model.layers.{}.mlp.shared_expert";
  setExpertLayers(spec, readSparseLayers(reader));
}

void readQwen3Moe(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.qkNorm = QkNorm::PerHead;
  reader.only("qkv_bias", false);
  reader.only("use_qk_norm", true);
  reader.only("shared_expert_intermediate_size", 0);
  refuseQwenWindow(reader);
  readExperts(reader, {"num_experts", "num_local_experts"},
              "moe_intermediate_size", 0.001);
  spec.experts.normalize = reader.flag("norm_topk_prob", false);
  setExpertLayers(spec, readSparseLayers(reader));
}

void readOlmoe(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.qkNorm = QkNorm::Whole;
  spec.qkvClip = reader.find("clip_qkv") ? reader.number("clip_qkv", 0) : 0;
  readExperts(reader, {"num_experts", "num_local_experts"}, "intermediate_size",
              0.01);
  spec.experts.normalize = reader.flag("norm_topk_prob", false);
  setExpertLayers(spec, everyLayer(spec));
}

/// Windows on alternate layers, sinks, biases everywhere, clipped gates.
void readGptOss(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  readExpertBase(reader);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", true);
  spec.attentionSinks = true;
  readExperts(reader, {"num_local_experts", "num_experts"}, "intermediate_size",
              0.9);
  ExpertSpec &experts = spec.experts;
  experts.score = ExpertScore::Chosen;
  experts.routerBias = experts.bias = experts.interleaved = true;
  experts.limit = reader.number("swiglu_limit", 7.0);
  reader.only("swiglu_alpha", 1.702);
  // The class scales rotations where a config says nothing of them.
  if (!reader.given("rope_scaling") && !reader.given("rope_parameters")) {
    RopeScaling scaling;
    scaling.type = RopeScaling::Type::Yarn;
    scaling.factor = 32;
    scaling.originalPositions = 4096;
    scaling.truncate = false;
    scaling.attentionFactor = 0.1 * std::log(scaling.factor) + 1;
    spec.kinds[0].rope.scaling = scaling;
  }
  experts.router = "model.layers.{}.mlp.router";
  const std::string prefix = "model.layers.{}.mlp.experts.";
  experts.gate = prefix + "gate_up_proj";
  experts.gateUpBias = prefix + "gate_up_proj_bias";
  experts.down = prefix + "down_proj";
  experts.downBias = prefix + "down_proj_bias";
  const int64_t window = reader.sizeOrNull("sliding_window", maxPositions, 128);
  std::vector<bool> windowed(std::max<int64_t>(spec.layers, 0), false);
  for (size_t i = 0; i < windowed.size(); i += 2)
    windowed[i] = true;
  const Rope rope = spec.kinds[0].rope;
  reader.setLayers(reader.readLayerTypes(windowed), window, rope, rope);
  for (LayerKind &kind : spec.kinds) {
    kind.experts = true;
    if (kind.name == "dense")
      kind.name = "moe";
  }
}

/// Nested descriptions of attention and experts, layer norms without bias.
void readDbrx(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  reader.ignoreAll({"output_router_logits", "move_model_to_device"});
  spec.keys.hidden = reader.either({"d_model", "hidden_size"});
  spec.keys.heads = reader.either({"n_heads", "num_attention_heads"});
  spec.keys.layers = reader.either({"n_layers", "num_hidden_layers"});
  spec.keys.positions =
      reader.either({"max_seq_len", "max_position_embeddings"});
  spec.keys.kvHeads = spec.keys.heads; // attn_config has it
  spec.keys.headDim = spec.keys.norm = "";
  reader.readBase();
  spec.keys.rope = "attn_config/rope_theta";
  spec.keys.ffn = "ffn_config/ffn_hidden_size";
  reader.noteDropouts({"emb_pdrop", "resid_pdrop"});
  spec.norm = NormKind::LayerWeight;
  spec.normEps = 1e-5;
  spec.qkv = QkvLayout::SideBySide;

  const json empty = json::object();
  auto part = [&](const char *key) {
    const json *value = reader.find(key);
    if (value && !value->is_object())
      reader.malformed(key, "expected an object, but got " + shown(*value),
                       cost::Diag::wrong_type);
    return value && value->is_object() ? value : &empty;
  };
  const json *attention = part("attn_config"), *ffn = part("ffn_config");
  auto sizeIn = [&](ConfigReader &inner, const char *key, int64_t limit,
                    int64_t absent) {
    if (!inner.has(key))
      reader.noteDefault(key, absent);
    return inner.size(key, limit, absent);
  };
  {
    ConfigReader inner = reader.inside("attn_config", *attention);
    inner.ignore("model_type");
    spec.kvHeads = sizeIn(inner, "kv_n_heads", maxHeads, 1);
    spec.qkvClip = inner.find("clip_qkv") ? inner.number("clip_qkv", 0) : 0;
    spec.kinds[0].rope.theta = inner.number("rope_theta", 10000.0);
    if (inner.dropout("attn_pdrop"))
      spec.notes.push_back(inner.where("attn_pdrop") +
                           ": dropout is not applied");
    inner.refuseUnknown();
    if (spec.heads > 0 && spec.kvHeads > 0 && spec.heads % spec.kvHeads != 0)
      inner.malformed("kv_n_heads",
                      "expected a divisor of n_heads (" +
                          std::to_string(spec.heads) + "), but got " +
                          std::to_string(spec.kvHeads),
                      cost::Diag::heads_divide);
  }
  {
    ConfigReader inner = reader.inside("ffn_config", *ffn);
    inner.ignore("model_type");
    if (inner.number("moe_jitter_eps", 0, /*zeroAllowed=*/true) != 0)
      spec.notes.push_back(inner.where("moe_jitter_eps") +
                           ": noise of the router is not applied");
    ExpertSpec &experts = spec.experts;
    experts.countKey = "ffn_config/moe_num_experts";
    experts.widthKey = "ffn_config/ffn_hidden_size";
    const ClassDefaults &absent = reader.defaults();
    experts.count =
        sizeIn(inner, "moe_num_experts", maxExperts, absent.experts);
    experts.topK = sizeIn(inner, "moe_top_k", maxExperts, absent.topK);
    spec.ffn = experts.ffn =
        sizeIn(inner, "ffn_hidden_size", maxFfn, absent.expertFfn);
    experts.auxLoss = inner.number("moe_loss_weight", 0.01, true);
    inner.only("moe_normalize_expert_weights", 1);
    inner.only("uniform_expert_assignment", false);
    inner.only("ffn_act_fn", json{{"name", "silu"}});
    inner.refuseUnknown();
    if (experts.topK > experts.count)
      inner.malformed("moe_top_k",
                      "expected at most moe_num_experts (" +
                          std::to_string(experts.count) + "), but got " +
                          std::to_string(experts.topK),
                      cost::Diag::expert_numbers);
    experts.normalize = true;
    experts.router = "transformer.blocks.{}.ffn.router.layer";
    const std::string prefix = "transformer.blocks.{}.ffn.experts.mlp.";
    experts.gate = prefix + "w1";
    experts.up = prefix + "v1";
    experts.down = prefix + "w2"; // lies as (in, out)
    experts.downTransposed = true;
  }
  TensorNames &names = spec.names;
  names.embedding = "transformer.wte.weight";
  const std::string block = "transformer.blocks.{}.norm_attn_norm.";
  names.attnNorm = block + "norm_1";
  names.mlpNorm = block + "norm_2";
  names.qkv = block + "attn.Wqkv";
  names.o = block + "attn.out_proj";
  names.finalNorm = "transformer.norm_f";
  setExpertLayers(spec, everyLayer(spec));
}

// clang-format off
constexpr Family table[] = {
    {"mixtral", "MixtralForCausalLM",
     {.vocab = 32000, .hidden = 4096, .ffn = 14336, .layers = 32, .heads = 32,
      .kvHeads = 8, .positions = 131072, .theta = 1e6, .normEps = 1e-5,
      .experts = 8, .topK = 2},
     readMixtral},
    {"qwen2_moe", "Qwen2MoeForCausalLM",
     {.vocab = 151936, .hidden = 2048, .ffn = 5632, .layers = 24, .heads = 16,
      .kvHeads = 16, .positions = 32768, .experts = 60, .topK = 4,
      .expertFfn = 1408},
     readQwen2Moe},
    {"qwen3_moe", "Qwen3MoeForCausalLM",
     {.vocab = 151936, .hidden = 2048, .ffn = 6144, .layers = 24, .heads = 32,
      .kvHeads = 4, .positions = 32768, .experts = 128, .topK = 8,
      .expertFfn = 768},
     readQwen3Moe},
    {"olmoe", "OlmoeForCausalLM",
     {.vocab = 50304, .hidden = 2048, .ffn = 2048, .layers = 16, .heads = 16,
      .positions = 4096, .normEps = 1e-5, .experts = 64, .topK = 8},
     readOlmoe},
    {"gpt_oss", "GptOssForCausalLM",
     {.vocab = 201088, .hidden = 2880, .ffn = 2880, .layers = 36, .heads = 64,
      .kvHeads = 8, .headDim = 64, .positions = 131072, .theta = 150000,
      .normEps = 1e-5, .experts = 128, .topK = 4},
     readGptOss},
    {"dbrx", "DbrxForCausalLM",
     {.vocab = 32000, .hidden = 2048, .layers = 24, .heads = 16,
      .positions = 2048, .experts = 4, .topK = 1, .expertFfn = 3584},
     readDbrx},
};
// clang-format on
} // namespace

std::span<const Family> expertFamilies() { return table; }

} // namespace shardwright

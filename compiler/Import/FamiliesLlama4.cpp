//===- FamiliesLlama4.cpp - The text model of Llama 4 ---------------------===//
#include "compiler/Import/ExpertReader.h"

#include <algorithm>

namespace shardwright {

using nlohmann::json;

namespace {

/// One flag a layer of a list of 0 and 1; `absent` if there is none.
std::vector<bool> readFlags(FamilyReader &reader, const char *key,
                            const std::vector<bool> &absent) {
  const json *list = reader.find(key);
  if (!list || (list->is_array() && list->empty()))
    return absent;
  std::vector<bool> flags;
  bool good = list->is_array() && list->size() == absent.size();
  for (size_t i = 0; good && i < list->size(); ++i) {
    good = (*list)[i] == 0 || (*list)[i] == 1;
    flags.push_back((*list)[i] == 1);
  }
  if (good)
    return flags;
  reader.malformed(key, "expected a list of 0 or 1 for each of " +
                            std::to_string(absent.size()) +
                            " layers, but got " + shown(*list));
  return absent;
}

/// Layers of layer_types that see their chunk alone; `absent` if there is none.
std::vector<bool> readChunked(FamilyReader &reader,
                              const std::vector<bool> &absent) {
  const json *types = reader.findLayerTypes();
  if (!types)
    return absent;
  std::vector<bool> chunked;
  for (size_t i = 0; i < types->size(); ++i) {
    const json &type = (*types)[i];
    if (type != "chunked_attention" && type != "full_attention") {
      reader.unsupportedEntry("layer_types", i,
                              "expected \"chunked_attention\" or "
                              "\"full_attention\", but got " +
                                  shown(type) + ", which is not supported");
      return absent;
    }
    chunked.push_back(type == "chunked_attention");
  }
  return chunked;
}

/// What the layers are by number.
struct Layers {
  std::vector<bool> rotated, chunked, experts;
};

/// Rotated layers norm turned queries and keys; the others have no positions,
/// but a scale of queries. `like` has what layers have where they have it.
void setKinds(ModelSpec &spec, const LayerKind &like, const Layers &layers) {
  spec.kinds.clear();
  spec.stack.clear();
  for (size_t i = 0; i < layers.rotated.size(); ++i) {
    LayerKind kind = like;
    kind.name = layers.experts[i] ? "moe" : "dense";
    kind.experts = layers.experts[i];
    if (layers.rotated[i]) {
      kind.scaleFloor = 0;
      kind.scaleStrength = 0;
    } else {
      kind.name += "_unturned";
      kind.rope.width = 0;
    }
    if (!layers.chunked[i])
      kind.chunk = 0;
    if (layers.chunked[i] != layers.rotated[i])
      kind.name += layers.chunked[i] ? "_chunked" : "_full";
    auto known = std::find(spec.kinds.begin(), spec.kinds.end(), kind);
    const int index = static_cast<int>(known - spec.kinds.begin());
    if (known == spec.kinds.end())
      spec.kinds.push_back(kind);
    if (spec.stack.empty() || spec.stack.back().kind != index)
      spec.stack.push_back({index, 0});
    ++spec.stack.back().count;
  }
  if (spec.kinds.empty())
    spec.kinds = {LayerKind()};
  if (std::find(layers.experts.begin(), layers.experts.end(), true) ==
      layers.experts.end())
    spec.experts = {};
}

void readLlama4(FamilyReader &reader) {
  ModelSpec &spec = reader.spec;
  spec.keys.ffn = "intermediate_size_mlp"; // the other key is an expert's
  readExpertBase(reader);
  spec.qkvBias = spec.outputBias = reader.flag("attention_bias", false);
  spec.kinds[0].rope.interleaved = true;
  if (reader.flag("use_qk_norm", true))
    spec.qkNorm = QkNorm::Turned;
  reader.ignore("for_llm_compressor"); // how a checkpoint is stored

  readExperts(reader, {"num_local_experts", "num_experts"}, "intermediate_size",
              0.001);
  ExpertSpec &e = spec.experts;
  e.score = ExpertScore::Sigmoid;
  e.weighsInput = e.sideBySide = e.downTransposed = true;
  e.sharedFfn = e.ffn;
  const std::string mlp = "model.layers.{}.feed_forward.";
  e.router = mlp + "router";
  e.gate = mlp + "experts.gate_up_proj";
  e.down = mlp + "experts.down_proj";
  e.shared = mlp + "shared_expert";
  spec.names.gate = mlp + "gate_proj";
  spec.names.up = mlp + "up_proj";
  spec.names.down = mlp + "down_proj";

  Layers layers;
  layers.rotated = layers.experts = everyLayer(spec);
  const auto interval = static_cast<size_t>(std::max<int64_t>(
      reader.size("no_rope_layer_interval", maxLayers, 4), 1));
  const auto step = static_cast<size_t>(std::max<int64_t>(
      reader.size("interleave_moe_layer_step", maxLayers, 1), 1));
  for (size_t i = 0; i < layers.rotated.size(); ++i) {
    layers.rotated[i] = (i + 1) % interval != 0;
    layers.experts[i] = (i + 1) % step == 0;
  }
  layers.rotated =
      readFlags(reader, "no_rope_layers", layers.rotated); // 1: it rotates
  layers.experts = reader.readLayerNumbers("moe_layers", layers.experts);
  layers.chunked = readChunked(reader, layers.rotated);

  LayerKind like = spec.kinds[0];
  like.chunk = reader.sizeOrNull("attention_chunk_size", maxPositions, 8192);
  const int64_t floor = reader.size("floor_scale", maxPositions, 8192);
  like.scaleStrength = reader.number("attn_scale", 0.1, /*zeroAllowed=*/true);
  if (reader.flag("attn_temperature_tuning", true) && like.scaleStrength > 0)
    like.scaleFloor = floor;
  else
    like.scaleStrength = 0;
  setKinds(spec, like, layers);
}

// clang-format off
constexpr Family table[] = {
    {"llama4_text", "Llama4ForCausalLM",
     {.vocab = 202048, .hidden = 5120, .ffn = 16384, .layers = 48, .heads = 40,
      .kvHeads = 8, .headDim = 128, .positions = 131072, .theta = 500000,
      .normEps = 1e-5, .experts = 16, .topK = 1, .expertFfn = 8192},
     readLlama4},
};
// clang-format on
} // namespace

std::span<const Family> llama4Families() { return table; }

} // namespace shardwright

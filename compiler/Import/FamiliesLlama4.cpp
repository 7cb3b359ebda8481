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

/// Layers of a list of layer numbers; `absent` if there is none.
std::vector<bool> readNumbers(FamilyReader &reader, const char *key,
                              const std::vector<bool> &absent) {
  const json *list = reader.find(key);
  if (!list)
    return absent;
  std::vector<bool> layers(absent.size(), false);
  bool good = list->is_array();
  for (size_t i = 0; good && i < list->size(); ++i) {
    const json &layer = (*list)[i];
    good = layer.is_number_integer() && layer >= 0 && layer < layers.size();
    if (good)
      layers[layer.get<size_t>()] = true;
  }
  if (good)
    return layers;
  reader.malformed(key,
                   "expected a list of layer numbers, but got " + shown(*list));
  return absent;
}

/// Rotated layers see their chunk and norm turned queries and keys; the others
/// have no positions and see everything. Experts on all or alternate layers.
void setKinds(ModelSpec &spec, const std::vector<bool> &rotated,
              const std::vector<bool> &experts) {
  const Rope rope = spec.kinds[0].rope;
  spec.kinds.clear();
  spec.stack.clear();
  for (size_t i = 0; i < rotated.size(); ++i) {
    LayerKind kind;
    kind.name = std::string(experts[i] ? "moe" : "dense") +
                (rotated[i] ? "" : "_unturned");
    kind.experts = experts[i];
    kind.rope = rope;
    if (!rotated[i])
      kind.rope.width = 0;
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
  if (std::find(experts.begin(), experts.end(), true) == experts.end())
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

  std::vector<bool> rotated = everyLayer(spec), experts = rotated;
  const auto interval = static_cast<size_t>(std::max<int64_t>(
      reader.size("no_rope_layer_interval", maxLayers, 4), 1));
  const auto step = static_cast<size_t>(std::max<int64_t>(
      reader.size("interleave_moe_layer_step", maxLayers, 1), 1));
  for (size_t i = 0; i < rotated.size(); ++i) {
    rotated[i] = (i + 1) % interval != 0;
    experts[i] = (i + 1) % step == 0;
  }
  rotated = readFlags(reader, "no_rope_layers", rotated); // 1: it rotates
  experts = readNumbers(reader, "moe_layers", experts);
  reader.ignore("layer_types"); // follows from no_rope_layers
  spec.chunk = reader.sizeOrNull("attention_chunk_size", maxPositions, 8192);
  if (reader.flag("attn_temperature_tuning", true))
    spec.notes.push_back(
        reader.where("attn_temperature_tuning") +
        ": left out; it scales queries from position floor_scale - 1 (" +
        std::to_string(
            static_cast<int64_t>(reader.number("floor_scale", 8192)) - 1) +
        ") on, of layers without rotation");
  reader.ignoreAll({"floor_scale", "attn_scale"});
  setKinds(spec, rotated, experts);
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

//===- RopeReader.cpp - Rotary positions of a config ----------------------===//
#include "compiler/Import/Families.h"

#include <cmath>

namespace shardwright {

using nlohmann::json;

/// Ding et al., arXiv:2402.13753, as in transformers' modeling_rope_utils.py:
/// the original positions stand beside rope_scaling.
void FamilyReader::readLongRope(ConfigReader &reader, RopeScaling &scaling) {
  scaling.type = RopeScaling::Type::Long;
  const std::string_view key = "original_max_position_embeddings";
  const bool outside = has(key);
  scaling.originalPositions =
      outside ? size(key, maxPositions)
              : reader.size(key, maxPositions,
                            spec.positions > 0 ? spec.positions : -1);
  scaling.factor = reader.number("factor", 1);
  if (outside && scaling.originalPositions > 0 && spec.positions > 0)
    scaling.factor = static_cast<double>(spec.positions) /
                     static_cast<double>(scaling.originalPositions);
  const double grown = scaling.factor > 1 && scaling.originalPositions > 1
                           ? std::sqrt(1 + std::log(scaling.factor) /
                                               std::log(static_cast<double>(
                                                   scaling.originalPositions)))
                           : 1;
  scaling.attentionFactor = reader.number("attention_factor", grown);
  auto read = [&](const char *name, std::vector<double> &factors) {
    const json *list = reader.find(name);
    bool good = list && list->is_array() && !list->empty();
    for (size_t i = 0; good && i < list->size(); ++i) {
      const json &factor = (*list)[i];
      good = factor.is_number() && factor.get<double>() > 0 &&
             std::isfinite(factor.get<double>());
      if (good)
        factors.push_back(factor.get<double>());
    }
    if (!good)
      reader.malformed(name, "expected a list of numbers above 0, but got " +
                                 (list ? shown(*list) : "no such key"));
  };
  read("short_factor", scaling.shortFactors);
  read("long_factor", scaling.longFactors);
}

/// One rotary description; transformers before version 5 keep rope_theta
/// beside `rope_scaling`, later ones inside `rope_parameters`.
void FamilyReader::readRopeObject(const json &object, const std::string &key,
                                  Rope &rope) {
  ConfigReader reader(object, spec.file, pointer + "/" + key, problems);
  rope.theta = reader.number("rope_theta", rope.theta);
  if (reader.find("partial_rotary_factor"))
    innerFraction = reader.number("partial_rotary_factor", 1.0);
  std::string oldName = reader.text("type", "");
  std::string type = reader.text("rope_type", oldName);
  if (!oldName.empty() && oldName != type)
    reader.malformed("type",
                     "expected the value of rope_type (" + shown(json(type)) +
                         "), but got " + shown(json(oldName)),
                     cost::Diag::conflicting_keys);
  if (onlyLongRope && type == "yarn")
    type = "longrope";
  if (onlyLongRope && !type.empty() && type != "longrope" && type != "su" &&
      type != "default")
    return reader.unsupported("rope_type",
                              "expected \"default\" or \"longrope\", but "
                              "got " +
                                  shown(json(type)) +
                                  ", which is not supported");
  RopeScaling scaling;
  if (type == "linear") {
    scaling.type = RopeScaling::Type::Linear;
    scaling.factor = reader.requiredNumber("factor");
    rope.scaling = scaling;
  } else if (type == "llama3") {
    scaling.type = RopeScaling::Type::Llama3;
    scaling.factor = reader.requiredNumber("factor");
    scaling.lowFreqFactor = reader.requiredNumber("low_freq_factor");
    scaling.highFreqFactor = reader.requiredNumber("high_freq_factor");
    scaling.originalPositions =
        reader.size("original_max_position_embeddings", maxPositions);
    if (scaling.highFreqFactor < scaling.lowFreqFactor &&
        reader.has("high_freq_factor") && reader.has("low_freq_factor"))
      reader.malformed("high_freq_factor",
                       "expected at least low_freq_factor (" +
                           shown(object["low_freq_factor"]) + "), but got " +
                           shown(object["high_freq_factor"]),
                       cost::Diag::conflicting_keys);
    rope.scaling = scaling;
  } else if (type == "yarn") {
    scaling.type = RopeScaling::Type::Yarn;
    scaling.factor = reader.requiredNumber("factor");
    scaling.betaFast = reader.number("beta_fast", 32);
    scaling.betaSlow = reader.number("beta_slow", 1);
    scaling.originalPositions =
        reader.size("original_max_position_embeddings", maxPositions,
                    spec.positions > 0 ? spec.positions : -1);
    scaling.truncate = reader.flag("truncate", true);
    // Peng et al., arXiv:2309.00071, and what DeepSeek added.
    auto magnitude = [&](double weight) {
      return scaling.factor > 1 ? 0.1 * weight * std::log(scaling.factor) + 1
                                : 1.0;
    };
    const double part = reader.number("mscale", 1);
    const bool split = reader.has("mscale_all_dim");
    scaling.allDimFactor =
        split ? magnitude(reader.number("mscale_all_dim", 1)) : 1;
    scaling.attentionFactor = reader.number(
        "attention_factor", magnitude(part) / scaling.allDimFactor);
    rope.scaling = scaling;
  } else if (type == "longrope" || type == "su") {
    readLongRope(reader, scaling);
    rope.scaling = scaling;
  } else if (type.empty() && reader.has("rope_theta") &&
             object.size() == 1u + innerFraction.has_value()) {
    // rope_parameters with nothing but the base.
  } else if (type.empty()) {
    reader.malformed("rope_type",
                     "expected one of \"default\", \"linear\", \"llama3\", "
                     "\"yarn\", \"longrope\", but got no such key",
                     cost::Diag::missing_key);
    return;
  } else if (type != "default") {
    reader.unsupported("rope_type", "expected one of \"default\", \"linear\", "
                                    "\"llama3\", \"yarn\", \"longrope\", but "
                                    "got " +
                                        shown(json(type)) +
                                        ", which is not supported");
    return; // its own keys are no further problem
  }
  reader.refuseUnknown();
}

void FamilyReader::readRope(Rope &rope) {
  rope.theta = number(spec.keys.rope, defaults().theta);
  const json *older = find("rope_scaling"), *newer = find("rope_parameters");
  if (older && newer && older->is_object() && newer->is_object()) {
    json scaling = *older, parameters = *newer;
    scaling.erase("rope_theta");
    parameters.erase("rope_theta");
    if (scaling != parameters)
      malformed("rope_parameters",
                "expected what rope_scaling says or no such key, but got " +
                    shown(*newer),
                cost::Diag::conflicting_keys);
  }
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (const json *value = find(key); value && !isInert(*value)) {
      if (!value->is_object())
        malformed(key, "expected an object or null, but got " + shown(*value),
                  cost::Diag::wrong_type);
      else
        readRopeObject(*value, key, rope);
    }
}

void FamilyReader::readRopeOrLong(Rope &rope) {
  onlyLongRope = true;
  readRope(rope);
}

bool FamilyReader::readRopeOf(std::string_view key, Rope &rope) {
  const json *all = find("rope_parameters");
  const std::string inner(key);
  if (!all || !all->is_object() || !all->contains(inner) ||
      !all->at(inner).is_object())
    return false;
  readRopeObject(all->at(inner), "rope_parameters/" + inner, rope);
  return true;
}

void FamilyReader::readRotaryFraction(Rope &rope, std::string_view key,
                                      double absent) {
  const double outer = number(key, innerFraction.value_or(absent));
  if (innerFraction && outer != *innerFraction)
    malformed(key,
              "expected the value of rope_parameters (" +
                  shown(json(*innerFraction)) + "), but got " +
                  shown(json(outer)),
              cost::Diag::conflicting_keys);
  innerFraction.reset();
  setRotaryFraction(rope, outer, key);
}

void FamilyReader::setRotaryFraction(Rope &rope, double fraction,
                                     std::string_view key) {
  // As Hugging Face: int(head_dim * fraction).
  const int64_t width =
      static_cast<int64_t>(static_cast<double>(spec.headDim) * fraction);
  rope.width = width == spec.headDim ? -1 : width;
  if (spec.headDim > 0 && (width < 2 || width > spec.headDim || width % 2 != 0))
    malformed(key,
              "expected an even number of rotated columns from 2 to " +
                  std::to_string(spec.headDim) + ", but got " +
                  std::to_string(width),
              cost::Diag::odd_rotary_width);
}

} // namespace shardwright

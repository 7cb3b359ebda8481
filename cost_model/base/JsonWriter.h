//===- JsonWriter.h - The layout of canonical JSON --------------*- C++ -*-===//
//
// Private to the files of this folder that write JSON.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_JSONWRITER_H
#define SHARDWRIGHT_COST_MODEL_BASE_JSONWRITER_H

#include <nlohmann/json.hpp>

#include <string>

namespace shardwright::cost {

/// Text of `value`: keys sorted, two spaces a level; whatever fits into the
/// rest of a line of 80 columns stands on it. Ends with a newline.
std::string canonicalJson(const nlohmann::json &value);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_JSONWRITER_H

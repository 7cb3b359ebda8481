//===- Sha256.h - Digest that identifies files ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_SHA256_H
#define SHARDWRIGHT_COST_MODEL_BASE_SHA256_H

#include <string>
#include <string_view>

namespace shardwright::cost {

/// SHA-256 (FIPS 180-4) of `text`, 64 lower-case hexadecimal digits.
std::string sha256(std::string_view text);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_SHA256_H

//===- ModelDigest.h - What identifies a model in a plan --------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_PROGRAM_MODELDIGEST_H
#define SHARDWRIGHT_COST_MODEL_PROGRAM_MODELDIGEST_H

#include "cost_model/program/Program.h"

#include <string>

namespace shardwright::cost {

/// sha256 of the canonical program.json without the model's name: a config may
/// be copied or renamed, and its plans stay valid.
std::string modelDigest(const Program &program);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PROGRAM_MODELDIGEST_H

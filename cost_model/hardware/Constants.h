//===- Constants.h - Every fitted figure of the model -----------*- C++ -*-===//
//
// Datasheet figures and NCCL's own tables are facts and stand in the cluster
// files and in Collective.cpp. What is listed here was fitted or estimated.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_CONSTANTS_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_CONSTANTS_H

#include <string>
#include <vector>

namespace shardwright::cost {

/// One figure: "device/..." per machine (measured curves), "shared/..." for all
/// machines, "profile/..." per framework. `source` says how it was fitted and
/// on what.
struct FittedConstant {
  std::string name, value, source;
};

/// Read from the shipped files, so that the list cannot drift from what is
/// used.
std::vector<FittedConstant> fittedConstants();

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_CONSTANTS_H

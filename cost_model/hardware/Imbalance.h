//===- Imbalance.h - Uneven loads of expert ranks ---------------*- C++ -*-===//
//
// Routers that nobody forces send some experts more rows than others. A rank
// waits for the busiest of its group, so a layer takes as long as the largest of
// as many random loads as there are ranks.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_IMBALANCE_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_IMBALANCE_H

#include "cost_model/plan/Plan.h"

#include <cstdint>

namespace shardwright::cost {

/// Concentration of a Dirichlet distribution over all experts of a layer: how
/// evenly a router that is trained with an auxiliary loss, and not forced, likes
/// its experts. Whatever the number of experts, parts of equal size have shares
/// whose relative variance is (parts - 1) / (concentration + 1).
inline constexpr double kRoutingConcentration = 150;

/// Rows that the ranks of an expert group get together of a microbatch: each of
/// its `ep` ranks sends its part of a sequence, every token to `choices` experts.
double rowsTogether(const Plan &plan, int64_t sequence, int64_t choices);

/// Rows of the busiest of `ranks` expert ranks over their mean, such that
/// `share` of layers and microbatches have less: Dirichlet popularity and
/// multinomial draws of `rows` rows of all ranks together. 1 for one rank.
double busiestOverMean(int64_t ranks, double rows, double share);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_IMBALANCE_H

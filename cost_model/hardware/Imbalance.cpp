//===- Imbalance.cpp - Uneven loads of expert ranks -----------------------===//
#include "cost_model/hardware/Imbalance.h"
#include "cost_model/base/Normal.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {

double rowsTogether(const Plan &plan, int64_t sequence, int64_t choices) {
  return static_cast<double>(sequence) / static_cast<double>(plan.cp) *
         static_cast<double>(plan.microBatch) * static_cast<double>(choices) *
         static_cast<double>(plan.ep);
}

double busiestOverMean(int64_t ranks, double rows, double share) {
  if (ranks <= 1)
    return 1;
  const double n = static_cast<double>(ranks);
  const double variance =
      (n - 1) / (kRoutingConcentration + 1) + (n - 1) / std::max(1.0, rows);
  // All ranks have less with probability `share`: each with its n-th root.
  const double below = std::pow(share, 1 / n);
  const double z = below < 0.5 ? -normalAbove(below) : normalAbove(1 - below);
  // Wilson and Hilferty (1931): the cube root of a gamma variable is normal.
  const double ninth = variance / 9;
  const double load =
      std::pow(std::max(0.0, 1 - ninth + z * std::sqrt(ninth)), 3);
  return std::clamp(load, 1.0, n);
}

} // namespace shardwright::cost

//===- Imbalance.cpp - Uneven loads of expert ranks -----------------------===//
#include "cost_model/hardware/Imbalance.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {
namespace {

/// z with P(Z > z) = tail <= 0.5; Abramowitz and Stegun 26.2.23, |error| < 4.5e-4.
double normalAbove(double tail) {
  const double t = std::sqrt(-2 * std::log(tail));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

} // namespace

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
  const double load = std::pow(std::max(0.0, 1 - ninth + z * std::sqrt(ninth)), 3);
  return std::clamp(load, 1.0, n);
}

} // namespace shardwright::cost

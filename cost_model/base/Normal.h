//===- Normal.h - Quantiles of the normal distribution ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_NORMAL_H
#define SHARDWRIGHT_COST_MODEL_BASE_NORMAL_H

namespace shardwright::cost {

/// z with P(Z > z) = tail of a standard normal Z, 0 < tail <= 0.5; Abramowitz
/// and Stegun 26.2.23, |error| < 4.5e-4.
double normalAbove(double tail);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_NORMAL_H

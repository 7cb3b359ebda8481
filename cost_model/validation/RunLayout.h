//===- RunLayout.h - Layers of a published run over its stages --*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_VALIDATION_RUNLAYOUT_H
#define SHARDWRIGHT_COST_MODEL_VALIDATION_RUNLAYOUT_H

#include "cost_model/validation/Validation.h"

namespace shardwright::cost {

/// Stages of `plan` (pp, schedule and chunks are set) as the row's framework
/// lays layers out and recomputes them.
std::vector<Stage> runStages(const ValidationRow &row, const Program &program,
                             const Profile &profile, const Plan &plan);

/// Over `count` stages such that the fullest does as little as can be, by the
/// products of a forward pass: what people lay out by hand where layers do not
/// divide.
std::vector<Stage> balancedStages(const Program &program, int64_t count,
                                  Recompute policy);
/// A stage ends behind the layer that takes it over its share of the weights of
/// layers and head.
std::vector<Stage> stagesByProducts(const Program &program, int64_t count,
                                    Recompute policy);
/// As many modules on each, the earlier ones more: embedding, layers, last norm
/// and head.
std::vector<Stage> stagesByModules(const Program &program, int64_t count,
                                   Recompute policy);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_VALIDATION_RUNLAYOUT_H

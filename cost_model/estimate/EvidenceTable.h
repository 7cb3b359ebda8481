//===- EvidenceTable.h - Errors of published runs ---------------*- C++ -*-===//
//
// Made by `test/validation/evidence.py shardwright RUNS...` from 16 published
// sources (names: cost_model/README.md). Of Evidence.cpp alone.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_EVIDENCETABLE_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_EVIDENCETABLE_H

#include "cost_model/estimate/Evidence.h"

namespace shardwright::cost {

struct Cell {
  std::string_view cluster, profile;
  RunFamily family;
};

constexpr Cell kCells[] = {
    {"dgx-a100", "fsdp", RunFamily::Dense16},
    {"dgx-a100", "fsdp-2023", RunFamily::Dense16},
    {"dgx-a100", "internevo", RunFamily::Dense16},
    {"dgx-a100", "megatron-2021", RunFamily::Dense16},
    {"dgx-a100", "megatron-2022", RunFamily::Dense16},
    {"dgx-a100", "scaling-2023", RunFamily::Dense16},
    {"dgx-a100-40gb", "fsdp-2023", RunFamily::Dense16},
    {"dgx-b200", "megatron-core", RunFamily::Dense16},
    {"dgx-b200", "megatron-core", RunFamily::Dense8},
    {"dgx-b200", "megatron-core", RunFamily::Experts},
    {"dgx-b300", "megatron-core", RunFamily::Experts},
    {"dgx-h100", "fsdp", RunFamily::Dense16},
    {"dgx-h100", "fsdp-2023", RunFamily::Dense16},
    {"dgx-h100", "fsdp-2023", RunFamily::Dense8},
    {"dgx-h100", "megatron-core", RunFamily::Dense16},
    {"dgx-h100", "megatron-core", RunFamily::Dense8},
    {"dgx-h100", "megatron-core", RunFamily::Experts},
    {"dgx-h100", "nanotron", RunFamily::Dense16},
    {"dgx-h200", "megatron-core", RunFamily::Experts},
    {"gb200-nvl72", "megatron-core", RunFamily::Dense16},
    {"gb200-nvl72", "megatron-core", RunFamily::Dense8},
    {"gb200-nvl72", "megatron-core", RunFamily::Experts},
    {"gb300-nvl72", "megatron-core", RunFamily::Dense8},
    {"gb300-nvl72", "megatron-core", RunFamily::Experts},
};

/// Percentiles of predicted / measured - 1.
struct ErrorRange {
  double p10, p90;
};
constexpr ErrorRange kErrors[] = {
    {-0.164, 0.047}, // dense, 16 bits: 11 sources
    {-0.077, 0.127}, // dense, 8 bits or fewer: 4 sources
    {-0.222, 0.315}, // experts: 6 sources
};

/// Ratio of two layouts, measured by predicted or its inverse: 80th percentile.
constexpr double kPairs = 1.21; // 10 sources, 2161 pairs

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_EVIDENCETABLE_H

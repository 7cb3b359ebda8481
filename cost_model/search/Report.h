//===- Report.h - Estimates and ledgers as text for people ------*- C++ -*-===//
//
// Aligned tables with units. What scripts read is JSON (tools/shardwright).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_REPORT_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_REPORT_H

#include "cost_model/base/Format.h"
#include "cost_model/search/Search.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// Layers that each stage holds, without embedding and head.
std::vector<int64_t> layersOf(const Program &program, const Plan &plan);
/// Layers of each stage under Recompute::Full.
std::vector<int64_t> fullLayersOf(const Program &program, const Plan &plan);
/// "none", "selective", "full", "full:3" (on 3 layers of a stage), "full:2,1x3" (on
/// 2 of the first and 1 of each of three more), or "mixed".
std::string recomputeText(const Program &program, const Plan &plan);
/// The same as a value that a search takes: "full:1-2" where stages differ.
std::string recomputeRange(const Program &program, const Plan &plan);
/// "20", "20+21x2+18": runs of equal stages.
std::string layersText(const std::vector<int64_t> &layers);
/// "bf16 with fp8 products and f32 gradients".
std::string typesText(const DTypes &dtypes);
/// "8 TP, 4 PP, 2 DP, SP, ZeRO-1, microbatch 1 x 16, 1F1B, recompute none".
std::string planText(const Program &program, const Plan &plan);

/// Bytes of the fullest stage; its index is `stage`.
Bytes fullestStage(const Estimate &estimate, size_t &stage);

/// "stage 0: 3.10 GiB, stages 1-3: 2.00 GiB": by what ranks exceed the limit;
/// empty if none does.
std::string deficitText(const Estimate &estimate, Bytes limit);

/// One line a plan: degrees, time, MFU, tokens, memory. `limit` marks plans
/// that are within 1 % of it ("tight") or do not fit, `tied` those whose time of
/// a token is less than so many times that of the first.
std::string plansTable(const Program &program,
                       const std::vector<RankedPlan> &plans, Bytes limit,
                       double tied = 1);
/// Whether b is so little slower than a, or faster.
bool areTied(const RankedPlan &a, const RankedPlan &b, double tied);
/// "42.9 % of the pipeline: 3 of 7 microbatches long": of stages that wait, if
/// all are alike; empty for one stage and for schedules that split backward.
std::string bubbleText(const Plan &plan);
/// Parts of the arena and of the framework by stage.
std::string memoryTable(const Estimate &estimate, Bytes limit);
/// Terms of the step time with their shares.
std::string timeTable(const Estimate &estimate);
/// Collectives by phase and axis, and flops.
std::string ledgerTable(const Ledger &ledger);
/// What each rejected mesh lost on; at most `most` lines of the slower ones.
std::string rejectedTable(const SearchResult &result, Bytes limit, size_t most);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_REPORT_H

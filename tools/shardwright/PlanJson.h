//===- PlanJson.h - Priced plans as JSON for scripts ------------*- C++ -*-===//
//
// Keys are stable; units are in their names. nlohmann's ordered objects keep
// the order in which a person would read them.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_PLANJSON_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_PLANJSON_H

#include "cost_model/estimate/Explain.h"
#include "cost_model/search/Search.h"

#include <nlohmann/json.hpp>

namespace shardwright::tools {

using Json = nlohmann::ordered_json;

/// Every convention of MFU, the default one first.
inline constexpr cost::FlopsConvention flopsConventions[] = {
    cost::FlopsConvention::CausalHalved, cost::FlopsConvention::FullAttention,
    cost::FlopsConvention::SixN};

/// {parallel: {...}, step_time_seconds, mfu, ..., terms: {...}}; `mfu` is of
/// `convention`.
Json pricedPlanJson(const cost::Program &program, const cost::Plan &plan,
                    const cost::Estimate &estimate, cost::Bytes limit,
                    cost::FlopsConvention convention =
                        cost::FlopsConvention::CausalHalved);
/// {parts: {terms: {about, lines: [{name, value, formula, inputs}]}, ...},
/// collectives: [...]}
Json explanationJson(const cost::Explanation &explanation);
/// [{stage, rank, total_bytes, parts: {...}}]
Json memoryJson(const cost::Plan &plan, const cost::Estimate &estimate);
/// [{stage, rank, collectives, flops}]: one entry a stage, as the ledger file.
Json ledgersJson(const cost::Program &program, const cost::Plan &plan);
/// What the numbers rest on.
Json basisJson(const cost::Hardware &hardware, const cost::Profile &profile,
               const cost::Plan &plan, cost::Bytes limit);
Json flopsByConventionJson(const cost::Program &program);
Json rejectedJson(const cost::SearchResult &result);
Json countersJson(const cost::SearchCounters &counters);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_PLANJSON_H

//===- ExplainCollectives.h - Every collective of an estimate ---*- C++ -*-===//
//
// Part of Explain.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_EXPLAINCOLLECTIVES_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_EXPLAINCOLLECTIVES_H

#include "cost_model/estimate/Explain.h"

namespace shardwright::cost {

/// What `rank` of a pipeline calls in a step, as it was priced: of layers what
/// the profile's software does, else what the ledger has.
std::vector<ExplainedCollective>
explainCollectives(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &plan, int64_t rank);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_EXPLAINCOLLECTIVES_H

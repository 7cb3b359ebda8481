//===- Estimate.h - Time and memory of a plan -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_H

#include "cost_model/Hardware.h"
#include "cost_model/Ledger.h"
#include "cost_model/Profile.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// A named part of a total.
struct Term {
  std::string name;
  Seconds time;
};

struct StageEstimate {
  MemoryParts memory;   ///< arena, exact
  Bytes framework;      ///< context, NCCL buffers, allocator: from the profile
  Bytes total() const;  ///< memory.total() + framework
};

/// Time terms on the critical path; their sum is stepTime.
struct Estimate {
  Seconds stepTime;
  std::vector<Term> terms; ///< compute_forward, compute_backward, recompute,
                           ///< tp_communication, pp_bubble, pp_communication,
                           ///< dp_communication, optimizer, ...
  std::vector<StageEstimate> stages;
  double modelFlopsUtilization = 0; ///< of the default convention
  double tokensPerSecondPerGpu = 0;
  bool fits = false;
};

/// Times of one layer of a kind on one rank, for one microbatch.
struct LayerProfile {
  Seconds forward, dataGrad, weightGrad;          ///< compute
  Seconds recompute;                              ///< part of dataGrad that recomputes
  Seconds forwardCommunication, backwardCommunication; ///< exposed collectives
};

/// Memoizable: depends only on kind, policy, tp, sp, microBatch, dtypes.
LayerProfile profileLayer(const Plan &plan, const Kind &kind,
                          const KindVariant &variant, const Hardware &hardware,
                          const Profile &profile);

/// Composes layer profiles over stages and schedule (discrete events; a
/// repeating period is extrapolated and equals the complete run).
Estimate estimate(const Program &program, const Hardware &hardware,
                  const Profile &profile, const Plan &plan);

/// A time that no completion of the partial plan can beat: fields of `plan`
/// that `fixed` does not name are free. Admissible (property-tested).
struct FixedFields {
  bool dp = false, tp = false, pp = false, sp = false, microBatch = false,
       zero = false, recompute = false;
};
Seconds lowerBound(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &plan,
                   const FixedFields &fixed);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_H

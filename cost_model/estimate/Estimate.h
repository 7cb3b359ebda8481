//===- Estimate.h - Time and memory of a plan -------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_ESTIMATE_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_ESTIMATE_H

#include "cost_model/hardware/Hardware.h"
#include "cost_model/hardware/Profile.h"
#include "cost_model/partition/Layout.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/schedule/Timeline.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardwright::cost {

/// A named part of a total.
struct Term {
  std::string name;
  Seconds time;
};

struct StageEstimate {
  /// The arena, exact under `native`; of other profiles as their software
  /// keeps it.
  MemoryParts memory;
  Bytes framework;     ///< context, NCCL buffers, allocator: from the profile
  Bytes outside;       ///< of framework: what no counter of tensors shows
  Bytes fragments;     ///< of outside: what the allocator reserves beyond them
  Bytes total() const; ///< memory.total() + framework: what the device loses
  Bytes allocated() const { return total() - outside; } ///< tensors alone
  Bytes reserved() const; ///< what the allocator took from the device
};

/// Whether a rank that needs so much fits: it has to stay below the limit, as
/// nothing is left of memory that is filled to the last byte.
constexpr bool staysBelow(Bytes memory, Bytes limit) { return memory < limit; }
/// What a rank that does not fit has to shed.
constexpr Bytes excess(Bytes memory, Bytes limit) {
  return memory - limit + Bytes(1);
}

/// Time terms on the critical path; their sum is stepTime. Always these, in
/// this order, zeros included:
///   compute_forward, compute_backward, recompute, tp_communication,
///   cp_communication, ep_communication, host, offload, pp_communication,
///   pp_bubble
///                                 of the stage that reduces its gradients last
///   dp_communication              exposed part of its gradient reduction
///   embedding_communication       sums of a parameter that stages share
///   optimizer                     of the stage with most state
///   parameter_gather              exposed gather of updated parameters
///   synchronization               gradient norm over all ranks
///   stragglers                    wait for the slowest device of the job, of the
///                                 stage that computes most
struct Estimate {
  Seconds stepTime;
  std::vector<Term> terms;
  std::vector<StageEstimate> stages;
  double modelFlopsUtilization = 0; ///< of the default convention
  double tokensPerSecondPerGpu = 0;
  bool fits = false;
};

/// Times of one layer of a kind on one rank, for one microbatch.
struct LayerProfile {
  Seconds forward, dataGrad, weightGrad; ///< compute
  Seconds recompute;                     ///< part of dataGrad that recomputes
  Seconds forwardCommunication, backwardCommunication; ///< exposed collectives
  Seconds forwardExchange, backwardExchange; ///< all-to-alls of experts' rows
  Seconds forwardContext, backwardContext; ///< exposed exchange over cp
  Seconds forwardHost, backwardHost; ///< waits for the host to issue work

  /// All that happens before the stream, or its gradient, leaves the layer.
  Seconds forwardAll() const {
    return forward + forwardCommunication + forwardExchange + forwardContext +
           forwardHost;
  }
  Seconds dataGradAll() const {
    return dataGrad + backwardCommunication + backwardExchange +
           backwardContext + backwardHost;
  }
};

/// Memoizable: depends only on kind, policy, tp, cp, cpKind, sp, microBatch,
/// dtypes and, for experts, on ep, etp and dp.
LayerProfile profileLayer(const Plan &plan, const Kind &kind,
                          const KindVariant &variant, const Hardware &hardware,
                          const Profile &profile);

/// What is left of `communication` that may run beside `cover` of compute: what
/// sticks out, and the compute that its kernels displace meanwhile.
Seconds exposedTime(const Hardware &hardware, Seconds communication,
                    Seconds cover);

/// Everything that a layer may depend on, as numbers.
using LayersKey = std::array<int64_t, 14>;

/// Remembers what plans share: profiles and facts of layers. For one program,
/// hardware and profile. References stay valid.
class EstimateCache {
public:
  EstimateCache();
  /// For another thread: remembers with `other` what either learns. No one
  /// cache is for several threads at once.
  explicit EstimateCache(const EstimateCache *other);
  ~EstimateCache();
  EstimateCache(const EstimateCache &) = delete;

  /// Plans with the same key have layers that take the same; the same memoryKey,
  /// that hold the same. Neither reads the plan's mesh.
  static LayersKey layersKey(const Plan &plan);
  static LayersKey memoryKey(const Plan &plan);
  /// What priced() prices. Of less than All no time is longer.
  enum class Extent {
    Ops,   ///< no collectives but those of attention
    Least, ///< ops of experts take what they take at least, wherever these live
    All
  };
  /// What layer() gives under each of `policies`, by policy; not remembered
  /// itself. Does not read the plan's mesh.
  std::array<LayerProfile, 3> priced(const Program &program,
                                     const Hardware &hardware,
                                     const Profile &profile, const Plan &plan,
                                     int kind,
                                     const std::vector<Recompute> &policies,
                                     Extent extent = Extent::All);

  const LayerProfile &layer(const Program &program, const Hardware &hardware,
                            const Profile &profile, const Plan &plan, int kind,
                            Recompute policy);
  /// What a layer holds on a rank for one microbatch.
  const LayerMemory &memory(const Program &program, const Plan &plan, int kind,
                            Recompute policy);
  /// parameterBlock of a kind, and the axes that it follows from.
  const ParameterBlock &block(const Program &program, const Plan &plan,
                              int kind);
  const std::vector<Axes> &
  reduceAxes(const Program &program, const Plan &plan, int kind);
  /// Transfers of that block.
  const struct BlockTimes &times(const Program &program,
                                 const Hardware &hardware,
                                 const Profile &profile, const Plan &plan,
                                 int kind);
  /// sharedBlock of a stage.
  const ParameterBlock &shared(const Program &program, const Plan &plan,
                               int64_t stage);
  ScheduleCache schedules;

private:
  class Shared;
  class State;
  std::unique_ptr<State> state;
};

/// Composes layer profiles over stages and schedule (discrete events; a
/// repeating period is extrapolated and equals the complete run). The plan is
/// legal (Rules.h). `cache` may be null; it never changes the result.
///
/// Of a pipeline rank with several chunks, `stages` and the terms are of the
/// rank: all its entries of plan.stages.
Estimate estimate(const Program &program, const Hardware &hardware,
                  const Profile &profile, const Plan &plan,
                  EstimateCache *cache = nullptr);

/// Bytes that the layers of every chunk save for a microbatch, [rank * chunks +
/// chunk]: what goes to the host under Plan::offloadActivations.
std::vector<double> savedByChunks(const Program &program,
                                  const Hardware &hardware,
                                  const Profile &profile, const Plan &plan);

/// What a rank of the pipeline does, for those who ask why.
struct StageBreakdown {
  LayerProfile work;  ///< of one microbatch in each of its chunks
  StageTimeline line; ///< of all of them
  Seconds reduce, exposedReduce; ///< of gradients; of every microbatch and
                                 ///< exposed once under ZeRO 2 and 3
  Seconds gather, exposedGather; ///< of parameters; of every use under ZeRO 3
  Seconds shardedForward, shardedBackward; ///< exposed in every microbatch
  Seconds toHost; ///< copies of saved values, one way, in every microbatch
  Seconds savedForward, savedBackward;     ///< of them and back, exposed
  Seconds optimizer;
  Seconds hostUpdate; ///< of it, on the host
  int64_t elements = 0, stateElements = 0; ///< parameters; those it updates
  double optimizerBytes = 0;               ///< traffic of the update
};
struct Breakdown {
  std::vector<StageBreakdown> stages;
  size_t last = 0;        ///< whose terms the estimate has
  PipelineTimes pipeline;
  double excess = 0;      ///< by which the slowest device is slower than the mean
  Seconds computing;      ///< of the stage that computes most
  Seconds shared;         ///< sum of gradients that stages share
};

/// The same without memory: `stages` is empty and `fits` false. `breakdown`
/// gets what the terms were made of.
Estimate estimateTime(const Program &program, const Hardware &hardware,
                      const Profile &profile, const Plan &plan,
                      EstimateCache *cache = nullptr,
                      Breakdown *breakdown = nullptr);

/// Memory of every stage: the arena exactly, and what the framework adds.
std::vector<StageEstimate> estimateMemory(const Program &program,
                                          const Hardware &hardware,
                                          const Profile &profile,
                                          const Plan &plan);

/// Memory of one rank of the pipeline; `table` holds the layers of its stages
/// under the plan's dp, tp, sp, zero, microBatch and dtypes. `facts` of its
/// schedule may be null; they are made then.
class LayerTable;
StageEstimate estimateStageMemory(const Program &program,
                                  const Hardware &hardware,
                                  const Profile &profile, const Plan &plan,
                                  const LayerTable &table, int64_t stage,
                                  const ScheduleFacts *facts = nullptr);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_ESTIMATE_H

//===- StageBounds.h - Closed forms for parts of plans ----------*- C++ -*-===//
//
// Times that no completion of a partial plan beats, and bytes that none does
// without, in a handful of additions: what the search prunes by. SEARCH.md says
// why they are admissible; a test compares them with prices.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_STAGEBOUNDS_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_STAGEBOUNDS_H

#include "cost_model/estimate/StageWork.h"
#include "cost_model/search/Candidate.h"

#include <vector>

namespace shardwright::cost {

/// Most layers that the first, the last and an interior stage may hold.
struct SplitBox {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = first, interior = first;
};

/// The bounds of one question. Not for several threads at once.
class StageBounds {
public:
  /// The arguments outlive it. `base` as for ProgramEstimator.
  StageBounds(const Program &program, const Hardware &hardware,
              const Profile &profile, const Plan &base,
              const std::vector<Recompute> &policies,
              const std::vector<ScheduleKind> &schedules,
              const std::vector<DType> &gradients, bool offloads,
              EstimateCache &cache);

  /// From the flops alone, before any layer is priced.
  double meshTime(const Candidate &c) const;
  /// Least time of any completion of `c` beyond `depth` (Batch .. Complete).
  double time(const Candidate &c, Depth depth);
  /// Stages of a split that takes at most `atMost`; c is of Depth::Policy.
  SplitBox box(const Candidate &c, double atMost);
  /// Bytes of the fullest rank, before any layer is planned.
  double meshBytes(const Candidate &c, Depth depth) const;
  /// False only if every split needs `limit` or more; c of Depth::Policy.
  bool splitsFit(const Candidate &c, double limit);

private:
  /// Bytes of what stateBytes says, less parameters that are their master.
  double heldState(const DTypes &dtypes, bool host, int zero, double elements,
                   double stateElements) const;
  /// Seconds of one microbatch on a layer or a stage.
  struct Cost {
    double forward = 0, backward = 0; ///< with what shows of transfers
    double compute = 0;               ///< arithmetic and memory traffic alone
    double reduce = 0;                ///< once a step: of its gradients
    double all() const { return forward + backward; }
    void add(const Cost &other, double times);
    static Cost least(const Cost &a, const Cost &b);
  };
  /// One kind of repeated layers under a candidate.
  struct Layer {
    Cost plain, policy;
    double count = 0;      ///< in the model
    double stateBytes = 0; ///< parameters, gradients, optimizer
    double savedPlain = 0, savedPolicy = 0; ///< bytes of a microbatch
    double workspace = 0;
  };
  /// What every split of a candidate, and often many candidates, share.
  struct Site {
    Candidate key;
    Depth depth = Depth::Mesh;
    std::vector<Layer> layers; ///< as layerKinds
    Cost entrance, exit;
    double entranceState = 0, exitState = 0;
    double plainTotal = 0;  ///< of the ends and all layers without the policy
    double policyTotal = 0; ///< the same with it
    double border = 0;      ///< one transfer between neighbours
    double once = 0;        ///< optimizer, gather and norm of a step
    double leastReduce = 0; ///< that shows, of any stage, if it hides
    double excess = 0;      ///< of the slowest device over the mean
    double microbatches = 1;
  };
  double leastSaved(const Plan &plan, const LayerMemory &memory,
                    Recompute policy) const;
  const Site &site(const Candidate &c, Depth depth);
  Cost costOf(const Plan &plan, int kind, Recompute policy);

  bool uniform() const { return layerKinds.size() == 1; }
  /// Layers of a stage of `count` that take the policy, the first ones.
  static double policyLayers(const Candidate &c, double count);
  Cost stageCost(const Site &site, const Candidate &c, int64_t stage,
                 int64_t from, int64_t count) const;
  /// A stage with `own` cannot be through sooner after what is not of a stage
  /// (`path`: one microbatch through all stages).
  double stageTime(const Site &site, const Candidate &c, const Cost &own,
                   int64_t stage, double path) const;
  double path(const Site &site, const Candidate &c) const;
  double stepTime(const Site &site, double pipeline, double reduce,
                  double compute) const;
  double completeTime(const Site &site, const Candidate &c) const;
  double chunkedTime(const Site &site, const Candidate &c) const;
  /// Most layers of one kind on `stage` with the pipeline through in `within`;
  /// -1 if not even none.
  int64_t cap(const Site &site, const Candidate &c, const Layer &layer,
              int64_t stage, double within) const;
  struct Caps {
    int64_t first, last, interior;
  };
  bool feasible(const Site &site, const Candidate &c, double time,
                Caps *caps) const;
  double splitTime(const Site &site, const Candidate &c) const;
  double slots(const Candidate &c, int64_t stage) const;

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan base;
  const std::vector<Recompute> policies;
  EstimateCache &cache;
  /// The narrowest that is free; none if the base plan's type is fixed.
  std::optional<DType> leastGradient;
  bool offloads = false; ///< some optimizer may live on the host
  bool chunked = false;  ///< some schedule lets a rank run several stages
  bool joined = true;    ///< in all, both gradients of a layer come together
  bool besides = false;  ///< some runs a forward beside a backward
  std::vector<int> layerKinds; ///< kinds of repeated layers
  /// [k][i]: layers of layerKinds[k] among the first i of the model.
  std::vector<std::vector<int64_t>> before;
  double elements = 0, expertElements = 0; ///< that no stages share
  double flops = 0; ///< of a sequence, forward and backward
  Site current;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_STAGEBOUNDS_H

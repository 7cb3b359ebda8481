//===- StageBounds.h - Closed forms for parts of plans ----------*- C++ -*-===//
//
// Times that no completion of a partial plan beats, and bytes that none does
// without, in a handful of additions: what the search prunes by. SEARCH.md says
// why they are admissible; a test compares them with prices.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_STAGEBOUNDS_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_STAGEBOUNDS_H

#include "cost_model/base/SharedMap.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/search/Candidate.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

namespace shardwright::cost {

/// What a rough bound knows of layers, ascending; the less, the more candidates
/// share it: wherever experts live; without what experts compute beyond the
/// least, or, of models without any, without collectives; all that they take.
enum class Rough { Experts, Part, Layers };
inline constexpr Rough roughs[] = {Rough::Experts, Rough::Part, Rough::Layers};

/// The bounds of one question. Not for several threads at once; `share` says
/// with whose bounds, of another thread, it shares what both learn.
class StageBounds {
public:
  /// The arguments outlive it. `base` as for ProgramEstimator.
  StageBounds(const Program &program, const Hardware &hardware,
              const Profile &profile, const Plan &base,
              const std::vector<Recompute> &policies,
              const std::vector<ScheduleKind> &schedules,
              const std::vector<DType> &gradients, bool offloads,
              EstimateCache &cache, const StageBounds *share = nullptr);

  /// From the flops alone, before any layer is priced.
  double meshTime(const Candidate &c) const;
  /// Of Depth::Batch: the mean rank under the cheapest policies.
  double roughTime(const Candidate &c, Rough rough);
  /// False only if embedding or head leaves no room; c of Depth::Batch.
  bool endsFit(const Candidate &c, double limit);
  /// Least time of any completion of `c` beyond `depth` (Batch .. Complete).
  /// Above `enough` it may be looser than it could.
  double time(const Candidate &c, Depth depth, const FullRule &rule,
              double enough);
  /// Those of `splits` that may take at most `atMost`; c is of Depth::Policy.
  std::vector<Split> within(const Candidate &c,
                            const std::vector<Split> &splits, double atMost,
                            const FullRule &rule);
  /// Bytes of the fullest rank, before any layer is planned.
  double meshBytes(const Candidate &c, Depth depth) const;
  /// False only if every split needs `limit` or more; c of Depth::Policy.
  bool splitsFit(const Candidate &c, double limit);
  /// The same of one split.
  bool layersFit(const Candidate &c, double limit);

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
    void add(const Cost &other, double times) {
      forward += times * other.forward;
      backward += times * other.backward;
      compute += times * other.compute;
      reduce += times * other.reduce;
    }
    static Cost least(const Cost &a, const Cost &b) {
      return {std::min(a.forward, b.forward), std::min(a.backward, b.backward),
              std::min(a.compute, b.compute), std::min(a.reduce, b.reduce)};
    }
  };
  /// One kind of repeated layers under a candidate.
  struct Layer {
    Cost plain, policy;
    double count = 0;      ///< in the model
    double stateBytes = 0; ///< parameters, gradients, optimizer
    double savedPlain = 0, savedPolicy = 0; ///< bytes of a microbatch
    double workspace = 0;
  };
  /// Microbatches of every chunk that a rank which runs several holds at once: at
  /// the moment that holds most, and at any that may be the fullest.
  struct RankSlots {
    std::vector<double> fullest, any; ///< [chunk]
    std::vector<int64_t> chunks; ///< those that `fullest` has most of first
    double least = 0;            ///< of `any`
  };
  /// What every split of a candidate, and often many candidates, share.
  struct Site {
    Candidate key;
    Depth depth = Depth::Mesh;
    std::vector<Layer> layers; ///< as layerKinds
    // If ranks run several stages:
    std::vector<std::array<Cost, 3>> sums; ///< [layers]: plain, policy, least
    std::vector<Cost> least;      ///< of the layers from each on
    std::vector<size_t> cheapest; ///< of `layers`, to recompute
    int64_t stages = 0;
    bool bothEnds = false; ///< holdsBothEnds
    double passes = 0;     ///< microbatches of a chunk
    /// Of Depth::Policy.
    const std::vector<RankSlots> *slots = nullptr;
    Cost entrance, exit;
    double entranceState = 0, exitState = 0;
    double plainTotal = 0;  ///< of the ends and all layers without the policy
    double policyTotal = 0; ///< the same with it
    double border = 0;      ///< one transfer between neighbours
    double once = 0;        ///< optimizer, gather and norm of a step
    double leastReduce = 0; ///< that shows, of any stage, if it hides
    double excess = 0;      ///< of the slowest device over the mean
    double microbatches = 1;
    /// Of the rule that site() was last asked under: bytes, layers, and seconds
    /// that recomputation adds to plainTotal at least.
    double limit = 0;
    int64_t floor = 0;
    ScheduleKind schedule = ScheduleKind::OneFOneB; ///< of that question
    bool alike = false;
    double recomputed = 0;
  };
  /// A layer on a rank, for one microbatch.
  struct Price {
    double forward = 0, backward = 0; ///< with what shows of collectives
    double forwardCompute = 0, backwardCompute = 0;
    double forwardExchange = 0, backwardExchange = 0; ///< of experts' rows
    /// `beside`: a forward beside a backward hides the exchanges of both.
    Cost cost(bool beside) const;
  };
  /// Prices of some kinds, which all candidates share whose layers do the same.
  struct Row {
    std::vector<std::array<Price, 3>> prices; ///< [of these kinds][policy]
    /// A microbatch in all their layers under the cheapest policies; [1]: beside.
    std::array<Cost, 2> total;
  };
  /// Kinds with experts, which ask where these live, and all others.
  struct Rows {
    const Row *routed, *others;
  };
  /// Bytes that a layer holds for one microbatch; [kind][policy].
  struct Held {
    double saved = 0, workspace = 0;
  };
  using Holds = std::vector<std::array<Held, 3>>; ///< of some kinds, as Row
  /// By what layers depend on; but what does not ask where experts live is under
  /// ep = etp = 1, and ops and ends are under a plan that forgets its place.
  struct Tables {
    SharedMap<std::tuple_size_v<LayersKey>, Row> routed, others;
    SharedMap<std::tuple_size_v<LayersKey>, std::array<Cost, 2>> leastRouted;
    SharedMap<std::tuple_size_v<LayersKey>, Holds> routedHold, othersHold;
    SharedMap<std::tuple_size_v<LayersKey>, Cost> ops;
    SharedMap<std::tuple_size_v<LayersKey>, double> ends;
  };
  /// What the states of a Batch candidate share that have their parameters,
  /// gradients and optimizer on the same ranks.
  struct Ownership {
    int zero;
    int64_t zeroRanks;
    bool offload, twice; ///< each stage has two owners
    std::vector<const BlockTimes *> times; ///< by kind
    std::vector<const ParameterBlock *> blocks;
    std::vector<double> bytes; ///< that a layer of a kind holds of them
    double once; ///< optimizer and gather of a step
  };
  /// A Batch candidate with a type of gradients.
  struct Ground {
    Candidate key;
    bool known = false;
    Plan plan;
    Rows rows{nullptr, nullptr};
    /// Of kinds with experts and of others, made when first asked for.
    const Holds *routedHold = nullptr, *othersHold = nullptr;
    double border = 0, microbatches = 1;
    std::vector<Ownership> ownerships;
  };
  double leastSaved(const Plan &plan, const LayerMemory &memory,
                    Recompute policy) const;
  static double leastSaved(const Candidate &c, const Layer &layer) {
    return isMixed(c) ? std::min(layer.savedPlain, layer.savedPolicy)
                      : layer.savedPolicy;
  }
  const Site &site(const Candidate &c, Depth depth, const FullRule &rule);
  const Site &site(const Candidate &c, Depth depth);
  /// `plan` with the fields of a Batch candidate and its gradients, no mesh.
  void setBatch(Plan &plan, const Candidate &c) const;
  const Row &routedRow(Plan &plan);
  const Row &othersRow(Plan &plan);
  Row priced(const Plan &plan, bool routed, EstimateCache::Extent extent);
  const Price &priceOf(const Rows &rows, int kind, Recompute policy) const;
  void findHolds(Ground &ground);
  Holds held(const Plan &plan, bool routed);
  Ground &groundOf(const Candidate &key);
  const Ownership &ownershipOf(Ground &ground, const Candidate &key);
  /// `longer`: of the layers beside it that hide the most.
  Cost costOf(const Price &price, const Price &longer, const Ground &ground,
              const Ownership &own, const StageClock &clock, bool beside,
              int kind) const;
  void setRanks(int64_t ranks);

  bool uniform() const { return layerKinds.size() == 1; }
  /// Some of a stage's layers recompute in full, the others are plain.
  static bool isMixed(const Candidate &c) {
    return c.recompute == Recompute::Full;
  }
  /// Bytes that a stage has for its layers.
  double room(const Site &site, const Candidate &c, int64_t stage) const;
  /// Layers of one kind on a stage by themselves: bytes of each, and what `count`
  /// of them recompute at least: perLayer * count - spared.
  struct Need {
    double plain = 0, policy = 0, room = 0;
    double perLayer = 0, spared = 0;
  };
  Need need(const Site &site, const Candidate &c, const Layer &layer,
            int64_t stage) const;
  /// Layers that recompute at the least of those of a stage.
  int64_t leastFull(const Site &site, const Candidate &c, int64_t stage,
                    int64_t from, int64_t count) const;
  void setRule(Site &site, const Candidate &c, const FullRule &rule) const;
  Cost stageCost(const Site &site, const Candidate &c, int64_t stage,
                 int64_t from, int64_t count, int64_t full) const;
  Cost stageCost(const Site &site, const Candidate &c, int64_t stage,
                 int64_t from, int64_t count) const {
    return stageCost(site, c, stage, from, count,
                     leastFull(site, c, stage, from, count));
  }
  /// A stage with `own` cannot be through sooner after what is not of a stage
  /// (`path`: one microbatch through all stages).
  double stageTime(const Site &site, const Candidate &c, const Cost &own,
                   int64_t stage, double path) const;
  double path(const Site &site, const Candidate &c) const;
  double stepTime(const Site &site, double pipeline, double reduce,
                  double compute) const;
  double completeTime(const Site &site, const Candidate &c,
                      double enough) const;
  /// What layers of one kind by themselves make of a stage: `ends` is the time of
  /// the pipeline with none, `plain` and `more` what one adds and what it adds if
  /// it recomputes, as the first `floor` do, and as many as `need` asks for.
  struct Load {
    double ends = 0, plain = 0, more = 0, floor = 0;
    Need need = {};
    /// Most layers with the pipeline through in `within`; -1 if not even none.
    int64_t cap(double within) const;
  };
  Load load(const Site &site, const Candidate &c, const Layer &layer,
            int64_t stage) const;
  /// Of the first, the last, the first and the last interior stage.
  using Loads = std::array<Load, 4>;
  std::vector<Loads> loads(const Site &site, const Candidate &c) const;
  struct Caps {
    int64_t first, last, interior;
  };
  bool feasible(const Site &site, const Candidate &c,
                const std::vector<Loads> &loads, double time, Caps *caps) const;
  double splitTime(const Site &site, const Candidate &c) const;
  /// Most layers that the first, the last and an interior stage may hold.
  struct SplitBox {
    int64_t first = 0, last = 0, interior = 0;
  };
  SplitBox box(const Site &site, const Candidate &c, double atMost) const;
  // Where ranks run several stages: what they hold (StageChunkMemory.cpp), ...
  const std::vector<RankSlots> &slotsOfRanks(const Candidate &c);
  const std::vector<double> &inFlight(const Site &site, const Candidate &c,
                                      int64_t rank,
                                      const StageStarts &starts) const;
  double rankBytes(const Site &site, const Candidate &c, int64_t rank) const;
  static double leastSaved(const Candidate &c, const Layer &layer,
                           double flying, double least);
  int64_t fullOfRank(const Site &site, const Candidate &c, int64_t rank,
                     const StageStarts &starts) const;
  bool chunksFit(const Site &site, const Candidate &c, double limit) const;
  bool chunkedSplitsFit(const Site &site, const Candidate &c,
                        double limit) const;
  double layersOf(size_t k, const StageStarts &starts, int64_t stage) const;
  // ... and the time that they take (StageChunkTimes.cpp).
  void setSums(Site &site, const Candidate &c) const;
  double restTime(const Site &site, const Candidate &c) const;
  /// Layers of a stage that recompute by what is asked of it.
  int64_t askedFull(const Site &site, const Candidate &c, int64_t stage,
                    int64_t count) const;
  /// Of the layers of a stage and what is at an end.
  template <typename Of>
  double chunkSum(const Site &site, const Candidate &c,
                  const StageStarts &starts, int64_t stage, Of of) const;
  template <typename Of>
  double rankSum(const Site &site, const Candidate &c,
                 const StageStarts &starts, int64_t rank, Of of) const;
  double leastRecomputed(const Site &site, const Candidate &c, int64_t rank,
                         const StageStarts &starts) const;
  double rankTime(const Site &site, const Candidate &c,
                  const StageStarts &starts, int64_t rank, double enough) const;
  double chunkedTime(const Site &site, const Candidate &c,
                     double enough) const;
  double endsTime(const Site &site, const Candidate &c, int64_t first,
                  int64_t last) const;
  double meanTime(const Site &site, const Candidate &c) const;
  double chunkedSplitTime(const Site &site, const Candidate &c,
                          double enough) const;
  /// What recomputation adds to the time of a layer.
  static double more(const Layer &layer) {
    return std::max(0.0, layer.policy.all() - layer.plain.all());
  }
  bool hidesReduce(const Candidate &c) const {
    return profile.overlapGradientReduce || c.zero >= 2;
  }
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
  bool routes = false;   ///< some kind has experts
  bool besides = false;  ///< some runs a forward beside a backward
  std::vector<int> layerKinds; ///< kinds of repeated layers
  /// [kind]: whether it is in Rows::routed, and its place there or in others.
  std::vector<std::pair<bool, size_t>> places;
  /// [k][i]: layers of layerKinds[k] among the first i of the model.
  std::vector<std::vector<int64_t>> before;
  double elements = 0, expertElements = 0; ///< that no stages share
  double flops = 0; ///< of a sequence, forward and backward
  const std::shared_ptr<Tables> tables;
  Plan scratch; ///< of roughTime
  /// Of all plans on so many ranks: norm, and the slowest device's excess.
  int64_t ranks = 0;
  double synchronization = 0, excess = 0;
  std::vector<Ground> grounds; ///< the latest of each hash
  std::map<std::array<int64_t, 5>, std::vector<RankSlots>> slotTables;
  Site current;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_STAGEBOUNDS_H

//===- LowerBound.cpp - A time that no completion can beat ----------------===//
#include "cost_model/Estimate.h"
#include "cost_model/Kernel.h"
#include "cost_model/Rules.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {
namespace {

/// Work of one microbatch that no policy of a choice undercuts.
struct Floor {
  double layer = 0, edges = 0; ///< of one repeated layer; of all other kinds
  double early =
      1; ///< least share of a layer's work before its weight gradient
  int64_t layers = 0;
};

class Bound {
public:
  Bound(const Program &program, const Hardware &hardware,
        const Profile &profile, const Plan &plan, const FixedFields &fixed,
        EstimateCache &cache)
      : program(program), hardware(hardware), profile(profile), fixed(fixed),
        cache(cache), base(plan) {}

  Seconds run() {
    double least = -1;
    forEachMesh([&](const Plan &plan) {
      const double bound = ofChoice(plan);
      if (bound >= 0 && (least < 0 || bound < least))
        least = bound;
    });
    return Seconds(std::max(0.0, least));
  }

private:
  /// Every combination of the free degrees that keeps the number of ranks.
  template <typename Visit> void forEachMesh(Visit visit) {
    const int64_t ranks = base.dp * base.tp * base.pp;
    for (int64_t tp = 1; tp <= ranks; ++tp) {
      if (ranks % tp != 0 || (fixed.tp ? tp != base.tp : !tpIsLegal(tp)))
        continue;
      for (int64_t pp = 1; pp <= ranks / tp; ++pp) {
        const int64_t dp = ranks / tp / pp;
        if (ranks / tp % pp != 0 || (fixed.pp && pp != base.pp) ||
            (fixed.dp && dp != base.dp) || pp > program.layers ||
            (dp * tp) % (base.ep * base.etp) != 0)
          continue;
        Plan plan = base;
        plan.tp = tp;
        plan.pp = pp;
        plan.dp = dp;
        if (!degreesNest(plan))
          continue;
        setMesh(plan);
        forEachBatch(plan, visit);
      }
    }
  }
  bool tpIsLegal(int64_t tp) const { return tpDividesWidths(program, tp); }

  template <typename Visit> void forEachBatch(Plan plan, Visit visit) {
    for (int sp = 0; sp < 2; ++sp) {
      if (program.experts > 0 && plan.tp > 1 && sp == 0)
        continue; // experts need it
      if (fixed.sp
              ? (sp != 0) != plan.sp
              : sp != 0 && (plan.tp == 1 || program.sequence % plan.tp != 0))
        continue;
      if (plan.globalBatch % plan.dp != 0)
        continue;
      const int64_t local = plan.globalBatch / plan.dp;
      Plan choice = plan;
      choice.sp = sp != 0;
      for (int64_t micro = 1; micro <= local; ++micro) {
        if (fixed.microBatch ? micro != base.microBatch : local % micro != 0)
          continue;
        choice.microBatch = micro;
        visit(choice);
      }
    }
  }

  double least(const Plan &plan, int kind,
               const std::vector<Recompute> &policies, double &early) {
    double best = -1;
    for (Recompute policy : policies) {
      const LayerProfile &layer =
          cache.layer(program, hardware, profile, plan, kind, policy);
      const double before = (layer.forwardAll() + layer.dataGradAll()).count();
      const double all = before + layer.weightGrad.count();
      if (best < 0 || all < best)
        best = all;
      if (all > 0)
        early = std::min(early, before / all);
    }
    return best;
  }

  std::vector<Recompute> policiesOf(const Kind &kind, int index) const {
    std::vector<Recompute> policies;
    if (fixed.recompute) {
      for (const Stage &stage : base.stages)
        for (const StageRun &run : stage.runs)
          if (kindIndex(program, run.kind) == index &&
              std::find(policies.begin(), policies.end(), run.recompute) ==
                  policies.end())
            policies.push_back(run.recompute);
    } else {
      for (const KindVariant &variant : kind.variants)
        policies.push_back(variant.policy);
    }
    if (policies.empty())
      policies.push_back(Recompute::None);
    return policies;
  }

  double ofChoice(const Plan &plan) {
    Floor floor;
    int64_t elements = 0, expertElements = 0;
    for (const Run &run : program.stack) {
      const Kind &kind = program.kinds[static_cast<size_t>(run.kind)];
      const double time =
          least(plan, run.kind, policiesOf(kind, run.kind), floor.early);
      const bool repeated = takesStream(kind) && givesStream(kind);
      if (repeated) {
        // Several repeated kinds: the cheapest stands for each.
        floor.layer = floor.layers == 0 ? time : std::min(floor.layer, time);
        floor.layers += run.count;
      } else {
        floor.edges += time * static_cast<double>(run.count);
      }
      for (const Parameter &parameter : kind.parameters)
        if (parameter.shared.empty()) {
          int64_t &sum =
              parameter.segment == Segment::Experts ? expertElements : elements;
          sum = checkedAdd(sum, checkedMul(run.count, elementCount(parameter)));
        }
    }

    const double microbatches = static_cast<double>(plan.microbatches());
    const double total =
        floor.layer * static_cast<double>(floor.layers) + floor.edges;
    // A stage with t of the work runs M t, after the forwards of the stages
    // before it and before their backwards (of the early share e at least):
    //   T >= e * (work before it) + (M - 1 + e) t.
    // However the work is split, that cannot hold for every stage unless
    //   T >= e * W / (1 - (1 - e / (M - 1 + e))^pp).
    const double e = floor.early, m = microbatches - 1 + e;
    double pipeline = total * microbatches;
    if (plan.pp > 1)
      pipeline =
          e * total / (1 - std::pow(1 - e / m, static_cast<double>(plan.pp)));
    // And some stage has at least ceil(layers / pp) layers.
    pipeline = std::max(
        pipeline, microbatches * floor.layer *
                      static_cast<double>(ceilDiv(floor.layers, plan.pp)));

    // The stage with most state has the mean at least; vocabulary padding and
    // replicated parameters only add to it.
    const bool sharded = !fixed.zero || plan.zero >= 1;
    const auto bytesOf = [&](int64_t parameters, int64_t split) {
      const double held = static_cast<double>(parameters) /
                          static_cast<double>(plan.pp * split);
      const double shards =
          static_cast<double>(plan.dp * plan.tp) / static_cast<double>(split);
      return held * (profile.stateBytesPerParameter / (sharded ? shards : 1) +
                     profile.gradientBytesPerParameter);
    };
    const double bytes = bytesOf(elements, plan.tp) +
                         bytesOf(expertElements, plan.ep * plan.etp);
    const double update = memoryTime(hardware.device, KernelClass::Optimizer,
                                     Bytes(static_cast<int64_t>(bytes)))
                              .count();
    // Sums are rounded in another order than estimate() rounds them.
    return (pipeline + update) * (1 - 1e-12);
  }

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const FixedFields &fixed;
  EstimateCache &cache;
  const Plan &base;
};

} // namespace

Seconds lowerBound(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &plan,
                   const FixedFields &fixed, EstimateCache *cache) {
  EstimateCache own;
  return Bound(program, hardware, profile, plan, fixed, cache ? *cache : own)
      .run();
}

} // namespace shardwright::cost

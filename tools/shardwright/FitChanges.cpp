#include "tools/shardwright/FitChanges.h"

#include "cost_model/partition/Layout.h"
#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"

#include <algorithm>
#include <limits>

namespace shardwright::tools {

using namespace cost;

namespace {

/// The first counts[i] layers of stage i under `policy`, the others as they are.
Plan recomputing(const Program &program, const Plan &plan, Recompute policy,
                 const std::vector<int64_t> &counts) {
  Plan changed = plan;
  for (size_t i = 0; i < changed.stages.size(); ++i) {
    Stage &stage = changed.stages[i];
    std::vector<StageRun> runs;
    int64_t left = counts[i];
    for (const StageRun &run : stage.runs) {
      const Kind &kind =
          program.kinds[static_cast<size_t>(kindIndex(program, run.kind))];
      const int64_t taken = isLayer(kind) ? std::min(left, run.count) : 0;
      left -= taken;
      if (taken > 0)
        runs.push_back({run.kind, taken, policy});
      if (run.count > taken)
        runs.push_back({run.kind, run.count - taken, run.recompute});
    }
    stage.runs = std::move(runs);
  }
  return changed;
}

/// The same number of every stage.
Plan recomputing(const Program &program, const Plan &plan, Recompute policy,
                 int64_t count) {
  return recomputing(program, plan, policy,
                     std::vector<int64_t>(plan.stages.size(), count));
}

class Changes {
public:
  Changes(const Question &question, const Plan &plan)
      : question(question), plan(plan),
        shardingRanks(checkedMul(plan.dp, plan.cp)) {
    for (const StageEstimate &stage :
         estimateMemory(question.model.program, question.cluster.hardware,
                        question.profile, plan))
      own = std::max(own, stage.total());
  }

  std::vector<FitChange> run() {
    recompute();
    zero();
    offload();
    context();
    microBatch();
    sequence();
    loss();
    gpus();
    combinations();
    if (std::none_of(found.begin(), found.end(),
                     [](const FitChange &change) { return change.fits; }))
      together();
    std::stable_sort(found.begin(), found.end(),
                     [](const FitChange &a, const FitChange &b) {
                       if (a.fits != b.fits)
                         return a.fits;
                       return a.fits ? a.estimate.stepTime < b.estimate.stepTime
                                     : a.memory < b.memory;
                     });
    return std::move(found);
  }

private:
  /// Keeps the change in place of the last one of its kind; true if it fits.
  bool attempt(const std::string &what, const Plan &changed,
               const Hardware &hardware, bool replaces) {
    return attempt(what, changed, hardware, question.profile, replaces);
  }
  bool attempt(const std::string &what, const Plan &changed,
               const Hardware &hardware, const Profile &profile,
               bool replaces) {
    if (!legal(changed))
      return false;
    FitChange change{
        what, changed,
        estimate(question.model.program, hardware, profile, changed), Bytes(0)};
    size_t stage = 0;
    change.memory = fullestStage(change.estimate, stage);
    if (change.memory >= own) // helps nothing
      return false;
    change.fits = staysBelow(change.memory, question.memoryLimit);
    if (replaces && !found.empty())
      found.pop_back();
    found.push_back(change);
    return change.fits;
  }

  /// As few layers of each stage as its own memory asks for, where stages may
  /// differ; nothing if they may not, or if that does not fit.
  std::optional<std::vector<int64_t>> leastOfStages(const Plan &changed) const {
    if (!facts().recomputesByStage || changed.chunks > 1)
      return std::nullopt;
    const Program &program = question.model.program;
    std::vector<int64_t> most = layersOf(program, changed), tried(most.size(), 0),
                         least(most.size(), 0);
    // The stages' bisections side by side, and before them whether 0 does.
    for (bool isFirst = true; isFirst || least != most; isFirst = false) {
      const std::vector<StageEstimate> stages = estimateMemory(
          program, question.cluster.hardware, question.profile,
          recomputing(program, changed, Recompute::Full, tried));
      for (size_t i = 0; i < stages.size(); ++i) {
        if (staysBelow(stages[i].total(), question.memoryLimit))
          most[i] = tried[i];
        else
          least[i] = std::min(tried[i] + 1, most[i]);
        tried[i] = least[i] + (most[i] - least[i]) / 2;
      }
    }
    if (!fits(recomputing(program, changed, Recompute::Full, least)))
      return std::nullopt;
    return least;
  }

  /// "recompute 9 of the 10 layers of a stage in full"
  static std::string fullText(const std::vector<int64_t> &counts, int64_t most) {
    const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
    return "recompute " +
           (*low < *high ? std::to_string(*low) + " to " : std::string()) +
           std::to_string(*high) + " of the " + std::to_string(most) +
           plural(most, " layer") + " of a stage in full";
  }

  void recompute() {
    const Program &program = question.model.program;
    const Hardware &hardware = question.cluster.hardware;
    const std::vector<Recompute> policies = searchedPolicies(program);
    const auto has = [&](Recompute policy) {
      return std::find(policies.begin(), policies.end(), policy) !=
             policies.end();
    };
    const std::vector<int64_t> layers = layersOf(program, plan);
    const int64_t most = *std::max_element(layers.begin(), layers.end());
    if (has(Recompute::Selective))
      attempt("recompute the attention core of every layer",
              recomputing(program, plan, Recompute::Selective, most), hardware,
              false);
    if (!has(Recompute::Full))
      return;
    if (const auto counts = leastOfStages(plan)) {
      attempt(fullText(*counts, most),
              recomputing(program, plan, Recompute::Full, *counts), hardware,
              false);
      return;
    }
    bool first = true;
    for (int64_t count = 1; count <= most; ++count) {
      const Plan changed = recomputing(program, plan, Recompute::Full, count);
      if (changed == plan)
        continue;
      const size_t before = found.size();
      if (attempt("recompute " + std::to_string(count) + " of the " +
                      std::to_string(most) + plural(most, " layer") +
                      " of a stage in full",
                  changed, hardware, !first))
        break;
      first = first && found.size() == before;
    }
  }

  void zero() {
    bool first = true;
    for (int stage = plan.zero + 1; stage <= 3 && shardingRanks > 1; ++stage) {
      Plan changed = plan;
      changed.zero = stage;
      const size_t before = found.size();
      const FrameworkFacts &facts = factsOf(question.framework);
      if (attempt("ZeRO " + std::to_string(stage) +
                      unless(plan.pp > 1 ? facts.zeroUnderPipeline : facts.zero,
                             stage),
                  changed, question.cluster.hardware, !first))
        break;
      first = first && found.size() == before;
    }
  }

  void offload() {
    Plan changed = plan;
    changed.offloadOptimizer = true;
    if (!plan.offloadOptimizer && question.cluster.hardware.host.known())
      attempt("optimizer on the host" +
                  unless(factsOf(question.framework).offload, plan.zero),
              changed, question.cluster.hardware, false);
  }

  /// Data ranks that work on parts of one sequence instead.
  void context() {
    bool first = true;
    const std::vector<CpKind> &kinds = factsOf(question.framework).cpKinds;
    for (int64_t factor = 2; plan.dp % factor == 0 && !kinds.empty();
         factor *= 2) {
      Plan changed = plan;
      changed.dp /= factor;
      changed.cp *= factor;
      if (plan.cp == 1)
        changed.cpKind = kinds.front();
      setMesh(changed);
      const size_t before = found.size();
      if (attempt("cp " + std::to_string(changed.cp) + " of data ranks",
                  changed, question.cluster.hardware, !first))
        break;
      first = first && found.size() == before;
    }
  }

  void microBatch() {
    bool first = true;
    for (int64_t micro = plan.microBatch - 1; micro >= 1; --micro) {
      if (plan.microBatch % micro != 0)
        continue;
      Plan changed = plan;
      changed.microBatch = micro;
      const size_t before = found.size();
      if (attempt("microbatch " + std::to_string(micro), changed,
                  question.cluster.hardware, !first))
        break;
      first = first && found.size() == before;
    }
  }

  void sequence() {
    if (plan.sp || plan.tp == 1)
      return;
    Plan changed = plan;
    changed.sp = true;
    attempt("sequence parallelism", changed, question.cluster.hardware, false);
  }

  /// The plan as it is: a loss that keeps no copies of the logits, or no more
  /// logits than those of a part of the tokens.
  void loss() {
    const Hardware &hardware = question.cluster.hardware;
    Profile other = question.profile;
    other.loss = {};
    attempt("cross entropy in one kernel each way", plan, hardware, other,
            false);
    other = question.profile;
    const int64_t ranks = plan.sp ? checkedMul(plan.cp, plan.tp) : plan.cp;
    bool first = true;
    for (other.lossParts = 2; plan.sequence % (ranks * other.lossParts) == 0;
         other.lossParts *= 2) {
      const int64_t tokens =
          plan.sequence / plan.cp / other.lossParts * plan.microBatch;
      if (tokens < kLeastLossTokens)
        break;
      const size_t before = found.size();
      if (attempt("head and loss over " + std::to_string(tokens) +
                      " tokens at a time, and again backward" +
                      (question.framework == Framework::Native
                           ? " (not in native)"
                           : ""),
                  plan, hardware, other, !first))
        break;
      first = first && found.size() == before;
    }
  }

  /// The same layout with more data ranks, on the fewest GPUs on which it fits:
  /// every number of them that divides the batch and fills nodes is tried.
  void gpus() {
    if (plan.globalBatch % plan.microBatch != 0)
      return;
    const std::vector<int> &stages = facts().zero;
    const bool shards = has(plan.pp > 1 ? facts().zeroUnderPipeline : stages, 1);
    bool first = true;
    for (int64_t ranks : divisors(plan.globalBatch / plan.microBatch)) {
      if (ranks <= plan.dp || ranks > kMostTimesGpus * plan.dp)
        continue;
      Failure ignored;
      Hardware larger;
      Plan changed = plan;
      changed.dp = ranks;
      if (shards)
        changed.zero = std::max(changed.zero, 1);
      setMesh(changed);
      if (!resized(question.cluster.hardware, changed.ranks(), larger, ignored))
        continue;
      const size_t before = found.size();
      std::string what = std::to_string(changed.ranks()) + " GPUs: " +
                         std::to_string(ranks) + " data ranks";
      if (changed.zero > 0)
        what += ", ZeRO " + std::to_string(changed.zero) + " over " +
                std::to_string(zeroDegree(changed)) + " ranks";
      if (attempt(what, changed, larger, !first))
        break;
      first = first && found.size() == before;
    }
  }

  const FrameworkFacts &facts() const { return factsOf(question.framework); }
  static bool has(const std::vector<int> &stages, int stage) {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }

  struct Combination {
    FitChange change;
    int kinds = 0;
  };

  Bytes memoryOf(const Plan &changed) const {
    Bytes most(0);
    for (const StageEstimate &stage :
         estimateMemory(question.model.program, question.cluster.hardware,
                        question.profile, changed))
      most = std::max(most, stage.total());
    return most;
  }

  bool fits(const Plan &changed) const {
    return staysBelow(memoryOf(changed), question.memoryLimit);
  }

  /// Adds the plan as it is, or with as little recomputation as makes it fit.
  void combine(const Plan &changed, const std::string &what, int kinds,
               std::vector<Combination> &all) const {
    const Program &program = question.model.program;
    const auto add = [&](const Plan &fitting, const std::string &more) {
      Combination one;
      one.kinds = kinds + !more.empty();
      one.change = {what + (what.empty() || more.empty() ? "" : " + ") + more,
                    fitting,
                    estimate(program, question.cluster.hardware,
                             question.profile, fitting),
                    memoryOf(fitting), true};
      all.push_back(std::move(one));
    };
    if (fits(changed))
      return add(changed, "");
    const std::vector<Recompute> policies = searchedPolicies(program);
    const auto offers = [&](Recompute policy) {
      return std::find(policies.begin(), policies.end(), policy) !=
             policies.end();
    };
    const std::vector<int64_t> layers = layersOf(program, changed);
    const int64_t every = *std::max_element(layers.begin(), layers.end());
    if (offers(Recompute::Selective)) {
      const Plan one =
          recomputing(program, changed, Recompute::Selective, every);
      if (fits(one))
        add(one, "recompute the attention core of every layer");
    }
    const auto full = [&](int64_t count) {
      return recomputing(program, changed, Recompute::Full, count);
    };
    if (!offers(Recompute::Full) || !fits(full(every)))
      return;
    if (const auto counts = leastOfStages(changed))
      return add(recomputing(program, changed, Recompute::Full, *counts),
                 fullText(*counts, every));
    int64_t least = 1;
    for (int64_t most = every; least < most;) {
      const int64_t middle = least + (most - least) / 2;
      if (fits(full(middle)))
        most = middle;
      else
        least = middle + 1;
    }
    add(full(least), fullText({least}, every));
  }

  /// Several kinds at once, of what the framework runs: for each number of kinds
  /// the fastest that fits, if it is faster than all with fewer.
  void combinations() {
    std::vector<Combination> all;
    const std::vector<int> &stages =
        plan.pp > 1 ? facts().zeroUnderPipeline : facts().zero;
    for (int stage = plan.zero; stage <= 3; ++stage) {
      if (stage > plan.zero && (shardingRanks == 1 || !has(stages, stage)))
        continue;
      for (int64_t micro : divisors(plan.microBatch))
        for (bool sp : {true, false})
          for (bool host : {true, false}) {
            if ((plan.sp && !sp) || (plan.tp == 1 && sp != plan.sp) ||
                (plan.offloadOptimizer && !host) ||
                (host && !plan.offloadOptimizer &&
                 (!question.cluster.hardware.host.known() ||
                  !has(facts().offload, stage))))
              continue;
            Plan changed = plan;
            changed.zero = stage;
            changed.microBatch = micro;
            changed.sp = sp;
            changed.offloadOptimizer = host;
            std::string what;
            int kinds = 0;
            const auto name = [&](bool differs, const std::string &text) {
              if (!differs)
                return;
              ++kinds;
              what += (what.empty() ? "" : " + ") + text;
            };
            name(stage != plan.zero, "ZeRO " + std::to_string(stage));
            name(micro != plan.microBatch,
                 "microbatch " + std::to_string(micro));
            name(changed.sp != plan.sp, "sequence parallelism");
            name(host != plan.offloadOptimizer, "optimizer on the host");
            if (!legal(changed))
              continue;
            combine(changed, what, kinds, all);
          }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Combination &a, const Combination &b) {
                       if (a.kinds != b.kinds)
                         return a.kinds < b.kinds;
                       return a.change.estimate.stepTime <
                              b.change.estimate.stepTime;
                     });
    double least = std::numeric_limits<double>::infinity();
    for (const Combination &one : all) {
      const double time = one.change.estimate.stepTime.count();
      if (time >= least)
        continue;
      least = time;
      if (one.kinds > 1)
        found.push_back(one.change);
    }
  }

  /// What can be priced, but is not among the stages that the framework has.
  std::string unless(const std::vector<int> &stages, int stage) const {
    if (std::find(stages.begin(), stages.end(), stage) != stages.end())
      return "";
    return " (not in " + std::string(name(question.framework)) + ")";
  }

  bool legal(const Plan &changed) const {
    return checkPlan(question.model.program, changed, ModelCheck::NameOnly,
                     question.rulesOfSearch())
        .empty();
  }

  /// No change alone is enough: those that cost least at once, and as much
  /// recomputation as it takes.
  void together() {
    const Program &program = question.model.program;
    const Hardware &hardware = question.cluster.hardware;
    Plan changed = plan;
    std::string what;
    const auto adopt = [&](const Plan &next, const std::string &name) {
      if (next == changed || !legal(next))
        return;
      changed = next;
      what += what.empty() ? "" : " + ";
      what += name;
    };
    Plan next = changed;
    for (int stage = 3; stage > plan.zero && shardingRanks > 1; --stage) {
      next.zero = stage;
      if (legal(next)) {
        const FrameworkFacts &facts = factsOf(question.framework);
        adopt(next,
              "ZeRO " + std::to_string(stage) +
                  unless(plan.pp > 1 ? facts.zeroUnderPipeline : facts.zero,
                         stage));
        break;
      }
    }
    next = changed;
    next.microBatch = 1;
    adopt(next, "microbatch 1");
    next = changed;
    next.sp = changed.sp || changed.tp > 1;
    adopt(next, "sequence parallelism");
    if (what.empty())
      return;
    bool fits = attempt(what, changed, hardware, false);
    const std::vector<int64_t> layers = layersOf(program, plan);
    const int64_t most = *std::max_element(layers.begin(), layers.end());
    for (int64_t count = 1; count <= most && !fits; ++count) {
      std::string all = what;
      all += " + recompute ";
      all += std::to_string(count) + " of " + std::to_string(most) +
             plural(most, " layer");
      fits = attempt(all, recomputing(program, changed, Recompute::Full, count),
                     hardware, true);
    }
  }

  const Question &question;
  const Plan &plan;
  const int64_t shardingRanks; ///< over which ZeRO shards
  Bytes own = Bytes(0); ///< memory of the plan as it is
  std::vector<FitChange> found;
};

} // namespace

std::vector<FitChange> fitChanges(const Question &question, const Plan &plan) {
  return Changes(question, plan).run();
}

} // namespace shardwright::tools

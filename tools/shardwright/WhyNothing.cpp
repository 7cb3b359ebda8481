//===- WhyNothing.cpp - What keeps a question from having a plan ----------===//

#include "cost_model/base/Format.h"
#include "cost_model/search/Meshes.h"
#include "cost_model/search/ProgramEstimator.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Question.h"
#include "tools/shardwright/Words.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace shardwright::tools {

using namespace cost;

namespace {

std::string numbers(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

/// Adds the rules of `next` that `all` has, or all if it is the first; by rule.
void keepCommon(const std::vector<Violation> &next, bool first,
                std::vector<Violation> &all) {
  if (first) {
    all = next;
    return;
  }
  std::erase_if(all, [&](const Violation &violation) {
    return std::none_of(next.begin(), next.end(), [&](const Violation &other) {
      return other.rule == violation.rule;
    });
  });
}

/// What rules have against the meshes of a question.
struct Objections {
  /// Rules that all meshes break, whatever their batch: what only some break keeps
  /// no plan from the others.
  std::vector<Violation> common;
  std::vector<Violation> fewest; ///< of the first mesh that breaks fewest
};

Objections objections(const SearchAnswer &answer) {
  const std::unique_ptr<Estimator> estimator =
      answer.sizes[answer.best].estimator();
  const Family family(answer.options);
  Objections all;
  bool first = true;
  for (const Candidate &mesh : family.meshes()) {
    std::vector<Violation> own = estimator->check(mesh, Depth::Mesh);
    // The batches of a mesh break its rules and rules of their own.
    std::vector<Violation> ofBatches;
    bool firstBatch = true;
    for (const Candidate &batch : family.batches(mesh)) {
      keepCommon(estimator->check(batch, Depth::Batch), firstBatch, ofBatches);
      firstBatch = false;
      if (ofBatches.empty())
        break;
    }
    for (const Violation &violation : ofBatches)
      if (std::none_of(own.begin(), own.end(), [&](const Violation &other) {
            return other.rule == violation.rule;
          }))
        own.push_back(violation);
    if (first || own.size() < all.fewest.size())
      all.fewest = own;
    keepCommon(own, first, all.common);
    first = false;
    if (all.fewest.empty()) // and nothing in common
      break;
  }
  return all;
}

/// Without any mesh: rules that what is fixed breaks, whatever the rest is.
std::vector<Violation> rulesOfFixed(const Question &question,
                                    const SearchOptions &options) {
  const auto fixed = [&](Field field, int64_t otherwise) {
    const Range &range = options.ranges[static_cast<int>(field)];
    return range.least == range.most ? range.least : otherwise;
  };
  Candidate one;
  one.tp = fixed(Field::Tp, 1);
  one.pp = fixed(Field::Pp, 1);
  one.cp = fixed(Field::Cp, 1);
  one.sp = one.tp > 1 && fixed(Field::Sp, options.experts > 0) == 1;
  one.microBatch = fixed(Field::MicroBatch, 1);
  one.dp = fixed(Field::Dp, 1);
  if (std::max({one.tp, one.pp, one.cp}) > maxDegree ||
      one.dp > maxDataRanks || one.microBatch > maxMicroBatch ||
      one.pp > question.model.program.layers)
    return {};
  Candidate two = one;
  two.dp = fixed(Field::Dp, 2);
  const Program &program = question.model.program;
  return violationsOfAll(program, {planAt(program, question.base, one),
                                   planAt(program, question.base, two)});
}

/// Values of a field among the plans that a question has, looked at no deeper
/// than the field needs.
class Values {
public:
  Values(const Estimator &estimator, const SearchOptions &options, Field field,
         int64_t asked)
      : options(options), family(options),
        meshes(estimator, family, options), field(field), asked(asked) {}

  std::set<int64_t> all() {
    for (size_t i = 0; i < meshes.size(); ++i)
      if (meshes[i].leaves > 0)
        add(i);
    return values;
  }

private:
  void add(size_t index) {
    const Candidate &mesh = meshes[index].mesh;
    switch (field) {
    case Field::Dp: values.insert(mesh.dp); return;
    case Field::Tp: values.insert(mesh.tp); return;
    case Field::Pp: values.insert(mesh.pp); return;
    case Field::Cp: values.insert(mesh.cp); return;
    case Field::Ep: values.insert(mesh.ep); return;
    case Field::Etp: values.insert(mesh.etp); return;
    default: break;
    }
    for (const Candidate &batch : family.batches(mesh)) {
      if (!meshes.isLawful(index, batch) ||
          family.leaves(batch, Depth::Batch) == 0)
        continue;
      switch (field) {
      case Field::Sp: values.insert(batch.sp); continue;
      case Field::CpKind:
        values.insert(batch.cp == 1 ? noCpKind
                                    : static_cast<int64_t>(batch.cpKind));
        continue;
      case Field::Order:
        values.insert(static_cast<int64_t>(batch.order));
        continue;
      case Field::MicroBatch: values.insert(batch.microBatch); continue;
      default: break;
      }
      // Layers per stage depend on the stages alone.
      const bool layers =
          field == Field::FirstLayers || field == Field::LastLayers;
      if (layers && !depths.insert({batch.pp, batch.microBatch}).second)
        continue;
      for (const Part &state : family.children({batch, Depth::Batch}))
        if (family.leaves(state) > 0)
          addState(state);
    }
  }

  void addState(const Part &state) {
    const Candidate &c = state.candidate;
    switch (field) {
    case Field::Zero: values.insert(c.zero); return;
    case Field::ZeroRanks:
      values.insert(c.zero == 0 ? 1 : c.zeroRanks == 0 ? c.dp : c.zeroRanks);
      return;
    case Field::Schedule:
      values.insert(static_cast<int64_t>(c.schedule));
      return;
    case Field::Chunks: values.insert(c.chunks); return;
    case Field::Group:
      addGroups(c);
      return;
    case Field::Offload: values.insert(c.offload); return;
    default: break;
    }
    for (const Part &policy : family.children(state)) {
      if (family.leaves(policy) == 0)
        continue;
      if (field == Field::Recompute)
        values.insert(static_cast<int64_t>(policy.candidate.recompute));
      else
        for (const Split &split : family.splits(policy.candidate))
          values.insert(field == Field::FirstLayers ? split.first : split.last);
    }
  }

  /// The search takes the smallest group that may be; a larger one may be asked
  /// for.
  void addGroups(const Candidate &c) {
    if (c.schedule != ScheduleKind::Interleaved) {
      values.insert(0);
      return;
    }
    values.insert(c.group == 0 ? c.pp : c.group);
    if (options.evenGroups)
      return;
    for (int64_t group :
         groupsNear(c.pp, options.globalBatch / (c.dp * c.microBatch), asked))
      values.insert(group);
  }

  const SearchOptions &options;
  const Family family;
  const Meshes meshes;
  const Field field;
  const int64_t asked; ///< value of the field: of many those near it do
  std::set<int64_t> values;
  std::set<std::pair<int64_t, int64_t>> depths;
};

/// The value that was asked for, or the one that limits it.
int64_t askedValue(const Range &asked) {
  return asked.least != Range().least ? asked.least : asked.most;
}

/// Names have no order; of numbers the nearest two on either side.
std::string nearestText(Field field, const Range &asked,
                        const std::set<int64_t> &values) {
  std::vector<int64_t> shown(values.begin(), values.end());
  const bool named = field == Field::Sp || field == Field::CpKind ||
                     field == Field::Order || field == Field::Schedule ||
                     field == Field::Recompute || field == Field::Offload;
  if (!named)
    shown = nearby(shown, askedValue(asked));
  return wordsOf(shown, [&](int64_t value) { return valueText(field, value); });
}

/// Whether frameworks differ in what they have of it.
bool ofFramework(Field field) {
  return field == Field::Offload || field == Field::Chunks ||
         field == Field::Order || field == Field::CpKind ||
         field == Field::ZeroRanks || field == Field::Zero ||
         field == Field::Schedule || field == Field::Group;
}

/// What of the constraints keeps plans out: each that alone could be dropped,
/// with the values that it could have; of several, that they exclude one another.
std::vector<std::string> causes(const Question &question,
                                const SearchAnswer &answer) {
  std::vector<std::string> dropped, instead;
  const std::unique_ptr<Estimator> estimator =
      answer.sizes[answer.best].estimator();
  for (int i = 0; i < numFields; ++i) {
    const auto field = static_cast<Field>(i);
    const Range &asked = answer.options.ranges[static_cast<size_t>(i)];
    if (asked == Range())
      continue;
    SearchOptions without = answer.options;
    without.ranges[static_cast<size_t>(i)] = Range();
    const std::set<int64_t> values = Values(*estimator, without, field, askedValue(asked)).all();
    if (values.empty())
      continue;
    dropped.push_back(constraintsOf(answer.asked, field));
    instead.push_back(
        nearestText(field, asked, values) +
        (ofFramework(field) ? " under " + std::string(name(question.framework)) +
                                  " (--runs-on names another framework)"
                            : ""));
  }
  if (dropped.empty())
    return {};
  if (dropped.size() == 1)
    return {dropped[0] + " leaves no plan; with all else as asked expected " +
            instead[0]};
  std::string text = "no plan obeys " + answer.constraints +
                     " together; with all else as asked expected ";
  for (size_t i = 0; i < dropped.size(); ++i)
    text += (i ? "; or " : "") + instead[i] + " instead of " + dropped[i];
  return {text};
}

/// The most GPUs, up to those asked for, of which some plan divides the batch.
std::string mostGpus(const Question &question, const SearchOptions &options) {
  const Program &program = question.model.program;
  const FrameworkFacts &facts = factsOf(question.framework);
  const auto allows = [&](Field field, int64_t value) {
    return options.ranges[static_cast<size_t>(field)].contains(value);
  };
  struct Size {
    int64_t gpus, dp, tp, pp, cp;
  };
  std::vector<Size> sizes;
  const std::vector<int64_t> parts =
      options.cpKinds.empty() ? std::vector<int64_t>{1}
                              : divisors(program.sequence);
  for (int64_t dp : divisors(options.globalBatch))
    for (int64_t tp : divisors(program.heads))
      for (int64_t cp : parts)
        for (int64_t pp = 1; pp <= program.layers; ++pp) {
          int64_t gpus = 0;
          if (__builtin_mul_overflow(dp * tp, cp * pp, &gpus) ||
              gpus > options.gpus)
            break;
          if ((gpus > options.nodeRanks && gpus % options.nodeRanks != 0) ||
              (pp > 1 && cp > 1 && !options.contextUnderPipeline) ||
              !allows(Field::Dp, dp) || !allows(Field::Tp, tp) ||
              !allows(Field::Cp, cp) || !allows(Field::Pp, pp))
            continue;
          sizes.push_back({gpus, dp, tp, pp, cp});
        }
  std::sort(sizes.begin(), sizes.end(), [](const Size &a, const Size &b) {
    return std::tie(b.gpus, b.dp, a.tp, a.pp) <
           std::tie(a.gpus, a.dp, b.tp, b.pp);
  });
  for (const Size &size : sizes) {
    Candidate c;
    c.dp = size.dp;
    c.tp = size.tp;
    c.pp = size.pp;
    c.cp = size.cp;
    c.sp = c.tp > 1 && (program.experts > 0 || facts.tensorNeedsSequence);
    c.etp = program.experts > 0 &&
                    !splitsExperts(facts.expertTensor, c.tp, 1, 1)
                ? c.tp
                : 1;
    c.zero = facts.zeroUnderPipeline.front();
    Plan base = question.base;
    base.globalBatch = options.globalBatch;
    for (CpKind kind : c.cp > 1 ? options.cpKinds
                                : std::vector<CpKind>{CpKind::P2P}) {
      c.cpKind = kind;
      if (checkPlan(program, planAt(program, base, c), ModelCheck::NameOnly,
                    question.rulesOfSearch())
              .empty())
        return "a global batch of " + std::to_string(options.globalBatch) +
               " serves at most " + std::to_string(size.gpus) + " of " +
               std::to_string(options.gpus) + " GPUs, as " +
               std::to_string(c.dp) + " DP x " + std::to_string(c.tp) +
               " TP x " + std::to_string(c.pp) + " PP" +
               (c.cp > 1 ? " x " + std::to_string(c.cp) + " CP" : "");
    }
  }
  return "";
}

void explainSmallest(const Question &question, const SearchAnswer &answer,
                     Failure &failure) {
  const Program &program = question.model.program;
  const Bytes limit = answer.options.memoryLimit;
  const RankedPlan &plan = *answer.smallest;
  size_t stage = 0;
  fullestStage(plan.estimate, stage);
  auto &notes = failure.notes;
  refuse(failure, Diag::no_plan_fits,
         "no plan fits: the smallest needs " + bytesText(plan.memory) +
             " on a rank of stage " + std::to_string(stage) +
             ", and a rank has to stay below " + bytesText(limit));
  notes.push_back("the smallest: " + planText(program, plan.plan));
  notes.push_back("to fit, it must shed " +
                  bytesText(excess(plan.memory, limit)) +
                  " a rank: more GPUs, a shorter sequence, a smaller model" +
                  (answer.constraints.empty()
                       ? std::string()
                       : ", or fewer of " + answer.constraints));
  if (plan.estimate.stages.size() > 1)
    notes.push_back("too much on each rank: " +
                    deficitText(plan.estimate, limit));
  std::vector<int64_t> tried = answer.gpusTried;
  std::sort(tried.begin(), tried.end());
  if (answer.onMoreGpus) {
    std::erase(tried, answer.gpusThatFit);
    notes.push_back(
        "on " + std::to_string(answer.gpusThatFit) + " GPUs a plan fits: " +
        planText(program, answer.onMoreGpus->plan) +
        (tried.empty() ? "" : "; also tried: " + numbers(tried)) +
        (answer.gpusAllTried ? ""
                             : "; not all sizes below it were, and one may do"));
  } else if (!tried.empty()) {
    notes.push_back("no plan fits on " + numbers(tried) + " GPUs either");
  }
}

} // namespace

Failure whyNothing(const Question &question, const SearchAnswer &answer) {
  const int64_t gpus = answer.options.gpus;
  Failure failure;
  if (answer.smallest) {
    explainSmallest(question, answer, failure);
    return failure;
  }
  if (!answer.result.counters.proven) {
    refuse(failure, Diag::search_stopped,
           "no plan was found before the search was stopped");
    return failure;
  }
  if (answer.stoppedSmallest && answer.result.counters.considered > 0) {
    refuse(failure, Diag::no_plan_fits,
           "no plan fits; which needs least was not known when the search was "
           "stopped");
    return failure;
  }
  const std::string under =
      answer.constraints.empty() ? "" : " under " + answer.constraints;
  if (Family(answer.options).meshes().empty()) {
    refuse(failure, Diag::no_mesh,
           "no mesh of " + std::to_string(gpus) + plural(gpus, " GPU") + " " +
               (answer.constraints.empty() ? "is possible"
                                           : "obeys " + answer.constraints) +
               ": tp * pp * dp * cp must be " + std::to_string(gpus) +
               ", whose divisors are " + numbers(divisors(gpus)) +
               ", and microbatch * dp must divide the global batch of " +
               std::to_string(answer.options.globalBatch));
    for (const Violation &violation :
         rulesOfFixed(question, answer.options))
      failure.messages.emplace_back(violation.id, violation.message);
    return failure;
  }
  // What is wrong everywhere is the cause; or what the question itself rules out
  // where no rule is broken; or each mesh has its own, and one is nearest.
  const Objections against = objections(answer);
  if (against.fewest.empty()) {
    for (const std::string &cause : causes(question, answer))
      refuse(failure, Diag::no_mesh, cause);
    if (failure.messages.empty())
      refuse(failure, Diag::no_mesh,
             "no plan of " + std::to_string(gpus) + plural(gpus, " GPU") + " " +
                 (answer.constraints.empty()
                      ? "is possible"
                      : "obeys " + answer.constraints +
                            ", and dropping any one of them is not enough"));
    return failure;
  }
  const std::vector<Violation> &rules =
      against.common.empty() ? against.fewest : against.common;
  refuse(failure, Diag::no_plan_is_legal, "no plan is legal" + under + ":");
  if (worstKind(rules) == FailureKind::Unsupported)
    failure.kind = FailureKind::Unsupported; // a valid one exists
  for (const Violation &violation : rules)
    failure.messages.emplace_back(violation.id, violation.message);
  if (std::any_of(rules.begin(), rules.end(), [](const Violation &violation) {
        return violation.id == Diag::batch_divisible;
      }))
    if (std::string most = mostGpus(question, answer.options); !most.empty())
      failure.notes.push_back(std::move(most));
  return failure;
}

} // namespace shardwright::tools

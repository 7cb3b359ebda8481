//===- PlanVariant.cpp - A plan expanded over the functions of a layer ----===//
#include "cost_model/partition/Assignment.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

namespace shardwright::cost {

namespace {

bool contains(const Axes &axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

void addAxes(Axes &axes, const Axes &more) {
  for (Axis axis : more)
    if (!contains(axes, axis))
      axes.push_back(axis);
  std::sort(axes.begin(), axes.end());
}

/// How a later function reads a saved or kept value.
struct LaterReader {
  std::optional<Encoding> encoding; ///< if all its ops want the same
  /// All of them are linear in it alone and share this segment; then the axes
  /// that shard their factors.
  std::optional<Segment> linearIn;
  Axes usedAxes;
};

/// Plans one function; the members are what its steps share.
class FunctionPlanner {
public:
  FunctionPlanner(const Plan &plan, const Kind &kind, const Function &function,
                  PlannedFunction &out, std::string &why)
      : plan(plan), kind(kind), function(function), out(out), why(why) {}

  /// `saved` and `kept`: encodings by index, of the functions planned before.
  /// `laterReaders`: how the function after reads what this one saves or keeps,
  /// by index.
  bool run(const std::vector<Encoding> &saved,
           const std::vector<Encoding> &kept,
           std::map<int32_t, LaterReader> laterReaders = {}) {
    readers = std::move(laterReaders);
    const size_t count = function.values.size();
    out.encodings.assign(count, {});
    out.values.assign(count, {});
    out.ops.assign(function.ops.size(), {});
    producer.assign(count, -1);
    if (!planArguments(saved, kept))
      return false;
    for (size_t op = 0; op < function.ops.size(); ++op)
      if (!planOp(static_cast<int>(op)))
        return false;
    if (!planResults())
      return false;
    collectUses();
    for (size_t value = 0; value < count; ++value)
      if (!planValue(static_cast<ValueId>(value)))
        return false;
    return true;
  }

private:
  bool planArguments(const std::vector<Encoding> &saved,
                     const std::vector<Encoding> &kept) {
    auto fromBefore = [&](const std::vector<Encoding> &before,
                          const Argument &argument) {
      if (static_cast<size_t>(argument.index) >= before.size())
        return fail("an argument takes value " +
                    std::to_string(argument.index) +
                    ", which no earlier function of the kind gives");
      out.encodings[argument.value] = before[argument.index];
      return true;
    };
    for (const Argument &argument : function.arguments) {
      Encoding &encoding = out.encodings[argument.value];
      switch (argument.kind) {
      case ArgKind::StreamIn:
      case ArgKind::StreamGrad: encoding = streamEncoding(plan); break;
      case ArgKind::Parameter:
        encoding = parameterEncoding(plan, kind.parameters[argument.index]);
        break;
      case ArgKind::Saved:
        if (!fromBefore(saved, argument))
          return false;
        break;
      case ArgKind::Kept:
        if (!fromBefore(kept, argument))
          return false;
        break;
      case ArgKind::Tokens:
      case ArgKind::Labels:
        encoding.dims = {axesOf(plan, Segment::Embed, Role::Seq),
                         axesOf(plan, Segment::Embed, Role::Batch)};
        break;
      }
    }
    return true;
  }

  bool planOp(int index) {
    const Op &op = function.ops[index];
    PlannedOp &planned = out.ops[index];
    const std::vector<Factor> &factors = op.space.factors;
    planned.local = op.space;
    planned.factorAxes.resize(factors.size());
    for (size_t i = 0; i < factors.size(); ++i) {
      planned.factorAxes[i] = factorAxes(plan, op, factors[i].role);
      int64_t size = plannedSize(plan, factors[i].role, factors[i].size);
      int64_t shards = degree(plan, planned.factorAxes[i]);
      if (size % shards != 0)
        return fail("op " + op.name + ": " +
                    std::string(name(factors[i].role)) + " of " +
                    std::to_string(size) + " is not divisible by " +
                    std::to_string(shards));
      if (shards > 1 && factors[i].kind == FactorKind::Full &&
          !isAttentionCore(op))
        return fail("op " + op.name + ": " +
                    std::string(name(factors[i].role)) + " cannot be sharded");
      planned.local.factors[i].size = size / shards;
    }

    auto encode = [&](const std::vector<int> &dims) {
      Encoding encoding;
      encoding.dims.reserve(dims.size());
      for (int factor : dims)
        encoding.dims.push_back(dimAxes(plan, op, factors[factor].role));
      for (int factor : dims)
        if (factors[factor].role == Role::Rows)
          encoding.routed = routedAxes(plan, op.segment);
      return encoding;
    };
    planned.operands.reserve(op.operands.size());
    for (const std::vector<int> &dims : op.space.operands)
      planned.operands.push_back(encode(dims));

    Partial partial = Partial::None;
    Axes partialAxes = passedPartial(index, planned);
    if (!partialAxes.empty())
      partial = Partial::Sum;
    for (size_t i = 0; i < factors.size(); ++i) {
      // Gradients of keys and values are sums over queries.
      const bool queries = op.space.kernel == KernelClass::AttentionGrad &&
                           factors[i].role == Role::Seq &&
                           !goesRound(plan, op);
      if (planned.factorAxes[i].empty() ||
          (factors[i].kind != FactorKind::Sum &&
           factors[i].kind != FactorKind::Max && !queries))
        continue;
      Partial made = factors[i].kind == FactorKind::Max ? Partial::Max
                                                        : Partial::Sum;
      if (partial != Partial::None && partial != made)
        return fail("op " + op.name + ": a sum and a maximum at once");
      partial = made;
      addAxes(partialAxes, planned.factorAxes[i]);
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      Encoding encoding = encode(op.space.results[i]);
      encoding.partial = partial;
      encoding.partialAxes = partialAxes;
      // A factor summed over may still be a dim of another result (the query
      // positions of an attention gradient); such a result is not partial.
      for (const Axes &axes : encoding.dims)
        for (Axis axis : axes)
          encoding.partialAxes.erase(axis);
      if (encoding.partialAxes.empty())
        encoding.partial = Partial::None;
      producer[op.results[i]] = index;
      out.encodings[op.results[i]] = encoding;
      planned.results.push_back(std::move(encoding));
    }
    return true;
  }

  /// The partial axes that pass through op `index`; marks its operands so.
  Axes passedPartial(int index, PlannedOp &planned) {
    const Op &op = function.ops[index];
    const bool product = isProduct(op);
    Axes axes;
    std::vector<size_t> carriers;
    size_t linearOperands = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (i >= op.space.linear.size() || !op.space.linear[i])
        continue;
      ++linearOperands;
      const Encoding &have = out.encodings[op.operands[i]];
      int from = producer[op.operands[i]];
      // A partial argument is a kept value that may stay so: see staysPartial.
      if (have.partial != Partial::Sum ||
          (from >= 0 && function.ops[from].segment != op.segment) ||
          have.dims != planned.operands[i].dims)
        continue;
      if (!carriers.empty() && have.partialAxes != axes)
        return {};
      axes = have.partialAxes;
      carriers.push_back(i);
    }
    if (carriers.empty() || carriers.size() != (product ? 1 : linearOperands))
      return {};
    for (const Axes &used : planned.factorAxes)
      for (Axis axis : used)
        if (contains(axes, axis))
          return {};
    for (size_t i : carriers) {
      planned.operands[i].partial = Partial::Sum;
      planned.operands[i].partialAxes = axes;
    }
    return axes;
  }

  bool planResults() {
    for (const Result &result : function.results) {
      const Encoding &produced = out.encodings[result.value];
      Encoding wanted = produced;
      switch (result.kind) {
      case ResultKind::StreamOut:
      case ResultKind::StreamGrad: wanted = streamEncoding(plan); break;
      case ResultKind::ParameterGrad:
        wanted.dims =
            parameterEncoding(plan, kind.parameters[result.index]).dims;
        break;
      case ResultKind::Loss:
      case ResultKind::Saved: // settled in planValue
      case ResultKind::Kept: break;
      }
      out.results.push_back(std::move(wanted));
    }
    return true;
  }

  void collectUses() {
    for (size_t op = 0; op < function.ops.size(); ++op)
      for (size_t i = 0; i < function.ops[op].operands.size(); ++i)
        out.values[function.ops[op].operands[i]].uses.push_back(
            {static_cast<int>(op), static_cast<int>(i), 0});
    for (size_t i = 0; i < function.results.size(); ++i)
      out.values[function.results[i].value].uses.push_back(
          {-1, static_cast<int>(i), 0});
  }

  /// Whether a use takes the value as it stands once finished.
  bool takesFinished(const PlannedFunction::ValuePlan::Use &use) const {
    if (use.op >= 0)
      return false;
    ResultKind resultKind = function.results[use.operand].kind;
    return resultKind == ResultKind::Saved || resultKind == ResultKind::Kept;
  }
  /// The encoding in which the next function reads what this use keeps; null
  /// if it has no single one.
  const Encoding *
  wantedByReader(const PlannedFunction::ValuePlan::Use &use) const {
    const Result &result = function.results[use.operand];
    auto found = readers.find(result.index);
    return found == readers.end() || !found->second.encoding
               ? nullptr
               : &*found->second.encoding;
  }
  /// Whether a partial value may be kept as it is: nothing here finishes it, and
  /// the partial passes through whatever reads it.
  bool staysPartial(ValueId value) {
    const Encoding &produced = out.encodings[value];
    if (produced.partial != Partial::Sum || producer[value] < 0)
      return false;
    for (const auto &use : out.values[value].uses) {
      if (!takesFinished(use)) {
        if (!(wantedBy(use) == produced))
          return false;
        continue;
      }
      const Result &result = function.results[use.operand];
      auto found = readers.find(result.index);
      if (result.kind != ResultKind::Kept || found == readers.end())
        return false;
      const LaterReader &reader = found->second;
      if (!reader.encoding || reader.encoding->dims != produced.dims ||
          reader.linearIn != function.ops[producer[value]].segment)
        return false;
      for (Axis axis : produced.partialAxes)
        if (contains(reader.usedAxes, axis))
          return false;
    }
    return true;
  }
  Encoding &wantedBy(const PlannedFunction::ValuePlan::Use &use) {
    return use.op < 0 ? out.results[use.operand]
                      : out.ops[use.op].operands[use.operand];
  }

  bool planValue(ValueId value) {
    const Encoding &produced = out.encodings[value];
    PlannedFunction::ValuePlan &valuePlan = out.values[value];
    bool change = false, takers = false;
    for (const auto &use : valuePlan.uses) {
      change = change || !(wantedBy(use) == produced);
      takers = takers || takesFinished(use);
    }
    const bool partial = produced.partial != Partial::None;
    if ((!change && !(takers && partial)) || // the common case
        (takers && staysPartial(value))) {
      valuePlan.reshards.served.assign(valuePlan.uses.size(), 0);
      return true;
    }

    std::vector<Encoding> wanted;
    if (takers) {
      for (const auto &use : valuePlan.uses)
        if (!takesFinished(use))
          wanted.push_back(wantedBy(use));
      if (!planReshards(produced, wanted, valuePlan.reshards, why))
        return fail(describe(value) + why);
      Encoding finished = produced;
      finished.partial = Partial::None;
      finished.partialAxes.clear();
      const std::vector<ReshardStep> &steps = valuePlan.reshards.steps;
      for (const ReshardStep &step : steps)
        if (partial && step.result.partial == Partial::None) {
          finished = step.result;
          break;
        }
      for (const auto &use : valuePlan.uses) {
        if (!takesFinished(use))
          continue;
        wantedBy(use) = finished;
        const Encoding *reader = wantedByReader(use);
        const bool saves =
            function.results[use.operand].kind == ResultKind::Saved;
        for (const ReshardStep &step : steps)
          if (reader && step.result == *reader &&
              (!saves || step.collective == Collective::AllToAll))
            wantedBy(use) = step.result;
      }
      wanted.clear();
    }
    for (const auto &use : valuePlan.uses)
      wanted.push_back(wantedBy(use));
    if (!planReshards(produced, wanted, valuePlan.reshards, why))
      return fail(describe(value) + why);
    for (size_t i = 0; i < valuePlan.uses.size(); ++i)
      valuePlan.uses[i].served = valuePlan.reshards.served[i];
    placeSteps(value);
    return true;
  }

  void placeSteps(ValueId value) {
    PlannedFunction::ValuePlan &valuePlan = out.values[value];
    const std::vector<ReshardStep> &steps = valuePlan.reshards.steps;
    if (!steps.empty())
      out.resharded.insert(std::upper_bound(out.resharded.begin(),
                                            out.resharded.end(), value),
                           value);
    const int end = static_cast<int>(function.ops.size());
    std::vector<int> firstUse(steps.size() + 1, end);
    for (const auto &use : valuePlan.uses)
      if (use.op >= 0)
        firstUse[use.served] = std::min(firstUse[use.served], use.op);
    for (size_t i = steps.size(); i-- > 0;)
      firstUse[steps[i].source] =
          std::min(firstUse[steps[i].source], firstUse[i + 1]);
    std::vector<int> available(steps.size() + 1, producer[value] + 1);
    valuePlan.before.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      valuePlan.before[i] = steps[i].collective == Collective::AllGather
                                ? firstUse[i + 1]
                                : available[steps[i].source];
      available[i + 1] = valuePlan.before[i];
    }
  }

  std::string describe(ValueId value) const {
    return producer[value] < 0
               ? "an argument: "
               : "a result of op " + function.ops[producer[value]].name + ": ";
  }
  bool fail(std::string message) {
    why = "kind " + kind.name + ": " + std::move(message);
    return false;
  }

  const Plan &plan;
  const Kind &kind;
  const Function &function;
  PlannedFunction &out;
  std::string &why;
  std::vector<int> producer; ///< per value its op, -1 for arguments
  std::map<int32_t, LaterReader> readers; ///< by index of what is saved or kept
};

/// How `function` reads each argument of `kind`, by the argument's index.
std::map<int32_t, LaterReader> readersOf(const Plan &plan,
                                        const Function &function,
                                        ArgKind kind) {
  std::map<int32_t, LaterReader> readers;
  for (const Argument &argument : function.arguments) {
    if (argument.kind != kind)
      continue;
    LaterReader reader;
    bool single = true, linear = true;
    for (const Op &op : function.ops)
      for (size_t i = 0; i < op.operands.size(); ++i) {
        if (op.operands[i] != argument.value)
          continue;
        Encoding encoding;
        for (int factor : op.space.operands[i])
          encoding.dims.push_back(
              dimAxes(plan, op, op.space.factors[factor].role));
        single = single && (!reader.encoding || *reader.encoding == encoding);
        reader.encoding = std::move(encoding);
        const std::vector<bool> &in = op.space.linear;
        linear =
            linear && i < in.size() && in[i] &&
            (isProduct(op) || std::count(in.begin(), in.end(), true) == 1) &&
            (!reader.linearIn || *reader.linearIn == op.segment);
        reader.linearIn = op.segment;
        for (const Factor &factor : op.space.factors)
          addAxes(reader.usedAxes, factorAxes(plan, op, factor.role));
      }
    if (!single)
      reader.encoding.reset();
    if (!linear)
      reader.linearIn.reset();
    if (reader.encoding)
      readers.emplace(argument.index, std::move(reader));
  }
  return readers;
}

/// Encodings of the results of `kind`, by their index.
std::vector<Encoding> encodingsOf(const Function &function,
                                  const PlannedFunction &planned,
                                  ResultKind kind) {
  std::vector<Encoding> encodings;
  for (size_t i = 0; i < function.results.size(); ++i) {
    const Result &result = function.results[i];
    if (result.kind != kind)
      continue;
    if (encodings.size() <= static_cast<size_t>(result.index))
      encodings.resize(result.index + 1);
    encodings[result.index] = planned.results[i];
  }
  return encodings;
}

} // namespace

bool planVariant(const Plan &plan, const Kind &kind, const KindVariant &variant,
                 PlannedVariant &planned, std::string &why) {
  planned = {};
  // What is saved may be read otherwise only where an all-to-all moves it.
  const bool moves = plan.cp > 1 && plan.cpKind == CpKind::AllToAll;
  if (!FunctionPlanner(plan, kind, variant.forward, planned.forward, why)
           .run({}, {},
                moves ? readersOf(plan, variant.dataGrad, ArgKind::Saved)
                      : std::map<int32_t, LaterReader>()))
    return false;
  std::vector<Encoding> saved =
      encodingsOf(variant.forward, planned.forward, ResultKind::Saved);
  if (!FunctionPlanner(plan, kind, variant.dataGrad, planned.dataGrad, why)
           .run(saved, {},
                readersOf(plan, variant.weightGrad, ArgKind::Kept)))
    return false;
  std::vector<Encoding> kept =
      encodingsOf(variant.dataGrad, planned.dataGrad, ResultKind::Kept);
  return FunctionPlanner(plan, kind, variant.weightGrad, planned.weightGrad,
                         why)
      .run(saved, kept);
}

PlannedVariant plannedVariant(const Plan &plan, const Kind &kind,
                              const KindVariant &variant) {
  PlannedVariant planned;
  std::string why;
  if (!planVariant(plan, kind, variant, planned, why)) {
    std::fprintf(stderr, "shardwright: internal error: illegal plan: %s\n",
                 why.c_str());
    std::abort();
  }
  return planned;
}

void resizeVariant(const Plan &plan, const KindVariant &variant,
                   PlannedVariant &planned) {
  const auto resize = [&](const Function &function, PlannedFunction &out) {
    for (size_t op = 0; op < function.ops.size(); ++op) {
      const std::vector<Factor> &factors = function.ops[op].space.factors;
      for (size_t i = 0; i < factors.size(); ++i)
        out.ops[op].local.factors[i].size =
            plannedSize(plan, factors[i].role, factors[i].size) /
            degree(plan, out.ops[op].factorAxes[i]);
    }
  };
  resize(variant.forward, planned.forward);
  resize(variant.dataGrad, planned.dataGrad);
  resize(variant.weightGrad, planned.weightGrad);
}

} // namespace shardwright::cost

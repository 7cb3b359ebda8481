#include "cost_model/program/ModelParts.h"

#include "cost_model/base/Format.h"

#include <algorithm>
#include <set>

namespace shardwright::cost {

namespace {

/// Number of the parameter that `value` is in `function`, or -1.
int32_t parameterAt(const Function &function, ValueId value) {
  for (const Argument &argument : function.arguments)
    if (argument.kind == ArgKind::Parameter && argument.value == value)
      return argument.index;
  return -1;
}

/// The parameter whose arithmetic `op` is, or -1: products have one.
int32_t parameterOf(const Function &function, const Op &op) {
  for (ValueId operand : op.operands)
    if (int32_t index = parameterAt(function, operand); index >= 0)
      return index;
  return -1;
}

/// The part with that name, made if there is none.
ModelPart &partNamed(std::vector<ModelPart> &parts, const ModelPart &wanted) {
  auto same = std::find_if(parts.begin(), parts.end(), [&](const ModelPart &p) {
    return p.segment == wanted.segment && p.name == wanted.name;
  });
  if (same == parts.end())
    same = parts.insert(parts.end(), wanted);
  return *same;
}

const char *nameOfArithmetic(const Op &op) {
  return op.space.kernel == KernelClass::Attention ? "scores and values"
                                                   : "other products";
}

/// How far the attention of a kind's layers looks, as words; empty if to the
/// start.
std::string reachOf(const Program &program, const Kind &kind) {
  for (const Op &op : kind.variants.front().forward.ops) {
    if (op.space.kernel != KernelClass::Attention)
      continue;
    if (op.space.chunk > 0)
      return "attend within chunks of " + groupedText(op.space.chunk) +
             " tokens";
    if (op.space.window > 0)
      return "attend to the last " + groupedText(op.space.window) +
             " tokens alone" +
             (op.space.window >= program.sequence
                  ? ": all of a sequence of this length"
                  : "");
  }
  return "";
}

bool isLatent(const Program &program) {
  for (const Kind &kind : program.kinds)
    for (const Parameter &parameter : kind.parameters)
      for (const Dim &dim : parameter.dims)
        if (dim.role == Role::Latent)
          return true;
  return false;
}

std::string attentionFact(const Program &program) {
  const std::string heads = std::to_string(program.heads);
  if (isLatent(program))
    return "latent attention: " + heads +
           " heads read keys and values from a low-rank stream";
  if (program.kvHeads == program.heads)
    return "multi-head attention: every head has keys and values of its own";
  if (program.kvHeads == 1)
    return "multi-query attention: " + heads +
           " query heads share one key/value head";
  return "grouped-query attention: " +
         std::to_string(program.heads / program.kvHeads) +
         " query heads share a key/value head";
}

} // namespace

std::vector<Run> runsByKind(const Program &program) {
  std::vector<Run> kinds;
  for (const Run &run : program.stack) {
    auto same = std::find_if(kinds.begin(), kinds.end(), [&](const Run &other) {
      return other.kind == run.kind;
    });
    if (same == kinds.end())
      kinds.push_back(run);
    else
      same->count += run.count;
  }
  return kinds;
}

std::vector<ModelPart> modelParts(const Program &program) {
  std::vector<ModelPart> all;
  std::set<std::string> counted;
  for (const Run &run : runsByKind(program)) {
    const Kind &kind = program.kinds[run.kind];
    std::vector<ModelPart> parts;
    // Parameters cut from one tensor of the checkpoint are one part.
    for (const Parameter &parameter : kind.parameters) {
      ModelPart &part = partNamed(
          parts, {kind.name, parameter.segment, parameter.hfName,
                  parameter.hfShape, run.count, 0, 0, parameter.shared});
      if (parameter.shared.empty() || counted.insert(parameter.shared).second)
        part.parameters = checkedAdd(part.parameters, elementCount(parameter));
    }
    const Function &forward = kind.variants.front().forward;
    for (const Op &op : forward.ops) {
      const double flops = static_cast<double>(flopsOf(op.space).count()) /
                           static_cast<double>(program.sequence);
      if (flops == 0)
        continue;
      const int32_t index = parameterOf(forward, op);
      ModelPart wanted = {kind.name, op.segment, nameOfArithmetic(op),
                          {},        run.count,  0, 0, ""};
      if (index >= 0) {
        wanted.segment = kind.parameters[index].segment;
        wanted.name = kind.parameters[index].hfName;
      }
      partNamed(parts, wanted).forwardFlops += flops;
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const ModelPart &a, const ModelPart &b) {
                       return a.segment < b.segment;
                     });
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return all;
}

FfnWidths feedForwardWidths(const Program &program) {
  FfnWidths widths;
  for (const Run &run : program.stack) {
    int64_t routed = 0, other = 0;
    for (const Parameter &parameter : program.kinds[run.kind].parameters)
      for (const Dim &dim : parameter.dims)
        if (dim.role == Role::Ffn)
          (parameter.segment == Segment::Experts ? routed : other) = dim.size;
    if (routed > 0)
      widths.expert = routed;
    else if (other > 0)
      widths.dense = other;
  }
  return widths;
}

std::vector<std::string> modelFacts(const Program &program) {
  std::vector<std::string> facts = {attentionFact(program)};
  std::string kinds;
  int repeated = 0;
  for (const Run &run : runsByKind(program)) {
    const Kind &kind = program.kinds[run.kind];
    if (!isLayer(kind))
      continue;
    ++repeated;
    kinds += (kinds.empty() ? "" : ", ") + std::to_string(run.count) + " " +
             kind.name;
    if (const std::string reach = reachOf(program, kind); !reach.empty())
      facts.push_back(std::to_string(run.count) + " of " +
                      std::to_string(program.layers) + " layers " + reach);
  }
  if (repeated > 1)
    facts.push_back("layers: " + kinds);
  if (program.experts > 0)
    facts.push_back(
        std::to_string(program.topK) + " of " +
        std::to_string(program.experts) + " experts work on a token: " +
        groupedText(activeParameterCount(program)) + " parameters are active (" +
        percentText(static_cast<double>(activeParameterCount(program)) /
                    static_cast<double>(parameterCount(program))) +
        ")");
  std::set<std::string> shared, told;
  for (const Run &run : runsByKind(program))
    for (const Parameter &parameter : program.kinds[run.kind].parameters)
      if (!parameter.shared.empty() && !shared.insert(parameter.shared).second &&
          told.insert(parameter.shared).second)
        facts.push_back("tied: " + parameter.hfName +
                        " is embedding and head, counted once");
  return facts;
}

} // namespace shardwright::cost

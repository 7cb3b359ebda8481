#include "cost_model/program/Program.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace shardwright::cost {

std::string_view name(Recompute recompute) {
  switch (recompute) {
  case Recompute::None: return "none";
  case Recompute::Selective: return "selective";
  case Recompute::Full: return "full";
  }
  return "";
}

std::string_view name(FlopsConvention convention) {
  switch (convention) {
  case FlopsConvention::CausalHalved: return "causal_halved";
  case FlopsConvention::FullAttention: return "full_attention";
  case FlopsConvention::SixN: return "six_n";
  }
  return "";
}

const KindVariant &Kind::variant(Recompute policy) const {
  assert(!variants.empty() && "a kind has at least the variant `none`");
  for (const KindVariant &candidate : variants)
    if (candidate.policy == policy)
      return candidate;
  return variants.front();
}

int kindIndex(const Program &program, std::string_view kind) {
  for (size_t i = 0; i < program.kinds.size(); ++i)
    if (program.kinds[i].name == kind)
      return static_cast<int>(i);
  return -1;
}

bool takesStream(const Kind &kind) {
  const Function &forward = kind.variants.front().forward;
  return std::any_of(
      forward.arguments.begin(), forward.arguments.end(),
      [](const Argument &a) { return a.kind == ArgKind::StreamIn; });
}

bool givesStream(const Kind &kind) {
  const Function &forward = kind.variants.front().forward;
  return std::any_of(
      forward.results.begin(), forward.results.end(),
      [](const Result &r) { return r.kind == ResultKind::StreamOut; });
}

bool isLayer(const Kind &kind) {
  return takesStream(kind) && givesStream(kind);
}

int64_t elementCount(const Parameter &parameter) {
  int64_t elements = 1;
  for (const Dim &dim : parameter.dims)
    elements = checkedMul(elements, dim.size);
  return elements;
}

namespace {

/// Whether every expert has a part of its own.
bool isExpert(const Parameter &parameter) {
  return parameter.segment == Segment::Experts &&
         std::any_of(parameter.dims.begin(), parameter.dims.end(),
                     [](const Dim &dim) { return dim.role == Role::Experts; });
}

/// Sums the elements of all parameters of `program` for which
/// `counts(kind, index)` holds; each shared tensor once.
template <typename Predicate>
int64_t sumParameters(const Program &program, Predicate counts,
                      bool active = false) {
  int64_t total = 0;
  std::set<std::string_view> seen;
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[run.kind];
    for (size_t i = 0; i < kind.parameters.size(); ++i) {
      const Parameter &parameter = kind.parameters[i];
      if (!counts(kind, static_cast<int32_t>(i)))
        continue;
      int64_t copies = run.count;
      if (!parameter.shared.empty())
        copies = seen.insert(parameter.shared).second ? 1 : 0;
      int64_t elements = elementCount(parameter);
      if (active && isExpert(parameter))
        elements = elements / program.experts * program.topK;
      total = checkedAdd(total, checkedMul(copies, elements));
    }
  }
  return total;
}

/// Whether parameter `index` is only a table that rows are read from: the
/// operand of a Gather, or a table of positions.
bool isLookupTable(const Kind &kind, int32_t index) {
  for (const Dim &dim : kind.parameters[index].dims)
    if (dim.role == Role::Position)
      return true;
  const Function &forward = kind.variants.front().forward;
  bool gathered = false, otherUse = false;
  for (const Argument &argument : forward.arguments) {
    if (argument.kind != ArgKind::Parameter || argument.index != index)
      continue;
    for (const Op &op : forward.ops)
      for (ValueId operand : op.operands)
        if (operand == argument.value)
          (op.space.kernel == KernelClass::Gather ? gathered : otherUse) = true;
  }
  return gathered && !otherUse;
}

} // namespace

int64_t parameterCount(const Program &program) {
  return sumParameters(program, [](const Kind &, int32_t) { return true; });
}

int64_t activeParameterCount(const Program &program) {
  return sumParameters(
      program, [](const Kind &, int32_t) { return true; }, /*active=*/true);
}

double modelFlopsPerToken(const Program &program, FlopsConvention convention) {
  if (convention == FlopsConvention::SixN)
    return 6.0 * static_cast<double>(sumParameters(
                     program, [](const Kind &kind, int32_t index) {
                       return !isLookupTable(kind, index);
                     },
                     /*active=*/true));
  double forward = 0; // of one sequence
  for (const Run &run : program.stack) {
    double layer = 0;
    for (const Op &op : program.kinds[run.kind].variants.front().forward.ops) {
      if (convention == FlopsConvention::FullAttention && op.space.causal) {
        IterationSpace space = op.space;
        space.causal = false;
        layer += static_cast<double>(flopsOf(space).count());
        continue;
      }
      layer += static_cast<double>(flopsOf(op.space).count());
    }
    forward += static_cast<double>(run.count) * layer;
  }
  return 3.0 * forward / static_cast<double>(program.sequence);
}

bool isAttentionCore(const Op &op) {
  return op.space.kernel == KernelClass::Attention ||
         op.space.kernel == KernelClass::AttentionGrad;
}

bool isProduct(const Op &op) {
  return op.space.kernel == KernelClass::Gemm ||
         op.space.kernel == KernelClass::GroupedGemm;
}

bool mayBeNarrow(Segment segment) {
  return segment != Segment::Head && segment != Segment::Embed &&
         segment != Segment::Loss && segment != Segment::Router;
}

} // namespace shardwright::cost

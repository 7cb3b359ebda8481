#include "cost_model/partition/Assignment.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

namespace shardwright::cost {

Axes axesOf(const Plan &plan, Segment segment, Role role) {
  auto axes = [&](bool use, Degree degree) {
    return use ? axesOfDegree(plan, degree) : Axes();
  };
  if (segment == Segment::Update)
    return role == Role::Flat && plan.zero >= 1 ? tokenAxes(plan)
                                                : Axes();
  if (role == Role::Batch)
    return axes(true, Degree::Dp);
  const auto inner = [&](Axes outer) {
    for (Axis axis : axes(plan.sp, Degree::Tp))
      outer.push_back(axis);
    return outer;
  };
  if (role == Role::Seq)
    return segment == Segment::Stream || segment == Segment::Router
               ? inner(axes(true, Degree::Cp))
               : axes(true, Degree::Cp);
  switch (segment) {
  case Segment::Stream: break;
  case Segment::Attention: {
    if (role != Role::Heads && role != Role::Group)
      return {};
    Axes replicas = kvReplicaAxes(plan);
    if (role == Role::Group)
      return replicas;
    Axes heads = axesOfDegree(plan, Degree::Tp);
    heads.resize(heads.size() - replicas.size());
    return heads;
  }
  case Segment::Mlp: return axes(role == Role::Ffn, Degree::Tp);
  case Segment::Embed:
  case Segment::Head:
  case Segment::Loss: return axes(role == Role::Vocab, Degree::Tp);
  case Segment::Router:
    return role == Role::Rows ? inner(tokenAxes(plan)) : Axes();
  case Segment::Experts:
    if (role == Role::Rows) {
      Axes rows = axesOf(plan, Segment::Router, Role::Rows);
      for (Axis axis : axesOfDegree(plan, Degree::Etp))
        rows.erase(axis);
      return rows;
    }
    return role == Role::Experts ? axesOfDegree(plan, Degree::Ep)
                                 : axes(role == Role::Ffn, Degree::Etp);
  case Segment::Update: break;
  }
  return {};
}

Axes tokenAxes(const Plan &plan) {
  Axes axes = axesOfDegree(plan, Degree::Dp);
  for (Axis axis : axesOfDegree(plan, Degree::Cp))
    axes.push_back(axis);
  return axes;
}

bool goesRound(const Plan &plan, const Op &op) {
  return plan.cp > 1 && plan.cpKind == CpKind::P2P && isAttentionCore(op);
}

Axes factorAxes(const Plan &plan, const Op &op, Role role) {
  Axes axes = axesOf(plan, op.segment, role);
  if (plan.cp == 1 || plan.cpKind != CpKind::AllToAll || !isAttentionCore(op))
    return axes;
  if (role == Role::Seq)
    return {};
  if (role == Role::Heads)
    for (Axis axis : axesOfDegree(plan, Degree::Cp))
      axes.push_back(axis);
  return axes;
}

Axes dimAxes(const Plan &plan, const Op &op, Role role) {
  return role == Role::KvSeq && goesRound(plan, op)
             ? axesOfDegree(plan, Degree::Cp)
             : factorAxes(plan, op, role);
}

Axes routedAxes(const Plan &plan, Segment segment) {
  return segment == Segment::Experts ? axesOfDegree(plan, Degree::Ep)
                                     : Axes();
}

Axes dataAxes(const Plan &plan, Segment segment) {
  return segment == Segment::Experts ? axesOfDegree(plan, Degree::Edp)
                                     : tokenAxes(plan);
}

Axes shardAxes(const Plan &plan, Segment segment) {
  Axes axes = dataAxes(plan, segment);
  if (plan.zeroRanks > 0)
    while (!axes.empty() &&
           degree(plan, axes) > checkedMul(plan.zeroRanks, plan.cp))
      axes.erase(axes.begin());
  return axes;
}

int64_t paddedVocab(int64_t vocab, int64_t tp) {
  return roundUp(vocab, checkedMul(128, tp));
}

int64_t plannedSize(const Plan &plan, Role role, int64_t size) {
  if (role == Role::Batch || role == Role::Rows)
    return checkedMul(size, checkedMul(plan.dp, plan.microBatch));
  if (role == Role::Vocab)
    return paddedVocab(size, plan.tp);
  return size;
}

Encoding streamEncoding(const Plan &plan) {
  return {{axesOf(plan, Segment::Stream, Role::Seq),
           axesOf(plan, Segment::Stream, Role::Batch),
           axesOf(plan, Segment::Stream, Role::Hidden)},
          Partial::None,
          {},
          {}};
}

Encoding parameterEncoding(const Plan &plan, const Parameter &parameter) {
  Encoding encoding;
  for (const Dim &dim : parameter.dims)
    encoding.dims.push_back(axesOf(plan, parameter.segment, dim.role));
  return encoding;
}

std::vector<int64_t> localShape(const Plan &plan, const Value &value,
                                const Encoding &encoding) {
  assert(encoding.dims.size() == value.dims.size() &&
         "an encoding has the rank of its value");
  std::vector<int64_t> shape;
  shape.reserve(value.dims.size());
  for (size_t i = 0; i < value.dims.size(); ++i) {
    int64_t size = plannedSize(plan, value.dims[i].role, value.dims[i].size);
    int64_t shards = degree(plan, encoding.dims[i]);
    assert(size % shards == 0 && "a legal plan divides every dim evenly");
    shape.push_back(size / shards);
  }
  return shape;
}

Bytes ringBytes(const Plan &plan, const Function &function, const Op &op,
                const PlannedOp &planned) {
  Bytes bytes(0);
  for (size_t i = 0; i < op.operands.size(); ++i)
    for (int factor : op.space.operands[i])
      if (op.space.factors[static_cast<size_t>(factor)].role == Role::KvSeq)
        bytes += localBytes(plan, function.values[op.operands[i]],
                            planned.operands[i]);
  return op.space.kernel == KernelClass::AttentionGrad ? 2 * bytes : bytes;
}

Bytes localBytes(const Plan &plan, const Value &value,
                 const Encoding &encoding) {
  int64_t bytes = byteWidth(plan.dtypes.of(value.precision));
  for (size_t i = 0; i < value.dims.size(); ++i) {
    int64_t size = plannedSize(plan, value.dims[i].role, value.dims[i].size);
    if (!encoding.dims[i].empty()) { // division is slow, and this is asked most
      const int64_t shards = degree(plan, encoding.dims[i]);
      assert(size % shards == 0 && "a legal plan divides every dim evenly");
      size /= shards;
    }
    bytes = checkedMul(bytes, size);
  }
  return Bytes(bytes);
}

} // namespace shardwright::cost

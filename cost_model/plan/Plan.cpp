#include "cost_model/plan/Plan.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace shardwright::cost {

std::string_view name(DType dtype) {
  switch (dtype) {
  case DType::F64: return "f64";
  case DType::F32: return "f32";
  case DType::BF16: return "bf16";
  case DType::F16: return "f16";
  case DType::I32: return "i32";
  }
  return "";
}

int64_t byteWidth(DType dtype) {
  switch (dtype) {
  case DType::F64: return 8;
  case DType::F32: return 4;
  case DType::BF16: return 2;
  case DType::F16: return 2;
  case DType::I32: return 4;
  }
  return 0;
}

std::string_view name(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::GPipe: return "gpipe";
  case ScheduleKind::OneFOneB: return "1f1b";
  case ScheduleKind::Interleaved: return "interleaved";
  case ScheduleKind::ZbH1: return "zb-h1";
  case ScheduleKind::Zb2p: return "zb-2p";
  case ScheduleKind::ZbV: return "zb-v";
  case ScheduleKind::DualPipe: return "dualpipe";
  case ScheduleKind::DualPipeV: return "dualpipe-v";
  }
  return "";
}

std::string_view name(CpKind kind) {
  switch (kind) {
  case CpKind::P2P: return "p2p";
  case CpKind::AllGather: return "all_gather";
  case CpKind::AllToAll: return "a2a";
  }
  return "";
}

std::string_view name(Narrow narrow) {
  switch (narrow) {
  case Narrow::None: return "none";
  case Narrow::Fp8: return "fp8";
  case Narrow::Mxfp8: return "mxfp8";
  case Narrow::Fp8Block: return "fp8_block";
  case Narrow::Fp4Block: return "fp4_block";
  }
  return "";
}

int64_t zeroDataRanks(const Plan &plan) {
  return plan.zero == 0 ? 1 : plan.zeroRanks > 0 ? plan.zeroRanks : plan.dp;
}

DType DTypes::of(Precision precision) const {
  switch (precision) {
  case Precision::Param: return param;
  case Precision::Compute: return compute;
  case Precision::Stat:
    return compute == DType::F64 ? DType::F64 : DType::F32;
  case Precision::Grad: return grad;
  case Precision::Master: return master;
  case Precision::Index: return DType::I32;
  }
  return compute;
}

namespace {

/// A few numbers in place: the search makes meshes by the hundred thousand.
struct Pieces {
  std::array<int64_t, 5> sizes;
  size_t count = 0;
  void push_back(int64_t size) { sizes[count++] = size; }
};

/// Sizes into which the boundaries of the expert order, of ZeRO groups and of
/// key/value replicas cut the dense degree that lies over [inner, inner * size),
/// inner to outer; false if they do not divide.
bool cutDegree(const Plan &plan, int64_t inner, int64_t size, Pieces &pieces) {
  pieces.count = 0;
  const int64_t outer = checkedMul(inner, size);
  int64_t from = inner;
  const int64_t shards =
      plan.zeroRanks > 0
          ? checkedMul(checkedMul(plan.tp, plan.cp), plan.zeroRanks)
          : 1;
  int64_t boundaries[] = {plan.kvReplicas, plan.etp,
                          checkedMul(plan.etp, plan.ep), shards};
  std::sort(std::begin(boundaries), std::end(boundaries));
  for (int64_t boundary : boundaries) {
    if (boundary <= from || boundary >= outer)
      continue;
    if (boundary % from != 0)
      return false;
    pieces.push_back(boundary / from);
    from = boundary;
  }
  if (outer % from != 0)
    return false;
  pieces.push_back(outer / from);
  return true;
}

} // namespace

std::string_view name(Degree degree) {
  switch (degree) {
  case Degree::Pp: return "pp";
  case Degree::Dp: return "dp";
  case Degree::Cp: return "cp";
  case Degree::Tp: return "tp";
  case Degree::Edp: return "edp";
  case Degree::Ep: return "ep";
  case Degree::Etp: return "etp";
  }
  return "";
}

std::vector<MeshAxis> meshOf(const Plan &plan) {
  const bool nest = degreesNest(plan);
  std::vector<MeshAxis> mesh; // inner to outer
  mesh.reserve(8);
  int64_t inner = 1;
  auto add = [&](const char *degree, int64_t size) {
    Pieces pieces{{size}, 1};
    if (nest)
      cutDegree(plan, inner, size, pieces);
    for (size_t i = 0; i < pieces.count; ++i) {
      mesh.push_back({degree, pieces.sizes[i]});
      if (pieces.count > 1)
        mesh.back().name += std::to_string(pieces.count - 1 - i);
    }
    inner = checkedMul(inner, size);
  };
  add("tp", plan.tp);
  if (plan.cp > 1)
    add("cp", plan.cp);
  if (plan.order == MeshOrder::DpPp)
    mesh.push_back({"pp", plan.pp});
  add("dp", plan.dp);
  if (plan.order == MeshOrder::PpDp)
    mesh.push_back({"pp", plan.pp});
  std::reverse(mesh.begin(), mesh.end());
  return mesh;
}

bool degreesNest(const Plan &plan) {
  Pieces pieces;
  int64_t inner = 1;
  for (int64_t size : {plan.tp, plan.cp, plan.dp}) {
    if (!cutDegree(plan, inner, size, pieces))
      return false;
    inner = checkedMul(inner, size);
  }
  return true;
}

void setMesh(Plan &plan) { plan.mesh = meshOf(plan); }

Axes axesOfDegree(const Plan &plan, Degree degree) {
  Axes axes;
  const bool expert = degree >= Degree::Edp;
  const std::string_view wanted = name(degree);
  int64_t inner = 1; // ranks inside the axis
  for (size_t i = plan.mesh.size(); i-- > 0;) {
    const MeshAxis &axis = plan.mesh[i];
    const bool pipeline = axis.name == "pp";
    bool member = false;
    if (!expert) {
      member = std::string_view(axis.name).substr(0, 2) == wanted;
    } else if (!pipeline) {
      const Degree owner = inner < plan.etp             ? Degree::Etp
                           : inner < plan.etp * plan.ep ? Degree::Ep
                                                        : Degree::Edp;
      member = owner == degree;
      inner *= axis.size;
    }
    if (member && axis.size > 1)
      axes.push_back(static_cast<Axis>(i));
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

int64_t pipelineStride(const Plan &plan) {
  const int64_t inner = checkedMul(plan.cp, plan.tp);
  return plan.order == MeshOrder::DpPp ? inner : checkedMul(plan.dp, inner);
}

int64_t kvReplicasOf(const Program &program, int64_t tp) {
  const int64_t heads = program.kvHeads;
  return heads > 0 && tp > heads && tp % heads == 0 ? tp / heads : 1;
}

Axes kvReplicaAxes(const Plan &plan) {
  Axes axes = axesOfDegree(plan, Degree::Tp);
  int64_t inner = 1;
  size_t first = axes.size();
  while (first > 0 && inner < plan.kvReplicas)
    inner *= plan.mesh[axes[--first]].size;
  axes.erase(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(first));
  return axes;
}

Axis axisNamed(const Plan &plan, std::string_view axis) {
  for (size_t i = 0; i < plan.mesh.size(); ++i)
    if (plan.mesh[i].name == axis)
      return static_cast<Axis>(i);
  assert(false && "the mesh has no axis of this name");
  return 0;
}

std::vector<int64_t> coordinates(const Plan &plan, int64_t rank) {
  std::vector<int64_t> result(plan.mesh.size());
  for (size_t i = plan.mesh.size(); i-- > 0;) {
    result[i] = rank % plan.mesh[i].size;
    rank /= plan.mesh[i].size;
  }
  assert(rank == 0 && "the rank lies on the mesh");
  return result;
}

std::vector<Stage> evenStages(const Program &program, int64_t pp,
                              Recompute policy, int64_t fullLayers) {
  assert(pp >= 1 && "a pipeline has at least one stage");
  // Runs before and after the repeated layers stay on the end stages.
  std::vector<StageRun> first, layers, last;
  int64_t layerCount = 0;
  for (const Run &run : program.stack) {
    const Kind &kind = program.kinds[run.kind];
    if (!takesStream(kind)) {
      first.push_back({kind.name, run.count, Recompute::None});
    } else if (!givesStream(kind)) {
      last.push_back({kind.name, run.count, Recompute::None});
    } else {
      layers.push_back({kind.name, run.count, policy});
      layerCount += run.count;
    }
  }

  // Who takes one layer more: interior stages in order, then the first stage
  // (the last one has the head to compute).
  std::vector<int64_t> counts(pp, layerCount / pp);
  int64_t extra = layerCount % pp;
  for (int64_t stage = 1; stage + 1 < pp && extra > 0; ++stage, --extra)
    ++counts[stage];
  if (extra > 0)
    ++counts[0];

  std::vector<Stage> stages(pp);
  stages.front().runs = first;
  size_t next = 0; // in `layers`
  for (int64_t stage = 0; stage < pp; ++stage) {
    int64_t full = policy == Recompute::Full && fullLayers >= 0
                       ? fullLayers
                       : counts[stage];
    for (int64_t left = counts[stage]; left > 0;) {
      StageRun &source = layers[next];
      if (source.count == 0) {
        ++next;
        continue;
      }
      int64_t taken = std::min(left, source.count);
      if (full > 0)
        taken = std::min(taken, full);
      Recompute recompute = full > 0 ? policy : Recompute::None;
      stages[stage].runs.push_back({source.kind, taken, recompute});
      source.count -= taken;
      left -= taken;
      full -= full > 0 ? taken : 0;
    }
  }
  stages.back().runs.insert(stages.back().runs.end(), last.begin(), last.end());
  return stages;
}

} // namespace shardwright::cost

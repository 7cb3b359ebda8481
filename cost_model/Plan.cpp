#include "cost_model/Plan.h"

#include <algorithm>
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
  }
  return "";
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

void setMesh(Plan &plan) {
  plan.mesh = {{"pp", plan.pp}, {"dp", plan.dp}, {"tp", plan.tp}};
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

//===- Stage.cpp - The part of a program that one rank runs ---------------===//
#include "runtime/src/train/Stage.h"
#include "runtime/src/Context.h"

#include <algorithm>
#include <bit>

namespace shardwright::runtime {

Mesh meshOf(const sw_rt_program &program) {
  std::vector<Mesh::Axis> axes;
  for (int32_t i = 0; i < program.num_axes; ++i)
    axes.push_back({program.axes[i].name, program.axes[i].size});
  return Mesh(std::move(axes));
}

std::string ParameterView::name() const {
  std::string text = parameter->name;
  if (const size_t at = text.find("{}"); at != std::string::npos)
    text.replace(at, 2, std::to_string(layer));
  return text;
}

int64_t ParameterView::localElements() const {
  int64_t product = 1;
  for (int32_t i = 0; i < parameter->ndims; ++i)
    product *= parameter->dims[i].local;
  return product;
}

static int64_t stageOf(const sw_rt_program &program, const Mesh &mesh,
                       int64_t rank) {
  return program.pp_axis < 0
             ? 0
             : mesh.coordinate(rank, uint32_t(1) << program.pp_axis);
}

Stage::Stage(const sw_rt_program &program, const Mesh &mesh, int64_t rank)
    : program(program), mesh(mesh), rank(rank),
      index(stageOf(program, mesh, rank)), tables(program.stages[index]) {
  streamBytes = program.stream_elements *
                byteWidth(static_cast<sw_rt_dtype>(program.compute_dtype));
  int64_t elements = 0, slot = 0;
  for (int32_t r = 0; r < tables.num_runs; ++r) {
    const sw_rt_run &run = tables.runs[r];
    for (int32_t i = 0; i < run.count; ++i) {
      Layer layer{&program.kinds[run.kind], run.first_layer + i, elements, -1,
                  0};
      // The first layer of the model reads tokens, not a stream.
      if (!(isFirst() && layers.empty())) {
        layer.streamOffset = slot;
        slot += alignArena(streamBytes);
      }
      layer.savedOffset = slot;
      slot += alignArena(layer.kind->saved_bytes);
      elements += layer.kind->block.elements;
      layers.push_back(layer);
    }
  }
  sharedElements = elements;
}

int Stage::neighbour(int step) const {
  int64_t stride = 1;
  for (size_t i = mesh.getAxes().size();
       i-- > static_cast<size_t>(program.pp_axis) + 1;)
    stride *= mesh.getAxes()[i].size;
  return static_cast<int>(rank + step * stride);
}

std::string Stage::check() const {
  auto differ = [&](const char *what, int64_t wanted, int64_t got) {
    return "expected " + std::string(what) + " of stage " +
           std::to_string(index) + " to be " + std::to_string(wanted) +
           ", but the program's tables say " + std::to_string(got);
  };
  const sw_rt_arena &arena = tables.arena;
  int64_t slot = 0;
  if (!layers.empty())
    slot =
        layers.back().savedOffset + alignArena(layers.back().kind->saved_bytes);
  if (slot != arena.slot_bytes)
    return differ("slot_bytes", slot, arena.slot_bytes);
  if (arena.num_slots * slot != arena.slots_bytes)
    return differ("slots_bytes", arena.num_slots * slot, arena.slots_bytes);
  const int64_t elements = sharedElements + tables.shared.elements;
  if (elements != arena.elements)
    return differ("elements", elements, arena.elements);
  auto width = [](int32_t dtype) {
    return byteWidth(static_cast<sw_rt_dtype>(dtype));
  };
  if (arena.parameters_bytes != elements * width(program.param_dtype))
    return differ("parameters_bytes", elements * width(program.param_dtype),
                  arena.parameters_bytes);
  if (arena.gradients_bytes != elements * width(program.grad_dtype))
    return differ("gradients_bytes", elements * width(program.grad_dtype),
                  arena.gradients_bytes);
  if (arena.optimizer_elements != elements / zeroDegree())
    return differ("optimizer_elements", elements / zeroDegree(),
                  arena.optimizer_elements);
  const int64_t state =
      3 * arena.optimizer_elements * width(program.master_dtype);
  if (arena.optimizer_bytes != state)
    return differ("optimizer_bytes", state, arena.optimizer_bytes);
  const int64_t streams =
      (2 * int64_t(!isLast()) + int64_t(!isFirst())) * alignArena(streamBytes);
  if (arena.p2p_bytes < streams)
    return differ("p2p_bytes", streams, arena.p2p_bytes);
  if (arena.gradient_stream + 2 * alignArena(streamBytes) >
      arena.workspace_bytes)
    return differ("workspace_bytes",
                  arena.gradient_stream + 2 * alignArena(streamBytes),
                  arena.workspace_bytes);
  return "";
}

void Stage::forEachParameter(
    const std::function<void(const ParameterView &)> &visit) const {
  for (const Layer &layer : layers)
    for (int32_t i = 0; i < layer.kind->block.num_parameters; ++i)
      visit({&layer.kind->block, &layer.kind->block.parameters[i],
             layer.elements, layer.number});
  for (int32_t i = 0; i < tables.shared.num_parameters; ++i)
    visit({&tables.shared, &tables.shared.parameters[i], sharedElements, -1});
}

ElementRange Stage::ownedRange(const ParameterView &view) const {
  const sw_rt_parameter &parameter = *view.parameter;
  uint32_t sharding = axis(program.pp_axis);
  for (int32_t i = 0; i < parameter.ndims; ++i)
    sharding |= parameter.dims[i].axes;
  if (program.zero)
    sharding |= dpAxis();
  // Ranks that differ on the other axes hold the same.
  if (mesh.coordinate(rank, mesh.all() & ~sharding) != 0)
    return {0, 0};
  if (view.layer < 0 && tables.shared_owners &&
      std::countr_zero(tables.shared_owners) != static_cast<int>(index))
    return {0, 0};
  return stateRange(view);
}

ElementRange Stage::stateRange(const ParameterView &view) const {
  const int64_t elements = view.localElements();
  if (zeroDegree() == 1)
    return {0, elements};
  const sw_rt_bucket &bucket = view.bucket();
  const int64_t shard = bucket.elements / zeroDegree();
  const int64_t start = bucket.offset +
                        shard * mesh.coordinate(rank, dpAxis()) -
                        view.parameter->offset;
  const int64_t first = std::clamp<int64_t>(start, 0, elements);
  return {first, std::clamp<int64_t>(start + shard, first, elements)};
}

int64_t Stage::stateOffset(const ParameterView &view) const {
  const sw_rt_bucket &bucket = view.bucket();
  const int64_t zero = zeroDegree();
  const int64_t me = zero > 1 ? mesh.coordinate(rank, dpAxis()) : 0;
  return (view.blockElements + bucket.offset) / zero + view.parameter->offset -
         bucket.offset - me * (bucket.elements / zero);
}

Stage::Line Stage::lineAt(const ParameterView &view, int64_t local,
                          int64_t last) const {
  const sw_rt_parameter &parameter = *view.parameter;
  Line line{local, 1, 0, parameter.hf_offset, 0};
  if (parameter.ndims == 0)
    return line;
  bool padding = false;
  int64_t rest = local;
  for (int32_t i = parameter.ndims; i-- > 0;) {
    const sw_rt_dim &dim = parameter.dims[i];
    const int64_t at = rest % dim.local;
    rest /= dim.local;
    const int64_t global = mesh.coordinate(rank, dim.axes) * dim.local + at;
    line.hf += global * dim.hf_stride;
    if (i + 1 < parameter.ndims) {
      padding = padding || global >= dim.global;
      continue;
    }
    // The innermost dim: the rest of its line, as far as it is wanted.
    const int64_t length = std::min(dim.local - at, last - local);
    line.count = std::clamp<int64_t>(dim.global - global, 0, length);
    line.padding = length - line.count;
    line.stride = dim.hf_stride;
  }
  if (padding) {
    line.padding += line.count;
    line.count = 0;
  }
  return line;
}

} // namespace shardwright::runtime

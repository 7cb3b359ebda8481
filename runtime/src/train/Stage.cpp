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
  int32_t positions = 0;
  for (int32_t i = 0; i < program.num_stages; ++i)
    positions += program.stages[i].num_chunks;
  int64_t elements = 0;
  for (int32_t c = 0; c < tables.num_chunks; ++c) {
    const sw_rt_chunk &table = tables.chunks[c];
    Chunk chunk{&table, layers.size(), 0, table.position == 0,
                table.position + 1 == positions};
    int64_t slot = 0;
    for (int32_t r = 0; r < table.num_runs; ++r) {
      const sw_rt_run &run = table.runs[r];
      for (int32_t i = 0; i < run.count; ++i) {
        Layer layer{&program.kinds[run.kind], run.first_layer + i, elements, -1,
                    0};
        // The first layer of the model reads tokens, not a stream.
        if (!chunk.isFirst || layers.size() != chunk.firstLayer) {
          layer.streamOffset = slot;
          slot += alignArena(streamBytes);
        }
        layer.savedOffset = slot;
        slot += alignArena(layer.kind->saved_bytes);
        elements += layer.kind->block.elements;
        layers.push_back(layer);
      }
    }
    chunk.endLayer = layers.size();
    chunks.push_back(chunk);
  }
  sharedElements = elements;
}

bool Stage::has(bool Chunk::*end) const {
  return std::any_of(chunks.begin(), chunks.end(),
                     [&](const Chunk &chunk) { return chunk.*end; });
}

int Stage::rankOn(int32_t peer) const {
  int64_t stride = 1;
  for (size_t i = mesh.getAxes().size();
       i-- > static_cast<size_t>(program.pp_axis) + 1;)
    stride *= mesh.getAxes()[i].size;
  return static_cast<int>(rank + (peer - index) * stride);
}

std::string Stage::checkActions() const {
  const int64_t buffers =
      tables.arena.p2p_bytes / std::max<int64_t>(1, alignArena(streamBytes));
  for (int32_t i = 0; i < tables.num_actions; ++i) {
    const sw_rt_action &action = tables.actions[i];
    const auto outside = [&](const char *what, int64_t most, int32_t got) {
      return "expected " + std::string(what) + " of action " +
             std::to_string(i) + " of stage " + std::to_string(index) +
             " to be below " + std::to_string(most) +
             ", but the program's tables say " + std::to_string(got);
    };
    if (action.chunk < 0 || action.chunk >= tables.num_chunks)
      return outside("chunk", tables.num_chunks, action.chunk);
    if (action.microbatch < 0 || action.microbatch >= program.microbatches)
      return outside("microbatch", program.microbatches, action.microbatch);
    const int32_t slots = tables.chunks[action.chunk].num_slots;
    if (action.slot < 0 || action.slot >= slots)
      return outside("slot", slots, action.slot);
    for (const int32_t buffer : {action.takes, action.leaves})
      if (buffer < -1 || buffer >= buffers)
        return outside("a border buffer", buffers, buffer);
    const bool isTransfer = action.kind >= SW_RT_ACT_SEND_FORWARD &&
                            action.kind <= SW_RT_ACT_RECV_BACKWARD;
    const bool sends = action.kind == SW_RT_ACT_SEND_FORWARD ||
                       action.kind == SW_RT_ACT_SEND_BACKWARD;
    if (isTransfer && (action.peer < 0 || action.peer >= program.num_stages))
      return outside("peer", program.num_stages, action.peer);
    if ((sends && action.takes < 0) ||
        (action.kind == SW_RT_ACT_RECV_BACKWARD && action.leaves < 0))
      return outside("the border buffer", buffers, -1);
  }
  return "";
}

std::string Stage::check() const {
  auto differ = [&](const char *what, int64_t wanted, int64_t got) {
    return "expected " + std::string(what) + " of stage " +
           std::to_string(index) + " to be " + std::to_string(wanted) +
           ", but the program's tables say " + std::to_string(got);
  };
  const sw_rt_arena &arena = tables.arena;
  int64_t slots = 0;
  for (const Chunk &chunk : chunks) {
    int64_t slot = 0;
    if (chunk.endLayer > chunk.firstLayer) {
      const Layer &last = layers[chunk.endLayer - 1];
      slot = last.savedOffset + alignArena(last.kind->saved_bytes);
    }
    if (slot != chunk.tables->slot_bytes)
      return differ("slot_bytes", slot, chunk.tables->slot_bytes);
    // Chunks whose slots are of one size share them.
    const auto same =
        std::find_if(chunks.begin(), chunks.end(), [&](const Chunk &other) {
          return other.tables->slot_bytes == slot;
        });
    const int64_t first =
        same->tables == chunk.tables ? slots : same->tables->first_slot;
    if (first != chunk.tables->first_slot)
      return differ("first_slot", first, chunk.tables->first_slot);
    if (same->tables->num_slots != chunk.tables->num_slots)
      return differ("num_slots", same->tables->num_slots,
                    chunk.tables->num_slots);
    if (same->tables == chunk.tables)
      slots += chunk.tables->num_slots * slot;
  }
  if (slots != arena.slots_bytes)
    return differ("slots_bytes", slots, arena.slots_bytes);
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
  if (arena.gradient_stream + 2 * alignArena(streamBytes) >
      arena.workspace_bytes)
    return differ("workspace_bytes",
                  arena.gradient_stream + 2 * alignArena(streamBytes),
                  arena.workspace_bytes);
  return checkActions();
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

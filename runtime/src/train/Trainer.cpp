//===- Trainer.cpp - Actions of a step: forward, backward, transfers ------===//
#include "runtime/src/train/Trainer.h"
#include "runtime/src/Convert.h"
#include "runtime/src/train/Init.h"

#include <cmath>
#include <cstring>

namespace shardwright::runtime {

/// The first of `count` elements that is no finite number, or nothing.
static std::string notFinite(sw_rt_dtype dtype, const char *data,
                             int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    double value = 0;
    if (dtype == SW_RT_F64) {
      std::memcpy(&value, data + i * 8, 8);
    } else {
      float narrow = 0;
      std::memcpy(&narrow, data + i * 4, 4);
      value = narrow;
    }
    if (!std::isfinite(value))
      return std::isnan(value) ? "nan" : "inf";
  }
  return {};
}

static int64_t widthOf(int32_t dtype) {
  return byteWidth(static_cast<sw_rt_dtype>(dtype));
}

Trainer::Trainer(sw_rt_context &context, const sw_rt_program &program,
                 const Options &options, const TokenFile &data)
    : context(context), program(program), options(options), data(data),
      batches(data, options.seed, program.sequence, program.global_batch),
      stage(program, context.mesh, context.rank()),
      paramWidth(widthOf(program.param_dtype)),
      gradWidth(widthOf(program.grad_dtype)),
      masterWidth(widthOf(program.master_dtype)),
      inputBytes(alignArena(program.sequence * program.micro_batch * 4)) {
  if (stage.isFirst() || stage.isLast())
    batch.resize(static_cast<size_t>(tokensAt(program.microbatches)));
  context.group(context.mesh.all()).axesName = "world";
}

sw_rt_status Trainer::prepare(const Checkpoint *checkpoint) {
  std::string why = stage.check();
  if (!why.empty())
    return context.fail(SW_RT_INVALID_ARGUMENT, why);
  lastBackwards.assign(stage.chunks.size(), nullptr);
  for (int32_t i = 0; i < stage.tables.num_actions; ++i)
    if (const sw_rt_action &action = stage.tables.actions[i];
        action.kind == SW_RT_ACT_BACKWARD_DATA)
      lastBackwards[static_cast<size_t>(action.chunk)] = &action;
  if (!arena.create(stage.tables.arena, *context.device, why) ||
      !inputs.create(*context.device, static_cast<int64_t>(batch.size()) + 8,
                     why))
    return context.fail(SW_RT_OUT_OF_MEMORY, why);
  context.staging.memory = arena.at(Arena::Comm);
  context.staging.limit = arena.bytes(Arena::Comm);
  context.staging.grows = !context.device->isHost();
  return initialState(checkpoint);
}

// Parameters are drawn in the precision of their master copy. This rank's shard
// of every bucket becomes the master; m and v are 0. A checkpoint has its masters
// instead of what is drawn: the padding stays.
sw_rt_status Trainer::initialState(const Checkpoint *checkpoint) {
  const sw_rt_dtype dtype = static_cast<sw_rt_dtype>(program.master_dtype);
  const int64_t elements = stage.tables.arena.elements;
  Mirror parameters(*context.device, arena.at(Arena::Parameters),
                    arena.bytes(Arena::Parameters), /*read=*/false);
  std::vector<char> drawn;
  char *source = parameters.data();
  const auto draw = [&] {
    initParameters(stage, options.seed, dtype, source);
    if (checkpoint)
      stage.forEachParameter([&](const ParameterView &view) {
        load(*checkpoint, "master:", view, {0, view.localElements()},
             source + (view.blockElements + view.parameter->offset) *
                          masterWidth);
      });
  };
  if (program.param_dtype == program.master_dtype) {
    draw();
  } else {
    drawn.resize(static_cast<size_t>(elements * masterWidth));
    source = drawn.data();
    draw();
    if (!convert(dtype, source, static_cast<sw_rt_dtype>(program.param_dtype),
                 parameters.data(), elements))
      return context.fail(
          SW_RT_UNSUPPORTED,
          std::string("expected parameters in f64, f32 or bf16 with a master "
                      "in f32 or f64, but got ") +
              name(static_cast<sw_rt_dtype>(program.param_dtype)) + " with " +
              name(dtype));
  }
  if (context.status != SW_RT_OK)
    return context.status;
  if (sw_rt_status status = parameters.write())
    return status;
  char *master = arena.at(Arena::Optimizer);
  const int64_t zero = stage.zeroDegree();
  const int64_t me =
      zero > 1 ? context.mesh.coordinate(context.rank(), stage.dpAxis()) : 0;
  if (sw_rt_status status =
          context.device->fill(master, 0, arena.bytes(Arena::Optimizer)))
    return status;
  const auto masters = [&](const sw_rt_block &block, int64_t first, uint32_t) {
    for (int32_t b = 0; b < block.num_buckets; ++b) {
      const sw_rt_bucket &bucket = block.buckets[b];
      const int64_t shard = bucket.elements / zero;
      const int64_t at = first + bucket.offset;
      if (sw_rt_status status = context.device->toDevice(
              master + at / zero * masterWidth,
              source + (at + me * shard) * masterWidth, shard * masterWidth))
        return status;
    }
    return SW_RT_OK;
  };
  const sw_rt_status status = forEachBlock(masters);
  return status != SW_RT_OK || !checkpoint ? status : loadMoments(*checkpoint);
}

sw_rt_status Trainer::loadMoments(const Checkpoint &checkpoint) {
  Mirror state(*context.device, optimizer(), arena.bytes(Arena::Optimizer),
               /*read=*/true);
  if (state.getStatus() != SW_RT_OK)
    return state.getStatus();
  stage.forEachParameter([&](const ParameterView &view) {
    for (int part : {1, 2})
      load(checkpoint, statePrefixes[part], view, stage.stateRange(view),
           state.data() + (part * stage.tables.arena.optimizer_elements +
                           stage.stateOffset(view)) *
                              masterWidth);
  });
  return context.status != SW_RT_OK ? context.status : state.write();
}

void Trainer::load(const Checkpoint &checkpoint, const char *prefix,
                   const ParameterView &view, ElementRange range,
                   char *local) {
  if (context.status != SW_RT_OK)
    return;
  copyFromWhole(stage, view, range, masterWidth,
                checkpoint.at(prefix, view.name()), local);
  const std::string found = notFinite(
      static_cast<sw_rt_dtype>(program.master_dtype),
      local + range.first * masterWidth, range.last - range.first);
  if (!found.empty())
    context.fail(SW_RT_IO, "expected '" + options.load +
                               "' to be a checkpoint of finite numbers, but '" +
                               prefix + view.name() + "' has " + found);
}

sw_rt_status Trainer::step(int64_t stepNumber, StepResult &out) {
  number = stepNumber;
  if (sw_rt_status status = loadBatch())
    return status;
  const int32_t count = stage.tables.num_actions;
  int32_t next = 0;
  // Up to its update a step is the same work on other tokens. A trace shows the
  // calls, so they must be made.
  const StepMode mode =
      context.device->beginStep(/*mayRecord=*/!context.trace.isEnabled());
  if (mode == StepMode::Replay) {
    while (next < count && stage.tables.actions[next].kind != SW_RT_ACT_STEP)
      ++next;
    context.ledger = recorded;
    if (sw_rt_status status = context.device->replay())
      return status;
  } else {
    if (sw_rt_status status = context.device->fill(loss(), 0, 8))
      return status;
    if (sw_rt_status status = context.device->fill(
            arena.at(Arena::Gradients), 0, arena.bytes(Arena::Gradients)))
      return status;
    for (; next < count && stage.tables.actions[next].kind != SW_RT_ACT_STEP;
         ++next)
      if (sw_rt_status status = run(stage.tables.actions[next]))
        return status;
    for (Lane lane : backgroundLanes)
      if (sw_rt_status status = context.device->await(lane))
        return status;
    recorded = context.ledger;
    if (mode == StepMode::Record)
      if (sw_rt_status status = context.device->endRecording())
        return status;
  }
  for (; next < count; ++next)
    if (sw_rt_status status = run(stage.tables.actions[next]))
      return status;
  out = result;
  return SW_RT_OK;
}

sw_rt_status Trainer::run(const sw_rt_action &action) {
  const int64_t start = nowNanoseconds();
  const sw_rt_dtype dtype = static_cast<sw_rt_dtype>(program.compute_dtype);
  const int64_t count = program.stream_elements;
  const char *name = "";
  sw_rt_status status = SW_RT_OK;
  switch (action.kind) {
  case SW_RT_ACT_FORWARD:
    name = "forward";
    status = forward(action);
    break;
  case SW_RT_ACT_BACKWARD_DATA:
    name = "backward";
    status = backward(action);
    break;
  case SW_RT_ACT_BACKWARD_WEIGHT: // done with the data gradient, layer by layer
    return SW_RT_OK;
  case SW_RT_ACT_SEND_FORWARD:
    name = "send_forward";
    context.phase = SW_RT_FORWARD;
    status = context.device->collective(
        {Call::Send, nullptr, stage.rankOn(action.peer), dtype, SW_RT_SUM,
         border(action.takes), nullptr, count, Lane::StreamSends});
    break;
  case SW_RT_ACT_RECV_FORWARD:
    name = "recv_forward";
    context.phase = SW_RT_FORWARD;
    status = sw_rt_recv(&context, stage.rankOn(action.peer), dtype,
                        stream(chunkOf(action).firstLayer, action), count);
    break;
  case SW_RT_ACT_SEND_BACKWARD:
    name = "send_backward";
    context.phase = SW_RT_DATA_GRAD;
    status = context.device->collective(
        {Call::Send, nullptr, stage.rankOn(action.peer), dtype, SW_RT_SUM,
         border(action.takes), nullptr, count, Lane::GradientSends});
    break;
  case SW_RT_ACT_RECV_BACKWARD:
    name = "recv_backward";
    context.phase = SW_RT_DATA_GRAD;
    status = sw_rt_recv(&context, stage.rankOn(action.peer), dtype,
                        border(action.leaves), count);
    break;
  case SW_RT_ACT_REDUCE:
    name = "reduce";
    status = reduceGradients();
    break;
  case SW_RT_ACT_STEP:
    name = "step";
    status = finishStep();
    break;
  default:
    return context.fail(SW_RT_INVALID_ARGUMENT,
                        "expected an action kind from 0 to 8, but the "
                        "program's table has " +
                            std::to_string(action.kind));
  }
  if (context.trace.isEnabled())
    context.trace.add(name, "action", start,
                      "{\"microbatch\": " + std::to_string(action.microbatch) +
                          (stage.chunks.size() > 1
                               ? ", \"chunk\": " + std::to_string(action.chunk)
                               : "") +
                          ", \"step\": " + std::to_string(number) + "}");
  return status;
}

char *Trainer::border(int32_t number) const {
  return number < 0
             ? nullptr
             : arena.at(Arena::P2p) + number * alignArena(stage.streamBytes);
}

char *Trainer::slot(const sw_rt_action &action) const {
  const sw_rt_chunk &chunk = *chunkOf(action).tables;
  return arena.at(Arena::Slots) + chunk.first_slot +
         action.slot * chunk.slot_bytes;
}

char *Trainer::stream(size_t layer, const sw_rt_action &action) const {
  const int64_t offset = stage.layers[layer].streamOffset;
  return offset < 0 ? nullptr : slot(action) + offset;
}

char *Trainer::streamOut(size_t layer, const sw_rt_action &action) const {
  return layer + 1 < chunkOf(action).endLayer ? stream(layer + 1, action)
                                              : border(action.leaves);
}

// The gradient passes between two buffers: layer i leaves it in buffer i mod 2.
char *Trainer::gradientOut(size_t layer, const sw_rt_action &action) const {
  if (stage.layers[layer].streamOffset < 0)
    return nullptr;
  if (layer == chunkOf(action).firstLayer)
    return border(action.leaves);
  return arena.at(Arena::Workspace) + stage.tables.arena.gradient_stream +
         static_cast<int64_t>(layer % 2) * alignArena(stage.streamBytes);
}

char *Trainer::gradientIn(size_t layer, const sw_rt_action &action) const {
  return layer + 1 < chunkOf(action).endLayer ? gradientOut(layer + 1, action)
                                              : border(action.takes);
}

sw_rt_frame Trainer::frameOf(size_t index, const sw_rt_action &action) {
  const Layer &layer = stage.layers[index];
  sw_rt_frame frame{};
  frame.context = &context;
  char *parameters = arena.at(Arena::Parameters);
  char *gradients = arena.at(Arena::Gradients);
  frame.base[SW_RT_BASE_PARAMS] = parameters + layer.elements * paramWidth;
  frame.base[SW_RT_BASE_GRADS] = gradients + layer.elements * gradWidth;
  frame.base[SW_RT_BASE_SHARED_PARAMS] =
      parameters + stage.sharedElements * paramWidth;
  frame.base[SW_RT_BASE_SHARED_GRADS] =
      gradients + stage.sharedElements * gradWidth;
  frame.base[SW_RT_BASE_STREAM_IN] = stream(index, action);
  frame.base[SW_RT_BASE_STREAM_OUT] = streamOut(index, action);
  frame.base[SW_RT_BASE_GRAD_IN] = gradientIn(index, action);
  frame.base[SW_RT_BASE_GRAD_OUT] = gradientOut(index, action);
  frame.base[SW_RT_BASE_SAVED] = slot(action) + layer.savedOffset;
  frame.base[SW_RT_BASE_WORKSPACE] = arena.at(Arena::Workspace);
  frame.base[SW_RT_BASE_TOKENS] = inputs.at() + tokensAt(action.microbatch);
  frame.base[SW_RT_BASE_LABELS] = frame.base[SW_RT_BASE_TOKENS] + inputBytes;
  frame.base[SW_RT_BASE_LOSS] = loss();
  return frame;
}

sw_rt_status Trainer::call(sw_rt_function function, sw_rt_phase phase,
                           const Layer &layer, sw_rt_frame &frame) {
  if (!function)
    return SW_RT_OK;
  const int64_t start = nowNanoseconds();
  context.phase = phase;
  sw_rt_status status = function(&frame);
  // Compute functions return nothing: they leave their failure in the context.
  if (status == SW_RT_OK)
    status = context.status;
  if (context.trace.isEnabled())
    context.trace.add(layer.kind->name, name(phase), start,
                      "{\"layer\": " + std::to_string(layer.number) + "}");
  return status;
}

sw_rt_status Trainer::loadBatch() {
  if (batch.empty()) // neither first nor last stage
    return SW_RT_OK;
  const int64_t micro = program.micro_batch;
  const int64_t me =
      context.mesh.coordinate(context.rank(), stage.dpAxis()) * micro;
  for (int64_t microbatch = 0; microbatch < program.microbatches;
       ++microbatch) {
    char *at = batch.data() + tokensAt(microbatch);
    const int32_t outside =
        batches.fill(number, microbatch * stage.dpRanks() * micro + me, micro,
                     program.vocab, reinterpret_cast<int32_t *>(at),
                     reinterpret_cast<int32_t *>(at + inputBytes));
    if (outside >= 0)
      return context.fail(SW_RT_IO, "expected tokens of '" + data.getPath() +
                                        "' to be below the vocabulary of " +
                                        std::to_string(program.vocab) +
                                        ", but got " + std::to_string(outside));
  }
  return context.device->toDevice(inputs.at(), batch.data(),
                                  static_cast<int64_t>(batch.size()));
}

sw_rt_status Trainer::forward(const sw_rt_action &action) {
  // The stream that leaves lies where the next one will.
  if (sw_rt_status status = context.device->await(Lane::StreamSends))
    return status;
  const Chunk &chunk = chunkOf(action);
  for (size_t i = chunk.firstLayer; i < chunk.endLayer; ++i) {
    sw_rt_frame frame = frameOf(i, action);
    if (sw_rt_status status = call(stage.layers[i].kind->forward, SW_RT_FORWARD,
                                   stage.layers[i], frame))
      return status;
  }
  return SW_RT_OK;
}

sw_rt_status Trainer::backward(const sw_rt_action &action) {
  if (sw_rt_status status = context.device->await(Lane::GradientSends))
    return status;
  const Chunk &chunk = chunkOf(action);
  for (size_t i = chunk.endLayer; i-- > chunk.firstLayer;) {
    const Layer &layer = stage.layers[i];
    sw_rt_frame frame = frameOf(i, action);
    // Values kept for the weight gradient live in the workspace until the next
    // layer, so it follows at once.
    if (sw_rt_status status =
            call(layer.kind->data_grad, SW_RT_DATA_GRAD, layer, frame))
      return status;
    if (sw_rt_status status =
            call(layer.kind->weight_grad, SW_RT_WEIGHT_GRAD, layer, frame))
      return status;
    if (!reducesEarly(action))
      continue;
    context.phase = SW_RT_REDUCE;
    if (sw_rt_status status =
            reduceBlock(layer.kind->block, layer.elements, 0))
      return status;
  }
  return SW_RT_OK;
}

sw_rt_status Trainer::checkArena() {
  const std::string parts = arena.damaged();
  if (parts.empty())
    return SW_RT_OK;
  return context.fail(SW_RT_INVALID_ARGUMENT,
                      "expected the canaries around the parts of the arena of "
                      "rank " +
                          std::to_string(context.rank()) +
                          " to be whole, but these are damaged: " + parts);
}

} // namespace shardwright::runtime

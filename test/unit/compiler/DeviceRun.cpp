//===- DeviceRun.cpp - Runs device code without a device ------------------===//
#include "DeviceRun.h"

#include "DeviceAsHost.h"
#include "RowJit.h"

#include "compiler/Codegen/DeviceRows.h"
#include "compiler/Codegen/DeviceTarget.h"

#include "llvm/IR/LLVMContext.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include <ucontext.h>

using namespace llvm;

namespace shardwright::codegen {

namespace {

/// Order in which threads run between two meetings.
enum class ThreadOrder { Forward, Backward, Shuffled };

/// The threads of the block that runs.
class Block {
public:
  Block(int threads, ThreadOrder order);
  void run(Entry *entry, void **arguments, int block);

  // Called by threads.
  int thread() const { return current; }
  int block() const { return number; }
  void meet() { wait(State::Meets); }
  float shuffle(float value, int distance) {
    fibers[current].value = value;
    fibers[current].distance = distance;
    wait(State::Shuffles);
    return fibers[current].value;
  }
  static Block *running;

private:
  enum class State { Ready, Meets, Shuffles, Done };
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
    State state = State::Ready;
    float value = 0;
    int distance = 0;
  };
  static void start() {
    running->entry(running->arguments, 0, 0);
    running->wait(State::Done);
  }
  void wait(State state) {
    fibers[current].state = state;
    swapcontext(&fibers[current].context, &scheduler);
  }
  bool areAll(int first, int last, State state) const {
    return std::all_of(fibers.begin() + first, fibers.begin() + last,
                       [&](const Fiber &f) { return f.state == state; });
  }
  bool exchangeWarps();

  std::vector<Fiber> fibers;
  std::vector<int> order;
  ucontext_t scheduler;
  Entry *entry = nullptr;
  void **arguments = nullptr;
  int current = 0, number = 0;
};
Block *Block::running = nullptr;

} // namespace

Block::Block(int threads, ThreadOrder wanted)
    : fibers(threads), order(threads) {
  std::iota(order.begin(), order.end(), 0);
  if (wanted == ThreadOrder::Backward)
    std::reverse(order.begin(), order.end());
  if (wanted == ThreadOrder::Shuffled)
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (Fiber &fiber : fibers)
    fiber.stack.resize(1 << 15);
}

/// Lets whole warps that shuffle go on, with the values of their partners.
bool Block::exchangeWarps() {
  bool any = false;
  const int warp = static_cast<int>(kWarp);
  for (int first = 0; first < static_cast<int>(fibers.size()); first += warp) {
    if (!areAll(first, first + warp, State::Shuffles))
      continue;
    std::vector<float> values;
    for (int lane = 0; lane < warp; ++lane) {
      const int distance = fibers[first + lane].distance;
      if (distance != fibers[first].distance)
        throw std::runtime_error("lanes shuffle over different distances");
      values.push_back(fibers[first + (lane ^ distance)].value);
    }
    for (int lane = 0; lane < warp; ++lane) {
      fibers[first + lane].value = values[lane];
      fibers[first + lane].state = State::Ready;
    }
    any = true;
  }
  return any;
}

void Block::run(Entry *kernel, void **kernelArguments, int block) {
  running = this;
  entry = kernel;
  arguments = kernelArguments;
  number = block;
  for (Fiber &fiber : fibers) {
    fiber.state = State::Ready;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, &Block::start, 0);
  }
  const int count = static_cast<int>(fibers.size());
  while (!areAll(0, count, State::Done)) {
    for (int thread : order)
      if (fibers[thread].state == State::Ready) {
        current = thread;
        swapcontext(&scheduler, &fibers[thread].context);
      }
    if (exchangeWarps() || areAll(0, count, State::Done))
      continue;
    if (!areAll(0, count, State::Meets))
      throw std::runtime_error("threads of a block part at a barrier");
    for (Fiber &fiber : fibers)
      fiber.state = State::Ready;
  }
}

extern "C" {
static int32_t deviceThread() { return Block::running->thread(); }
static int32_t deviceBlock() { return Block::running->block(); }
static void deviceMeet(int32_t) { Block::running->meet(); }
static float deviceShuffle(int32_t, float value, int32_t distance, int32_t) {
  return Block::running->shuffle(value, distance);
}
}

static const std::vector<std::pair<std::string, void *>> kSymbols = {
    {"device_thread", reinterpret_cast<void *>(&deviceThread)},
    {"device_block", reinterpret_cast<void *>(&deviceBlock)},
    {"device_meet", reinterpret_cast<void *>(&deviceMeet)},
    {"device_shuffle", reinterpret_cast<void *>(&deviceShuffle)}};

static void *asArgument(int64_t value) {
  return reinterpret_cast<void *>(static_cast<intptr_t>(value));
}

static Buffers valuesOf(std::vector<Guarded> &guarded, size_t count) {
  Buffers result;
  for (size_t i = 0; i < count; ++i)
    result.push_back(guarded[i].values());
  return result;
}

std::vector<Buffers> executeOnDevice(const RowRun &run) {
  LLVMContext context;
  Module module("test", context);
  const DeviceKernel kernel = emitDeviceKernel(run.program, module);
  replaceDeviceIntrinsics(module);
  std::vector<std::string> entries;
  for (const DeviceStep &step : kernel.steps)
    entries.push_back(emitDeviceEntry(module, step.entry));
  Jit jit(module, kSymbols);

  std::vector<Buffers> results;
  for (ThreadOrder order : {ThreadOrder::Forward, ThreadOrder::Backward,
                            ThreadOrder::Shuffled}) {
    std::vector<Guarded> guarded = guardedBuffers(run);
    guarded.emplace_back( // undefined before the first step: NaN
        std::vector<double>(kernel.scratchBytes / 4, NAN), Element::F32);
    std::vector<void *> arguments;
    for (Guarded &buffer : guarded)
      arguments.push_back(buffer.data());
    arguments.push_back(asArgument(run.positionOrigin));
    arguments.push_back(asArgument(run.columnOrigin));
    for (size_t i = 0; i < kernel.steps.size(); ++i) {
      Block block(kernel.steps[i].block, order);
      for (uint32_t number = 0; number < kernel.steps[i].grid; ++number)
        block.run(jit.entry(entries[i]), arguments.data(), number);
    }
    results.push_back(valuesOf(guarded, guarded.size() - 1));
  }
  return results;
}

Buffers executeUpdateOnDevice(const UpdateTypes &types, const Buffers &buffers,
                              const std::vector<double> &scalars) {
  LLVMContext context;
  Module module("test", context);
  const DeviceUpdate update = emitDeviceUpdate(types, "update", module);
  replaceDeviceIntrinsics(module);
  const std::string entry = emitDeviceEntry(module, update.entry);
  Jit jit(module, kSymbols);
  const Element elements[] = {types.master, types.master, types.master,
                              types.gradient, types.parameter};
  std::vector<Guarded> guarded;
  for (auto [buffer, element] : zip(buffers, elements))
    guarded.emplace_back(buffer, element);
  Guarded last(scalars, Element::F64);
  std::vector<void *> arguments;
  for (Guarded &buffer : guarded)
    arguments.push_back(buffer.data());
  const int64_t count = static_cast<int64_t>(buffers[0].size());
  arguments.push_back(asArgument(count));
  arguments.push_back(last.data());
  Block block(update.block, ThreadOrder::Forward);
  for (int64_t first = 0; first < count; first += update.elementsPerBlock)
    block.run(jit.entry(entry), arguments.data(),
              static_cast<int>(first / update.elementsPerBlock));
  return valuesOf(guarded, guarded.size());
}

} // namespace shardwright::codegen

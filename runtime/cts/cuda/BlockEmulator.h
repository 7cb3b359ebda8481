//===- BlockEmulator.h - Threads of a CUDA block that take turns -*- C++ -*-==//
//
// Runs kernels on the CPU, so that their arithmetic and their synchronization
// are tested where there is no GPU. Every thread of a block is a context of its
// own, which runs until it comes to a barrier or a shuffle of its warp. It
// knows what Kernels.cu uses of CUDA and nothing else; speed and memory models
// are not its business.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_CUDA_BLOCKEMULATOR_H
#define SHARDWRIGHT_RUNTIME_CTS_CUDA_BLOCKEMULATOR_H

#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include <ucontext.h>

namespace shardwright::runtime::cts {

struct Index {
  unsigned x;
};

class BlockEmulator {
public:
  static BlockEmulator &get() {
    static BlockEmulator one;
    return one;
  }

  /// Runs `kernel` as `grid` blocks of `block` threads.
  void launch(unsigned grid, unsigned block,
              const std::function<void()> &kernel) {
    size = block;
    for (blockIndex = 0; blockIndex < grid; ++blockIndex)
      runBlock(kernel);
  }

  unsigned threadIndex() const { return current; }
  unsigned blockNumber() const { return blockIndex; }
  unsigned blockSize() const { return size; }

  void barrier() {
    Thread &me = threads[current];
    ++me.barriers;
    while (!allHave([&](const Thread &t) { return t.barriers >= me.barriers; }))
      yield();
  }

  /// The value of lane (own lane ^ mask).
  template <typename T> T shuffleXor(T value, unsigned mask) {
    static_assert(sizeof(T) <= 8);
    Thread &me = threads[current];
    const uint64_t turn = ++me.shuffles;
    std::memcpy(&me.slot[turn % 2], &value, sizeof(T));
    const unsigned first = current / 32 * 32;
    for (unsigned lane = first; lane < first + 32; ++lane)
      while (threads[lane].shuffles < turn) {
        if (threads[lane].done)
          throw std::logic_error("a lane left before a shuffle of its warp");
        yield();
      }
    T result;
    std::memcpy(&result,
                &threads[first + ((current - first) ^ mask)].slot[turn % 2],
                sizeof(T));
    return result;
  }

private:
  struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    bool done = false;
    uint64_t barriers = 0, shuffles = 0;
    uint64_t slot[2] = {};
  };

  template <typename Predicate> bool allHave(const Predicate &predicate) const {
    for (const Thread &thread : threads)
      if (!thread.done && !predicate(thread))
        return false;
    return true;
  }

  static void enter() {
    BlockEmulator &self = get();
    (*self.kernel)();
    self.threads[self.current].done = true;
    self.yield();
  }

  void yield() { swapcontext(&threads[current].context, &scheduler); }

  void runBlock(const std::function<void()> &body) {
    kernel = &body;
    threads.assign(size, Thread());
    for (Thread &thread : threads) {
      thread.stack.resize(64 << 10);
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.data();
      thread.context.uc_stack.ss_size = thread.stack.size();
      thread.context.uc_link = &scheduler;
      makecontext(&thread.context, &BlockEmulator::enter, 0);
    }
    for (bool isLeft = true; isLeft;) {
      isLeft = false;
      for (current = 0; current < size; ++current)
        if (!threads[current].done) {
          swapcontext(&scheduler, &threads[current].context);
          isLeft = true;
        }
    }
  }

  const std::function<void()> *kernel = nullptr;
  std::vector<Thread> threads;
  ucontext_t scheduler{};
  unsigned size = 0, current = 0, blockIndex = 0;
};

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_CUDA_BLOCKEMULATOR_H

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

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#ifndef __x86_64__
#error "the emulator switches threads on x86-64"
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/// Keeps what a callee must keep on the stack whose top goes to `*from`, and
/// goes on where `to` was left. swapcontext would make two system calls, millions
/// of times.
extern "C" void sw_cts_switch(void **from, void *to);
__asm__(".text\n"
        ".weak sw_cts_switch\n"
        ".type sw_cts_switch, @function\n"
        "sw_cts_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n"
        "  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n"
        "  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size sw_cts_switch, .-sw_cts_switch\n");

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
  struct Context {
    void *top = nullptr; ///< of the stack, while another one runs
#ifdef __SANITIZE_THREAD__
    void *fiber = nullptr; ///< ThreadSanitizer follows calls by context
#endif
  };
  struct Thread : Context {
    std::unique_ptr<char[]> stack; ///< kept from block to block, as its context
    bool done = false;
    uint64_t barriers = 0, shuffles = 0;
    uint64_t slot[2] = {};
  };

  template <typename Predicate> bool allHave(const Predicate &predicate) const {
    for (unsigned i = 0; i < size; ++i)
      if (!threads[i].done && !predicate(threads[i]))
        return false;
    return true;
  }

  static void change(Context &from, const Context &to) {
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(to.fiber, 0);
#endif
    sw_cts_switch(&from.top, to.top);
  }

  /// The life of a thread: one kernel after the other.
  [[noreturn]] static void enter() {
    BlockEmulator &self = get();
    for (;;) {
      (*self.kernel)();
      self.threads[self.current].done = true;
      self.yield();
    }
  }

  void yield() { change(threads[current], scheduler); }

  static void start(Thread &thread) {
    constexpr size_t stackBytes = 64 << 10;
    thread.stack.reset(new char[stackBytes]);
    // Six registers, then where the first switch returns to; there the stack is
    // 8 off a multiple of 16, as behind a call.
    void **top = reinterpret_cast<void **>(thread.stack.get() + stackBytes - 64);
    top[6] = reinterpret_cast<void *>(&BlockEmulator::enter);
    top[7] = nullptr;
    thread.top = top;
#ifdef __SANITIZE_THREAD__
    thread.fiber = __tsan_create_fiber(0);
#endif
  }

  void runBlock(const std::function<void()> &body) {
    kernel = &body;
#ifdef __SANITIZE_THREAD__
    scheduler.fiber = __tsan_get_current_fiber();
#endif
    // Threads beyond this block's stay as they are: done.
    threads.resize(std::max<size_t>(threads.size(), size));
    for (unsigned i = 0; i < size; ++i) {
      if (!threads[i].stack)
        start(threads[i]);
      threads[i].done = false;
      threads[i].barriers = threads[i].shuffles = 0;
    }
    for (bool isLeft = true; isLeft;) {
      isLeft = false;
      for (current = 0; current < size; ++current)
        if (!threads[current].done) {
          change(scheduler, threads[current]);
          isLeft = true;
        }
    }
  }

  const std::function<void()> *kernel = nullptr;
  std::vector<Thread> threads;
  Context scheduler; ///< who launched
  unsigned size = 0, current = 0, blockIndex = 0;
};

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_CUDA_BLOCKEMULATOR_H

//===- WorkerPool.cpp - The threads that one rank computes with -----------===//
#include "runtime/src/compute/WorkerPool.h"

#include <system_error>

namespace shardwright::runtime {
namespace {

/// Waits for a moment without giving the core away: the next piece of work
/// usually comes within microseconds, and waking a sleeper takes longer. About
/// 30 us, so that a program which has nothing to do leaves its cores alone.
template <typename Condition> void waitShortly(const Condition &condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }
}

} // namespace

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::resize(int threads) {
  stop();
  helpers.reserve(static_cast<size_t>(std::max(threads, 1)));
  try {
    for (int worker = 1; worker < threads; ++worker)
      helpers.emplace_back([this, worker] { help(worker); });
  } catch (const std::system_error &) { // as many as the system gives
  }
}

void WorkerPool::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    job.fetch_add(1);
  }
  started.notify_all();
  for (std::thread &helper : helpers)
    helper.join();
  helpers.clear();
  stopping = false;
}

void WorkerPool::take(int worker) {
  for (int64_t index = next.fetch_add(1); index < pieces;
       index = next.fetch_add(1))
    piece(callee, index, worker);
}

void WorkerPool::runPieces(int64_t count, Piece function, const void *object) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    pieces = count;
    piece = function;
    callee = object;
    next = 0;
    open = true;
    job.fetch_add(1);
  }
  started.notify_all();
  take(0);
  std::unique_lock<std::mutex> lock(mutex);
  open = false; // who has not come yet need not come
  lock.unlock();
  waitShortly([&] { return inside == 0; });
  lock.lock();
  left.wait(lock, [&] { return inside == 0; });
}

void WorkerPool::help(int worker) {
  uint64_t seen = 0;
  while (true) {
    waitShortly([&] { return job != seen; });
    std::unique_lock<std::mutex> lock(mutex);
    started.wait(lock, [&] { return job != seen; });
    if (stopping)
      return;
    seen = job;
    if (!open)
      continue;
    ++inside;
    lock.unlock();
    take(worker);
    lock.lock();
    if (--inside == 0)
      left.notify_one();
  }
}

} // namespace shardwright::runtime

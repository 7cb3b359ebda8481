//===- Crew.h - Threads that share a task's items ---------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_CREW_H
#define SHARDWRIGHT_COST_MODEL_BASE_CREW_H

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace shardwright::cost {

/// Threads that wait for tasks. Whoever is free takes the next item, so a task
/// is through when its items are, however unequal they are.
class Crew {
public:
  /// `threads` with the caller's, at least 1; fewer where the system has no more.
  explicit Crew(size_t threads) {
    others.reserve(threads);
    try {
      for (size_t i = 1; i < threads; ++i)
        others.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error &) {
    }
  }
  ~Crew() {
    {
      const std::lock_guard<std::mutex> guard(mutex);
      done = true;
    }
    begin.notify_all();
    for (std::thread &other : others)
      other.join();
  }
  Crew(const Crew &) = delete;

  /// Calls work(thread, item) once for every item below `count`.
  using Work = std::function<void(size_t, size_t)>;
  void each(size_t count, const Work &work) {
    if (others.empty() || count < 2) {
      for (size_t item = 0; item < count; ++item)
        work(0, item);
      return;
    }
    {
      const std::lock_guard<std::mutex> guard(mutex);
      task = &work;
      items = count;
      next = 0;
      busy = others.size();
      ++tasks;
    }
    begin.notify_all();
    take(0);
    std::unique_lock<std::mutex> lock(mutex);
    end.wait(lock, [&] { return busy == 0; });
  }

private:
  void take(size_t thread) {
    for (size_t item; (item = next.fetch_add(1)) < items;)
      (*task)(thread, item);
  }
  void serve(size_t thread) {
    for (size_t seen = 0;;) {
      {
        std::unique_lock<std::mutex> lock(mutex);
        begin.wait(lock, [&] { return done || tasks != seen; });
        if (done)
          return;
        seen = tasks;
      }
      take(thread);
      const std::lock_guard<std::mutex> guard(mutex);
      if (--busy == 0)
        end.notify_one();
    }
  }

  std::mutex mutex;
  std::condition_variable begin, end;
  std::vector<std::thread> others;
  const Work *task = nullptr;
  size_t items = 0, busy = 0, tasks = 0;
  std::atomic<size_t> next = 0;
  bool done = false;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_CREW_H

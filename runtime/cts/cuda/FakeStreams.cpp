//===- FakeStreams.cpp - Streams, events and graphs without a GPU ---------===//
#include "runtime/cts/cuda/FakeStreams.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace shardwright::runtime::cts {

int64_t fakeSetting(const char *name, int64_t fallback) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

void fakeNote(const std::string &line) {
  if (const char *path = std::getenv("FAKE_LOG"))
    if (FILE *file = std::fopen(path, "a")) {
      std::fprintf(file, "%s\n", line.c_str());
      std::fclose(file);
    }
}

namespace {

enum class Order { AtOnce, Compute, Communication };

Order order() {
  static const Order chosen = [] {
    const char *text = std::getenv("FAKE_ORDER");
    if (!text)
      return Order::AtOnce;
    return std::string(text) == "communication" ? Order::Communication
                                                : Order::Compute;
  }();
  return chosen;
}

/// Runs queues in the chosen order until none can go on. Whether any did.
template <typename Queues> bool runQueues(const Queues &queues) {
  bool any = false;
  for (bool moved = true; moved;) {
    moved = false;
    auto runOne = [&](std::deque<FakeWork> &queue) {
      while (!queue.empty() && queue.front()()) {
        queue.pop_front();
        moved = true;
      }
    };
    if (order() == Order::Communication)
      for (auto at = queues.rbegin(); at != queues.rend(); ++at)
        runOne(**at);
    else
      for (auto at = queues.begin(); at != queues.end(); ++at)
        runOne(**at);
    any = any || moved;
  }
  return any;
}

} // namespace

FakeStreams &FakeStreams::mine() {
  thread_local FakeStreams one;
  return one;
}

FakeStream *FakeStreams::create() {
  streams.push_back(new FakeStream);
  return streams.back();
}

void FakeStreams::destroy(FakeStream *stream) {
  streams.erase(std::remove(streams.begin(), streams.end(), stream),
                streams.end());
  delete stream;
}

void FakeStreams::run() {
  std::vector<std::deque<FakeWork> *> queues;
  for (FakeStream *stream : streams)
    queues.push_back(&stream->queue);
  runQueues(queues);
}

void FakeStreams::drain() {
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::seconds(fakeSetting("FAKE_PATIENCE", 1));
  for (;;) {
    run();
    const bool empty =
        std::all_of(streams.begin(), streams.end(),
                    [](const FakeStream *s) { return s->queue.empty(); });
    if (empty || isStuck)
      return;
    isStuck = Clock::now() > end; // for good: no more time is lost
    std::this_thread::yield(); // a peer is late
  }
}

void FakeStreams::afterSubmit() {
  if (order() == Order::AtOnce)
    drain();
}

bool FakeStreams::isCaptured(FakeStream *stream) const {
  return capture && capture->seen.count(stream);
}

CUresult FakeStreams::submit(FakeStream *stream, FakeWork work) {
  if (isCaptured(stream)) {
    capture->nodes.push_back({stream, std::move(work)});
    capture->seen[stream][stream] = capture->nodes.size();
    return CUDA_SUCCESS;
  }
  if (capture) // forgotten: it would run once, and not when the graph does
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  stream->queue.push_back(std::move(work));
  afterSubmit();
  return CUDA_SUCCESS;
}

CUresult FakeStreams::submitOnce(FakeStream *stream,
                                 std::function<void()> work) {
  return submit(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

CUresult FakeStreams::record(FakeEvent *event, FakeStream *stream) {
  const uint64_t number = ++event->recorded;
  event->isCaptured = isCaptured(stream);
  if (event->isCaptured) {
    event->capturedAt = capture->nodes.size();
    capture->seenAtRecord[event->capturedAt] = capture->seen[stream];
    FakeNode node{stream, nullptr, event, /*isRecord=*/true};
    capture->nodes.push_back(node);
    return CUDA_SUCCESS;
  }
  stream->queue.push_back([event, number] {
    event->passed = number;
    return true;
  });
  afterSubmit();
  return CUDA_SUCCESS;
}

CUresult FakeStreams::wait(FakeStream *stream, FakeEvent *event) {
  if (capture && event->isCaptured) { // joins the capture
    auto &seen = capture->seen[stream];
    for (const auto &[other, until] : capture->seenAtRecord[event->capturedAt])
      seen[other] = std::max(seen[other], until);
    FakeNode node{stream, nullptr, event, /*isRecord=*/false,
                  event->capturedAt};
    capture->nodes.push_back(node);
    return CUDA_SUCCESS;
  }
  if (isCaptured(stream)) // an event of before the capture
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  if (event->isCaptured)
    return CUDA_ERROR_CAPTURED_EVENT;
  const uint64_t number = event->recorded;
  stream->queue.push_back([event, number] { return event->passed >= number; });
  afterSubmit();
  return CUDA_SUCCESS;
}

bool FakeStreams::hasPassed(FakeEvent *event) {
  run();
  return event->passed >= event->recorded;
}

CUresult FakeStreams::beginCapture(FakeStream *origin) {
  capture = std::make_unique<FakeGraph>();
  capture->origin = origin;
  capture->seen[origin];
  return CUDA_SUCCESS;
}

CUresult FakeStreams::endCapture(FakeGraph *&graph) {
  // Work that the origin does not wait for would outlive the graph's end.
  for (const auto &[stream, seen] : capture->seen) {
    const auto own = seen.find(stream);
    if (own != seen.end() &&
        capture->seen[capture->origin][stream] < own->second)
      return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  graph = capture.release();
  return CUDA_SUCCESS;
}

CUresult FakeStreams::launch(const FakeGraph &graph, FakeStream *stream) {
  struct Run {
    std::map<FakeStream *, std::deque<FakeWork>> queues;
    std::vector<std::deque<FakeWork> *> inOrder;
    std::vector<bool> passed;
  };
  auto replay = std::make_shared<Run>();
  replay->passed.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const FakeNode &node = graph.nodes[i];
    auto &queue = replay->queues[node.stream];
    if (node.work)
      queue.push_back(node.work);
    else if (node.isRecord)
      queue.push_back(
          [run = replay.get(), i] { return run->passed[i] = true; });
    else
      queue.push_back(
          [run = replay.get(), at = node.awaited] { return run->passed[at]; });
  }
  for (FakeStream *known : streams)
    if (replay->queues.count(known))
      replay->inOrder.push_back(&replay->queues[known]);
  return submit(stream, [replay] {
    runQueues(replay->inOrder);
    return std::all_of(replay->inOrder.begin(), replay->inOrder.end(),
                       [](const auto *queue) { return queue->empty(); });
  });
}

} // namespace shardwright::runtime::cts

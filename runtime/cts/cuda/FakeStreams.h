//===- FakeStreams.h - Streams, events and graphs without a GPU -*- C++ -*-===//
//
// A stream is a queue of operations, which run when somebody looks: at a query
// of an event, at a copy to the host. FAKE_ORDER says who runs first:
//   compute         the stream made first, as far as it can: communication
//                   comes as late as events allow
//   communication   the streams made last, as far as they can
//   unset           every operation at once, if what it waits for is there
// Results that depend on the order show an event that is missing.
//
// Streams belong to the thread that made them, as those of a rank do.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_CTS_CUDA_FAKESTREAMS_H
#define SHARDWRIGHT_RUNTIME_CTS_CUDA_FAKESTREAMS_H

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardwright::runtime::cts {

int64_t fakeSetting(const char *name, int64_t fallback);
/// Appends a line to the file that FAKE_LOG names.
void fakeNote(const std::string &line);

/// Runs some work; false: not yet, ask again.
using FakeWork = std::function<bool()>;

struct FakeEvent {
  /// Numbers of the newest record that was called for, and that was passed.
  uint64_t recorded = 0, passed = 0;
  bool isCaptured = false;  ///< the newest record is part of a capture
  size_t capturedAt = 0;    ///< its place there
};

struct FakeStream;

/// An operation of a captured step.
struct FakeNode {
  FakeStream *stream;
  FakeWork work;            ///< null: a record or a wait
  FakeEvent *event = nullptr;
  bool isRecord = false;
  size_t awaited = 0;       ///< of a wait: place of the record
};

struct FakeGraph {
  std::vector<FakeNode> nodes;
  /// Per stream, how much of every stream it has seen.
  std::map<FakeStream *, std::map<FakeStream *, size_t>> seen;
  std::map<size_t, std::map<FakeStream *, size_t>> seenAtRecord;
  FakeStream *origin = nullptr;
};

struct FakeStream {
  std::deque<FakeWork> queue;
};

/// The streams of this thread.
class FakeStreams {
public:
  static FakeStreams &mine();

  FakeStream *create();
  void destroy(FakeStream *stream);
  CUresult submit(FakeStream *stream, FakeWork work);
  /// Work that is done when it was run once.
  CUresult submitOnce(FakeStream *stream, std::function<void()> work);
  CUresult record(FakeEvent *event, FakeStream *stream);
  CUresult wait(FakeStream *stream, FakeEvent *event);
  bool hasPassed(FakeEvent *event);
  bool isCapturing() const { return capture != nullptr; }
  CUresult beginCapture(FakeStream *origin);
  CUresult endCapture(FakeGraph *&graph);
  CUresult launch(const FakeGraph &graph, FakeStream *stream);
  /// Runs what can run until nothing is left or, once, FAKE_PATIENCE seconds (1)
  /// have passed.
  void drain();
  /// Whether work was left that drain() waited for in vain.
  bool hangs() const { return isStuck; }

  /// Executable graphs that have not been destroyed.
  std::atomic<int> graphs{0};

private:
  bool isCaptured(FakeStream *stream) const;
  /// Runs what can run now.
  void run();
  void afterSubmit();

  std::vector<FakeStream *> streams; ///< in the order they were made
  std::unique_ptr<FakeGraph> capture;
  bool isStuck = false;
};

} // namespace shardwright::runtime::cts

#endif // SHARDWRIGHT_RUNTIME_CTS_CUDA_FAKESTREAMS_H

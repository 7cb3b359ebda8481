//===- ProcessesTest.cpp - Ranks as processes, a fake GPU each ------------===//
//
// What becomes of the others when a process or its GPU dies or stalls: the end
// comes in time, communicators are aborted, and one message names the rank, the
// call and who takes part in it.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/BackendRun.h"

using namespace shardwright::runtime::cts;
using Catch::Matchers::Contains;

namespace {

/// As torchrun starts them, over the fake NCCL.
Outcome launch(int ranks, const std::string &environment,
               const std::string &plan, const std::string &flags) {
  const fs::path meetings = folder() / "meetings";
  fs::remove_all(meetings);
  fs::remove(folder() / "log");
  return shell("FAKE_DEVICES=8 FAKE_NCCL_FOLDER=" + meetings.string() +
                   " FAKE_LOG=" + (folder() / "log").string() + " " +
                   environment,
               SHARDWRIGHT_LAUNCH " " + std::to_string(ranks) +
                   " " SHARDWRIGHT_TINY " " + plan + data() + flags);
}

size_t count(const std::string &text, const std::string &what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1))
    ++found;
  return found;
}

/// Communicators were aborted, every abort came to its end, and nothing waits for
/// a GPU that may never be done.
void aborted(const std::string &log) {
  INFO(log);
  CHECK(count(log, "nccl_abort\n") > 0);
  CHECK(count(log, "nccl_abort\n") == count(log, "nccl_abort ended\n"));
  CHECK(count(log, "waits for ever") == 0);
}

/// Ends in `seconds` with exit code 2 and the communicators of all that are left
/// aborted; one line says `text` and, of the GPU, `call`.
void ends(const Outcome &run, double seconds, const std::string &text,
          const std::string &call) {
  INFO(run.err);
  CHECK(run.code == 2);
  CHECK(run.seconds < seconds);
  CHECK(count(run.err, "error: ") == 1);
  CHECK_THAT(run.err, Contains(text));
  CHECK_THAT(run.err, Contains(call));
  CHECK_THAT(run.err, Contains("[run_lost_rank]"));
  aborted(slurp(folder() / "log"));
}

/// Call by call: 10 of NCCL a step. The tiny program's functions are the host's,
/// so a recording would not hold them.
std::string plain() {
  return " --steps 3 --trace " + (folder() / "trace.json").string();
}

/// Numbers are right if whatever a peer is late for is waited for.
const std::string patient = "FAKE_PATIENCE=60";

const std::string gone = "expected rank 1 to stay until the end, but its "
                         "connection to rank";

} // namespace

TEST_CASE("processes train as threads do, over NCCL") {
  if (std::string(SHARDWRIGHT_LAUNCH).empty()) {
    WARN("not tested, as there is no Python to launch processes");
    return;
  }
  for (const std::string plan : {"dp=2,device", "pp=2,dp=2,zero=1,device"}) {
    const int ranks = plan[0] == 'd' ? 2 : 4;
    const Outcome threads =
        train(patient + " FAKE_DEVICES=8", plan, plain() + " --json");
    const Outcome processes = launch(ranks, patient, plan, plain() + " --json");
    INFO(processes.err);
    REQUIRE(threads.code == 0);
    REQUIRE(processes.code == 0);
    const auto want = threads.lines(), got = processes.lines();
    REQUIRE(got.size() == want.size());
    for (size_t step = 0; step < 3; ++step)
      for (const char *key : {"loss", "grad_norm"})
        CHECK(got[step][key] == want[step][key]);
    CHECK(got.back()["summary"]["backend"] == "sockets");
    CHECK(got.back()["summary"]["ledger"] == want.back()["summary"]["ledger"]);
    CHECK(slurp(folder() / "log").find("nccl_abort") == std::string::npos);
  }
}

TEST_CASE("a process that dies is named, with the call that others wait in") {
  if (std::string(SHARDWRIGHT_LAUNCH).empty())
    return;
  // A deadline that plays no part: a death is noticed at once.
  const std::string flags = plain() + " --timeout 60";
  SECTION("before it joins a communicator") {
    ends(launch(2, "FAKE_NCCL_DIE_EARLY=1", "dp=2,device", flags), 30, gone,
         "rank 0 waited for ncclCommInitRankConfig of ranks 0, 1");
  }
  SECTION("in the first step, whose calls are compared") {
    ends(launch(2, "FAKE_NCCL_DIE=4", "dp=2,device", flags), 30, gone,
         "its device is at all_reduce number 4 over axes 'dp' (f64, 128 "
         "elements, phase reduce) of ranks 0, 1");
  }
  SECTION("in a later step") {
    ends(launch(2, "FAKE_NCCL_DIE=14", "dp=2,device", flags), 30, gone,
         "its device is at all_reduce number 14 over axes 'dp' (f64, 128 "
         "elements, phase reduce) of ranks 0, 1");
  }
  SECTION("while all wait for their GPUs") {
    // Its GPU stalls; its process lives until all have met.
    ends(launch(2, "FAKE_NCCL_STALL=14 FAKE_NCCL_STALL_DIES=3", "dp=2,device",
                flags),
         30, gone,
         "rank 0 waited for all_reduce number 14 over axes 'dp' (f64, 128 "
         "elements, phase reduce) of ranks 0, 1");
  }
  SECTION("in a recorded step") {
    ends(launch(2, "FAKE_NCCL_DIE=24", "dp=2,device",
                "--steps 3 --timeout 60"),
         30, gone,
         "; its device is at all_reduce number 14 over axes 'dp' (f64, 128 "
         "elements, phase reduce) of ranks 0, 1 in the recorded step");
  }
  SECTION("one of four, of whom each may be the first to notice") {
    for (int time = 0; time < 3; ++time)
      ends(launch(4, "", "dp=2,tp=2,device,fault=die", flags), 30, gone,
           "waited for ");
  }
}

TEST_CASE("a GPU that stalls is named by the deadline, with the call") {
  if (std::string(SHARDWRIGHT_LAUNCH).empty())
    return;
  const std::string flags = plain() + " --timeout 1";
  ends(launch(2, "FAKE_NCCL_STALL=4", "dp=2,device", flags), 30,
       "expected all_reduce number 4 over axes 'dp'",
       "of ranks 0, 1 to end within 1 s, but 'Fake GPU' of rank");
  ends(launch(4, "FAKE_NCCL_STALL=5", "dp=2,tp=2,device", flags), 30,
       "expected all_reduce number 5 over axes 'tp'",
       "to end within 1 s, but 'Fake GPU' of rank");
}

TEST_CASE("a GPU that stalls in a recorded step is named with the call") {
  if (std::string(SHARDWRIGHT_LAUNCH).empty())
    return;
  ends(launch(2, "FAKE_NCCL_STALL=24", "dp=2,device", "--steps 3 --timeout 1"),
       30, "expected all_reduce number 14 over axes 'dp' (f64, 128 elements",
       "of ranks 0, 1 in the recorded step to end within 1 s, but 'Fake GPU' of rank");
}

TEST_CASE("a process that stalls is named by the deadline, with the call") {
  if (std::string(SHARDWRIGHT_LAUNCH).empty())
    return;
  ends(launch(2, "", "tp=2,device,fault=stall", plain() + " --timeout 1"), 30,
       "expected rank 1 to join all_reduce number", "over axes 'tp'");
}

TEST_CASE("an asynchronous error of NCCL names its call and ranks") {
  if (std::string(SHARDWRIGHT_LAUNCH).empty())
    return;
  for (const char *number : {"4", "14", "24"}) {
    const bool isRecorded = number == std::string("24");
    const Outcome run =
        launch(2, std::string("FAKE_NCCL_ERROR=") + number, "dp=2,device",
               (isRecorded ? " --steps 3" : plain()) + " --timeout 60");
    INFO(run.err);
    CHECK(run.code == 2);
    CHECK(run.seconds < 30);
    // It may find a rank at an earlier call.
    CHECK_THAT(run.err, Contains("expected all_reduce number "));
    CHECK_THAT(run.err,
               Contains(" over axes 'dp' (f64, ") &&
                   Contains(" elements, phase reduce) of ranks 0, 1" +
                            std::string(isRecorded ? " in the recorded step"
                                                   : "") +
                            " to work, but NCCL on rank"));
    CHECK_THAT(run.err, Contains("says an asynchronous error: remote process "
                                 "exited: as the test wants"));
    aborted(slurp(folder() / "log"));
  }
}

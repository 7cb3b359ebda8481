//===- TrainFaultsTest.cpp - Runs that are refused or end early -----------===//
//
// Every refusal has one message and its exit code; a job that loses a rank ends
// within its deadline.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/tiny/TinyRun.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace shardwright::runtime::cts;
using Catch::Matchers::Contains;

namespace {

/// A port whose successor, where the runtime listens, is free too.
int freePort() {
  auto bound = [](int wanted, int &port) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(wanted));
    socklen_t length = sizeof(address);
    auto *generic = reinterpret_cast<sockaddr *>(&address);
    const bool good = ::bind(socket, generic, length) == 0 &&
                      getsockname(socket, generic, &length) == 0;
    port = ntohs(address.sin_port);
    close(socket);
    return good;
  };
  for (;;)
    if (int port = 0, next = 0;
        bound(0, port) && port < 65535 && bound(port + 1, next))
      return port;
}

} // namespace

TEST_CASE("faults over sockets") {
  if (launch.empty()) {
    WARN("not tested, as there is no Python to launch processes");
    return;
  }
  SECTION("a stalled process is named") {
    const Outcome run =
        trainOnSockets(2, "dp=2,fault=stall", "--steps 3 --timeout 1");
    CHECK(run.code == 2);
    CHECK(run.seconds < 8);
    CHECK_THAT(run.err, Contains("expected rank 1 to join"));
  }
  SECTION("a killed process ends the job and is named") {
    // Rank 1 stalls in its second step; then it is killed. On a busy machine
    // the launcher takes its time to start it.
    const Outcome run = shell(
        "sh -c '" + launch + " 2 " + tiny + " dp=2,fault=stall" + data() +
        " --steps 3 --timeout 30 & job=$!; found=; for try in $(seq 100); do "
        "sleep 0.1; for p in $(pgrep -P $job); do if tr \"\\0\" \"\\n\" "
        "</proc/$p/environ 2>/dev/null | grep -q \"^RANK=1$\"; then found=$p; "
        "fi; done; if [ -n \"$found\" ]; then break; fi; done; sleep 1.5; "
        "kill -9 $found; wait $job'");
    CHECK(run.code != 0);
    CHECK(run.seconds < 20); // well before --timeout
    CHECK_THAT(run.err, Contains("expected rank 1 to stay until the end"));
  }
  SECTION("of four processes, of whom each may be the first to notice, one "
          "tells") {
    for (int time = 0; time < 4; ++time) {
      const Outcome run = trainOnSockets(4, "dp=2,tp=2,fault=die",
                                         "--steps 3 --timeout 30");
      INFO(run.err);
      CHECK(run.code == 2);
      CHECK(run.seconds < 25); // sooner than its deadline
      const size_t first = run.err.find("error: ");
      REQUIRE(first != std::string::npos);
      CHECK(run.err.find("error: ", first + 1) == std::string::npos);
      CHECK_THAT(run.err, Contains("expected rank 1 to stay until the end") &&
                              Contains(" waited for all_reduce number "));
    }
  }
  SECTION("ranks that never come are named") {
    const int port = freePort();
    const Outcome run = shell("env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 "
                              "MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                              std::to_string(port) + " " + tiny + " dp=2" +
                              data() + " --timeout 1");
    CHECK(run.code == 2);
    CHECK_THAT(run.err, Contains("expected rank 1 to join rank 0 at "
                                 "'127.0.0.1' port " +
                                 std::to_string(port + 1)));
  }
  SECTION("an environment that contradicts itself is refused") {
    const Outcome few =
        shell("env WORLD_SIZE=2 RANK=2 " + tiny + " dp=2" + data());
    CHECK(few.code == 5);
    CHECK_THAT(few.err, Contains("RANK to be a number from 0 to 1"));
    const Outcome lone =
        shell("env WORLD_SIZE=2 RANK=1 " + tiny + " dp=2" + data());
    CHECK(lone.code == 5);
    CHECK_THAT(lone.err, Contains("LOCAL_RANK beside WORLD_SIZE") &&
                             Contains("[run_launcher]"));
  }
  SECTION("a wrong number of processes is refused before they meet") {
    const std::string wanted =
        "expected the launcher's processes to equal the plan's 2 ranks";
    const Outcome lone = shell("env WORLD_SIZE=3 RANK=1 LOCAL_RANK=1 "
                               "MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                               std::to_string(freePort()) + " " + tiny +
                               " dp=2" + data() + " --timeout 30");
    CHECK(lone.code == 5);
    CHECK(lone.seconds < 10); // waits for nobody
    CHECK_THAT(lone.err, Contains(wanted));
    const Outcome run = trainOnSockets(3, "dp=2", "--steps 1");
    CHECK(run.code == 5);
    CHECK_THAT(run.err,
               Contains("expected the launcher's processes to equal the plan's "
                        "2 ranks (pp=1 x dp=2 x tp=1), but got 3"));
  }
}

/// Runs the tiny program as two processes; rank 1 gets flags of its own.
static Outcome trainApart(const std::string &flags0,
                          const std::string &flags1) {
  const std::string program = tiny + " dp=2 --steps 1 --timeout 30 ";
  return shell(launch + " 2 sh -c 'if [ $RANK = 0 ]; then exec " + program +
               flags0 + "; else exec " + program + flags1 + "; fi'");
}

static int64_t countOf(const std::string &text, const std::string &what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST_CASE("files of one process that the others do not miss") {
  if (launch.empty()) {
    WARN("not tested, as there is no Python to launch processes");
    return;
  }
  const std::string checkpoint = folder() / "apart.ckpt";
  REQUIRE(train("dp=2", "--steps 1 --save " + checkpoint).code == 0);
  const std::string good = data() + " --steps 2 --load " + checkpoint;
  struct Case {
    std::string flags, words;
    int code;
  };
  for (const auto &[flags, words, code] :
       {Case{data() + " --steps 2 --load /nowhere/x.ckpt",
             "expected to read '/nowhere/x.ckpt', but the system refused: No "
             "such file or directory [run_checkpoint]",
             4},
        Case{" --data /nowhere/x.bin --steps 2 --load " + checkpoint,
             "'/nowhere/x.bin' is not: No such file or directory [run_data]",
             4},
        Case{good + " --save /nowhere/y.ckpt", "[run_output]", 5}}) {
    for (bool isSecond : {true, false}) {
      const Outcome run =
          isSecond ? trainApart(good, flags) : trainApart(flags, good);
      INFO(run.err);
      CHECK(run.code == code);
      CHECK(run.seconds < 15);
      CHECK(run.out.empty());
      CHECK(countOf(run.err, "error: ") == 1);
      CHECK_THAT(run.err, Contains(isSecond ? "error: on rank 1: "
                                            : "error: on rank 0: ") &&
                              Contains(words));
    }
    const Outcome both = trainApart(flags, flags);
    CHECK(both.code == code);
    CHECK(countOf(both.err, "error: ") == 1);
    CHECK_THAT(both.err, !Contains("on rank") && Contains(words));
  }
  const Outcome fine = trainApart(good, good);
  INFO(fine.err);
  CHECK(fine.code == 0);
}

// What a machine lacks differs; that it is one line and exit code 3 does not.
TEST_CASE("a program for a device ends in one line where it cannot run") {
  const Outcome run = train("dp=1,device", "--steps 1");
  CHECK(run.code == 3);
  CHECK(run.out.empty());
  CHECK_THAT(run.err, Catch::Matchers::StartsWith("error: expected ") &&
                          Contains("[run_unsupported]"));
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
}

TEST_CASE("refusals have one message and an exit code") {
  auto refuse = [&](const std::string &command, int code, const char *id,
                    const std::string &message) {
    const Outcome run = shell(command);
    INFO(command);
    CHECK(run.code == code);
    CHECK_THAT(run.err, Contains(message) &&
                            Catch::Matchers::EndsWith(" [" + std::string(id) +
                                                      "]\n"));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(run.out.empty());
  };
  const std::string two = tiny + " dp=2";
  refuse(two + data() + " --ranks 3", 5, "run_ranks",
         "expected --ranks to equal the plan's 2 ranks (pp=1 x dp=2 x tp=1), "
         "but got 3");
  refuse(tiny + " dp=1" + data() + " --ranks 2", 5, "run_ranks",
         "the plan's 1 rank (pp=1 x dp=1 x tp=1), but got 2");
  refuse(two, 5, "run_flag", "expected --data FILE with at least 8 tokens");
  refuse(two + data() + " --stepz 3", 5, "run_flag",
         "expected a flag that --help lists, but got '--stepz'");
  refuse(two + data() + " --steps 0", 5, "run_flag",
         "expected --steps to be a number from 1, but got '0'");
  refuse(two + data() + " --steps", 5, "run_flag", "to be followed by");
  refuse(two + data() + " --lr=fast", 5, "run_flag", "but got 'fast'");
  refuse(two + data() + " --json=1", 5, "run_flag", "to take no value");
  refuse(two + " --data /nowhere/x.bin", 4, "run_data",
         "'/nowhere/x.bin' is not: No such");
  refuse(two + " --data " + tiny, 4, "run_data",
         "expected a .bin of u16 tokens for the "
         "vocabulary of 37");
  refuse(two + data() + " --dump /nowhere/x", 5, "run_output",
         "expected --dump to be a file that can be written");
  refuse(two + data() + " --trace /nowhere/x", 5, "run_output",
         "expected --trace");
  refuse(two + data() + " --trace /dev/full", 5, "run_output",
         "'/dev/full' is not: No space left on device");
  refuse(two + data() + " --other-data", 5, "run_flag",
         "expected --load FILE beside --other-data");
  refuse(two + " --dry-run --rank 2", 5, "run_ranks",
         "expected --rank to be below 2, but got 2");
  refuse(two + data() + " --rank 1", 5, "run_flag",
         "expected --dry-run beside --rank");
  const std::string shortFile = folder() / "short.bin";
  std::ofstream(shortFile, std::ios::binary) << "ababababababab";
  refuse(two + " --data " + shortFile, 4, "run_data",
         "to hold at least 8 tokens (sequence 6 + 2), but got 7");
  const std::string outside = folder() / "outside.bin";
  std::ofstream(outside, std::ios::binary) << std::string(200, 'a');
  refuse(two + " --data " + outside, 4, "run_file",
         "to be below the vocabulary of 37, but got 24929");
}

TEST_CASE("a stalled rank ends the job in time and is named") {
  const Outcome run = train("dp=2,fault=stall", "--steps 3 --timeout 0.5");
  CHECK(run.code == 2);
  CHECK(run.seconds < 5.5);
  CHECK_THAT(run.err, Contains("expected rank 1 to join") &&
                          Contains("[run_lost_rank]"));
}

TEST_CASE("a damaged canary is a bug of ours, with the part named") {
  const Outcome run = train("dp=2,fault=canary", "--steps 3");
  CHECK(run.code == 1);
  CHECK_THAT(run.err,
             Contains("damaged: comm, workspace") && Contains("[run_defect]"));
}

TEST_CASE("a loss that is not a number ends the run") {
  const Outcome run = train("dp=2,fault=nan", "--steps 3");
  CHECK(run.code == 2);
  CHECK_THAT(run.err, Contains("to be finite") && Contains("[run_not_finite]"));
}

TEST_CASE("ranks that call different collectives end the run") {
  const Outcome run = train("dp=2,fault=mismatch", "--steps 3 --timeout 5");
  CHECK(run.code == 1);
  CHECK_THAT(run.err, Contains("but it called") && Contains("[run_defect]"));
}

TEST_CASE("faults under MPI") {
  if (mpirun.empty()) {
    WARN("not tested, as there is no mpirun");
    return;
  }
  SECTION("a wrong number of processes is refused once") {
    const Outcome run = trainOnMpi(3, "dp=2", "--steps 1");
    CHECK(run.code == 5);
    CHECK_THAT(run.err, Contains("expected mpirun -n to equal the plan's 2 "
                                 "ranks (pp=1 x dp=2 x tp=1), but got 3"));
  }
  SECTION("a stalled process is named") {
    const Outcome run =
        trainOnMpi(2, "dp=2,fault=stall", "--steps 3 --timeout 1");
    CHECK(run.code == 2);
    CHECK(run.seconds < 12); // start-up, deadline and two seconds of grace
    CHECK_THAT(run.err, Contains("expected rank 1 to join"));
  }
  SECTION("a killed process ends the job and is named") {
    // Rank 1 stalls in its second step; then it is killed.
    const Outcome run = shell(
        "sh -c '" + mpiEnvironment + mpirun + " -n 2 " + tiny +
        " dp=2,fault=stall" + data() +
        " --steps 3 --timeout 30 & job=$!; sleep 2; for p in $(pgrep -P $job); "
        "do if tr \"\\0\" \"\\n\" </proc/$p/environ | grep -q "
        "\"^OMPI_COMM_WORLD_RANK=1$\"; then kill -9 $p; fi; done; wait $job'");
    CHECK(run.code != 0);
    CHECK(run.seconds < 12);
    CHECK_THAT(run.err, Contains("process rank 1"));
  }
}

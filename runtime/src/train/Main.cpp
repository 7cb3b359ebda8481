//===- Main.cpp - main of a compiled program ------------------------------===//
#include "runtime/src/Job.h"
#include "runtime/src/train/Checkpoint.h"
#include "runtime/src/train/Diagnostics.h"
#include "runtime/src/train/Dump.h"
#include "runtime/src/train/OutputFile.h"
#include "runtime/src/train/Report.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

namespace shardwright::runtime {
namespace {

/// A refusal before anything runs; none if it has no message.
struct Refusal {
  Diag id = Diag::run_defect;
  std::string message = {};
  explicit operator bool() const { return !message.empty(); }
};

/// Prints the message and returns the exit code.
int complain(const Refusal &refusal) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", errorLine(refusal.id, refusal.message).c_str());
  return exitCodeOf(refusal.id);
}

Refusal checkProgram(const sw_rt_program &program) {
  if (program.abi_version != SW_RT_ABI_VERSION)
    return {Diag::run_defect, "expected a program of ABI version " +
                                  std::to_string(SW_RT_ABI_VERSION) +
                                  ", but got " +
                                  std::to_string(program.abi_version)};
  if (program.struct_bytes != sizeof(sw_rt_program))
    return {Diag::run_defect, "expected a program table of " +
                                  std::to_string(sizeof(sw_rt_program)) +
                                  " bytes, but got " +
                                  std::to_string(program.struct_bytes)};
  auto isWide = [](int32_t dtype) {
    return dtype == SW_RT_F32 || dtype == SW_RT_F64;
  };
  for (int32_t dtype :
       {program.compute_dtype, program.param_dtype, program.grad_dtype})
    if (!isWide(dtype) && dtype != SW_RT_BF16)
      return {Diag::run_unsupported,
              std::string("expected parameters, activations and gradients in "
                          "f32, f64 or bf16, but got ") +
                  name(static_cast<sw_rt_dtype>(dtype))};
  for (int32_t dtype : {program.master_dtype, program.stat_dtype})
    if (!isWide(dtype))
      return {Diag::run_unsupported,
              std::string("expected master copies and statistics in f32 or "
                          "f64, but got ") +
                  name(static_cast<sw_rt_dtype>(dtype))};
  if (program.device_code &&
      program.device_code->struct_bytes != sizeof(sw_rt_device_code))
    return {Diag::run_defect,
            "expected a table of device code of " +
                std::to_string(sizeof(sw_rt_device_code)) + " bytes, but got " +
                std::to_string(program.device_code->struct_bytes)};
  return {};
}

enum class Backend { Threads, Mpi, Sockets };

const char *name(Backend backend) {
  switch (backend) {
  case Backend::Threads:
    return "threads";
  case Backend::Mpi:
    return "mpi";
  case Backend::Sockets:
    return "sockets";
  }
  return "unknown";
}

/// Where the ranks are: `processes` of a launcher's job, or threads.
Refusal chooseBackend(const Options &options, Backend &backend,
                      int &processes) {
  backend = Backend::Threads;
  processes = 0;
  if (options.dryRun)
    return {};
  processes = mpiWorldSize();
  if (processes > 1) {
    backend = Backend::Mpi;
    return {};
  }
  std::string why;
  processes = socketWorldSize(why);
  if (processes < 0)
    return {Diag::run_launcher, why};
  if (processes > 0)
    backend = Backend::Sockets;
  return {};
}

Refusal checkRanks(const Mesh &mesh, const Options &options, Backend backend,
                   int processes) {
  const int64_t wanted = mesh.ranks();
  const int64_t got = backend != Backend::Threads ? processes
                      : options.ranks             ? options.ranks
                                                  : wanted;
  if (got != wanted)
    return {Diag::run_ranks,
            std::string("expected ") +
                (backend == Backend::Mpi       ? "mpirun -n"
                 : backend == Backend::Sockets ? "the launcher's processes"
                                               : "--ranks") +
                " to equal the plan's " + std::to_string(wanted) +
                (wanted == 1 ? " rank (" : " ranks (") +
                mesh.text() + "), but got " + std::to_string(got)};
  if (options.dryRun && options.rank >= wanted)
    return {Diag::run_ranks, "expected --rank to be below " +
                                 std::to_string(wanted) + ", but got " +
                                 std::to_string(options.rank)};
  return {};
}

/// Looks at every file that the run needs, as this process sees them.
Refusal openFiles(const sw_rt_program &program, const Mesh &mesh,
                  const Options &options, TokenFile &data,
                  Checkpoint &checkpoint) {
  if (options.data.empty())
    return {Diag::run_flag, "expected --data FILE with at least " +
                                std::to_string(program.sequence + 2) +
                                " tokens to train on, but got none"};
  struct Output {
    const char *flag;
    const std::string &path;
    bool isFile;
  };
  for (const auto &[flag, path, isFile] :
       {Output{"--trace", options.trace, false},
        Output{"--dump", options.dump, true},
        Output{"--save", options.save, true}})
    if (!path.empty())
      if (const std::string why = whyUnwritable(path, isFile);
          !why.empty())
        return {Diag::run_output,
                std::string("expected ") + flag +
                    " to be a file that can be written, but '" + path +
                    "' is not: " + why};
  std::string why;
  if (!data.open(options.data, program.vocab, program.sequence, why))
    return {Diag::run_data, why};
  if (options.load.empty())
    return {};
  if (!checkpoint.open(options.load, program, mesh, options, data, why))
    return {Diag::run_checkpoint, why};
  if (checkpoint.getStep() >= options.steps)
    return {Diag::run_flag, "expected --steps to be above the " +
                                std::to_string(checkpoint.getStep()) +
                                " that the checkpoint has done, but got " +
                                std::to_string(options.steps)};
  return {};
}

/// What all processes make of what each of them found about its files.
struct Verdict {
  int exitCode = ExitOk;
  bool isMine = false;   ///< whether this process says it
  bool isShared = false; ///< whether all found the same
};

/// The files of another node may be other ones: all processes end if one of
/// them has to. The first that found something says it. Collective.
sw_rt_status agree(sw_rt_context &context, const Refusal &mine,
                   Verdict &verdict) {
  std::vector<std::string> texts;
  // Its first letter is the exit code.
  const char code =
      static_cast<char>(mine ? exitCodeOf(mine.id) : ExitOk);
  if (sw_rt_status status = gatherTexts(context, code + mine.message, texts))
    return status;
  int64_t facts[3] = {-1, 1, ExitOk}; // who says it, whether all do, exit code
  for (size_t i = 0; i < texts.size(); ++i) {
    facts[1] &= texts[i] == texts[0];
    if (facts[0] < 0 && texts[i][0] != ExitOk) {
      facts[0] = static_cast<int64_t>(i);
      facts[2] = texts[i][0];
    }
  }
  if (sw_rt_status status = shareUnbooked(context, facts, sizeof facts))
    return status;
  verdict = {static_cast<int>(facts[2]), facts[0] == context.rank(),
             facts[1] != 0};
  return SW_RT_OK;
}

sw_rt_status writeTrace(sw_rt_context &context, const Trainer &trainer,
                        const Options &options, int64_t origin) {
  const std::string label = "rank " + std::to_string(context.rank()) +
                            " stage " +
                            std::to_string(trainer.getStage().index);
  std::vector<std::string> texts;
  if (sw_rt_status status = gatherTexts(
          context, context.trace.json(context.rank(), label, origin), texts))
    return status;
  if (context.rank() != 0)
    return SW_RT_OK;
  std::string whole =
      "{\"schema\": \"shardwright.trace/1\",\n\"traceEvents\": [\n";
  for (size_t i = 0; i < texts.size(); ++i)
    whole += texts[i] + (i + 1 < texts.size() ? ",\n" : "\n]}\n");
  const std::string why = writeWhole(options.trace, whole);
  return why.empty() ? SW_RT_OK
                     : context.fail(SW_RT_IO,
                                    "expected to write the trace '" +
                                        options.trace +
                                        "', but the system refused: " + why);
}

/// Everything that one rank does.
sw_rt_status runRank(sw_rt_context &context, const sw_rt_program &program,
                     const Options &options, const TokenFile &data,
                     const Checkpoint *from, const char *backend) {
  const bool prints = context.rank() == 0;
  Trainer trainer(context, program, options, data);
  if (!options.trace.empty())
    context.trace.enable();
  if (sw_rt_status status = trainer.prepare(from))
    return status;
  if (sw_rt_status status = sw_rt_barrier(&context))
    return status;
  const int64_t origin = nowNanoseconds();
  const double tokens =
      static_cast<double>(program.global_batch * program.sequence);
  RunFacts facts{backend, context.device->name(), 0, 0, {}};
  Ledger first;
  bool stepsAgree = true;
  const int64_t done = from ? from->getStep() : 0;
  facts.steps = options.steps - done;
  for (int64_t step = done; step < options.steps; ++step) {
    context.ledger = {};
    const auto start = Clock::now();
    if (sw_rt_status status = trainer.step(step, facts.last))
      return status;
    const double seconds = secondsSince(start);
    facts.seconds += seconds;
    if (step == done)
      first = context.ledger;
    stepsAgree = stepsAgree && context.ledger == first;
    if (prints) {
      const StepLine line{step + 1, facts.last, seconds, tokens / seconds};
      std::printf("%s\n",
                  (options.json ? stepJson(line) : stepText(line)).c_str());
      std::fflush(stdout);
    }
    const bool saves =
        step + 1 == options.steps ||
        (options.saveEvery && (step + 1) % options.saveEvery == 0);
    if (!options.save.empty() && saves)
      if (sw_rt_status status =
              saveCheckpoint(context, trainer, options, step + 1))
        return status;
  }
  if (sw_rt_status status = trainer.checkArena())
    return status;
  if (!options.dump.empty())
    if (sw_rt_status status = dumpTensors(context, trainer, options.dump))
      return status;
  if (prints && !options.json)
    if (const auto counters = context.device->counters(); !counters.empty()) {
      std::string line = "rank 0";
      for (const auto &[key, value] : counters)
        line += "  " + key + " " + std::to_string(value);
      std::printf("%s\n", line.c_str());
    }
  std::vector<std::string> reports;
  if (options.json)
    if (sw_rt_status status = gatherTexts(
            context, rankReport(context, trainer, first, stepsAgree), reports))
      return status;
  if (prints && options.json)
    std::printf("%s\n",
                summaryJson(program, context.mesh, facts, reports).c_str());
  if (!options.trace.empty())
    if (sw_rt_status status = writeTrace(context, trainer, options, origin))
      return status;
  return sw_rt_barrier(&context);
}

int runThreads(const JobOptions &job, const RankFunction &function) {
  const JobResult result = runOnThreads(job, function);
  if (result.status == SW_RT_OK)
    return ExitOk;
  const int code = complain({diagOf(result.status), result.message});
  // Stuck threads still use this process's memory: no destructors.
  if (!result.stuck.empty() || result.keepsDevice) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}

int runProcess(Backend backend, const JobOptions &job,
               const RankFunction &function) {
  const bool isMpi = backend == Backend::Mpi;
  const JobResult result =
      isMpi ? runOnMpi(job, function) : runOnSockets(job, function);
  if (result.status == SW_RT_OK) {
    if (isMpi)
      stopMpi();
    return ExitOk;
  }
  const Refusal refusal{diagOf(result.status), result.message};
  const int code = exitCodeOf(refusal.id);
  if (result.reports)
    complain(refusal);
  else // The rank that found the failure ends the job; not for ever. Under MPI it
       // ends this one too, and first gives up its requests: seconds where ranks
       // share cores.
    std::this_thread::sleep_for(std::chrono::seconds(isMpi ? 20 : 2));
  std::fflush(nullptr);
  if (isMpi)
    abortMpi(code);
  // What NVIDIA's libraries do at exit waits for the GPU.
  if (result.keepsDevice)
    std::_Exit(code);
  return code;
}

int run(const sw_rt_program &program, int argc, char **argv) {
  if (Refusal refusal = checkProgram(program))
    return complain(refusal);
  const Mesh mesh = meshOf(program);
  Options options;
  std::string why;
  if (!parseOptions(argc, argv, options, why))
    return complain({Diag::run_flag, why});
  if (options.help) {
    std::fputs(helpText(argv[0], program.model,
                        mesh.text() + ", for " + targetText(program))
                   .c_str(), stdout);
    return ExitOk;
  }
  Backend backend = Backend::Threads;
  int processes = 0, rank = 0, size = 1;
  if (Refusal refusal = chooseBackend(options, backend, processes))
    return complain(refusal);
  const Refusal ranks = checkRanks(mesh, options, backend, processes);
  // mpirun ends all processes when the first one ends that has not joined.
  if (ranks && backend != Backend::Mpi)
    return complain(ranks);
  if (options.dryRun) {
    std::fputs((options.json ? dryRunJson(program, mesh, options.rank) + "\n"
                             : dryRunText(program, mesh, options.rank))
                   .c_str(),
               stdout);
    return ExitOk;
  }
  if (backend == Backend::Mpi && !startMpi(rank, size, why))
    return complain({Diag::run_no_mpi, why});
  if (ranks) { // every process finds the same
    if (rank == 0)
      complain(ranks);
    stopMpi();
    return exitCodeOf(ranks.id);
  }
  if (backend == Backend::Sockets &&
      !startSockets(options.timeoutSeconds, rank, size, why))
    return complain({Diag::run_lost_rank, why});

  TokenFile data;
  Checkpoint checkpoint;
  Refusal files = openFiles(program, mesh, options, data, checkpoint);
  if (files && backend == Backend::Threads)
    return complain(files);
  JobOptions job;
  job.mesh = mesh;
  job.timeoutSeconds = options.timeoutSeconds;
  job.threads = options.threads;
  job.openDevice = deviceFactoryFor(program, {options.tf32});
  job.link.latencySeconds = options.linkLatencyMicroseconds * 1e-6;
  job.link.bytesPerSecond = options.linkMegabitsPerSecond * 1e6 / 8;
  Verdict verdict;
  auto function = [&](sw_rt_context &context) {
    if (backend != Backend::Threads)
      if (sw_rt_status status = agree(context, files, verdict);
          status != SW_RT_OK || verdict.exitCode != ExitOk)
        return status;
    return runRank(context, program, options, data,
                   options.load.empty() ? nullptr : &checkpoint, name(backend));
  };
  if (backend == Backend::Threads)
    return runThreads(job, function);
  const int code = runProcess(backend, job, function);
  if (code != ExitOk || verdict.exitCode == ExitOk)
    return code;
  if (verdict.isMine) {
    if (!verdict.isShared)
      files.message = "on rank " + std::to_string(rank) + ": " + files.message;
    complain(files);
  }
  return verdict.exitCode;
}

} // namespace
} // namespace shardwright::runtime

extern "C" int sw_rt_main(const sw_rt_program *program, int argc, char **argv) {
  using namespace shardwright::runtime;
  // A write beyond `ulimit -f` is refused, and said, instead of ending us.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = ExitBug;
  try {
    code = run(*program, argc, argv);
  } catch (const std::bad_alloc &) {
    code = complain({Diag::run_memory, "expected memory for the program to "
                                       "suffice, but an allocation failed"});
  }
  // OpenBLAS joins its threads at exit, and they wait for ever for memory that
  // they were not given.
  if (code == exitCodeOf(Diag::run_memory)) {
    std::fflush(nullptr);
    std::_Exit(code);
  }
  // Steps that nobody can read are no success.
  if (code == ExitOk && (std::fflush(stdout) != 0 || std::ferror(stdout))) {
    std::fprintf(stderr, "%s\n",
                 errorLine(Diag::run_output, "expected stdout to take the "
                                             "output, but the system refused")
                     .c_str());
    return exitCodeOf(Diag::run_output);
  }
  return code;
}

//===- Estimates.cpp - Bounds and estimates per second and core -----------===//
//
// Wanted: 200,000 bounds and 5,000 full estimates (events and memory of every
// stage) a second and core, of a dense model whose layers are profiled.
//
//===----------------------------------------------------------------------===//
#include "cost_model/search/ProgramEstimator.h"
#include "test/unit/cost_model/SmallPrograms.h"

#include <chrono>
#include <cstdio>
#include <ctime>

using namespace shardwright::cost;

namespace {

double now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // others share the cores
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

/// Calls per second of user time; each call over all of `candidates`.
template <typename Call>
double rate(const std::vector<Candidate> &candidates, Call call) {
  double sink = 0;
  for (const Candidate &candidate : candidates) // profiles are built here
    sink += call(candidate);
  const double begin = now();
  int64_t calls = 0;
  while (now() - begin < 1) {
    for (const Candidate &candidate : candidates)
      sink += call(candidate);
    calls += static_cast<int64_t>(candidates.size());
  }
  if (sink < 0)
    std::puts(""); // never: keeps the calls
  return static_cast<double>(calls) / (now() - begin);
}

} // namespace

int main() {
  const Program program = shardwright::test::smallLlama({.sequence = 8192,
                                                         .hidden = 8192,
                                                         .kvHeads = 8,
                                                         .group = 8,
                                                         .headDim = 128,
                                                         .ffn = 28672,
                                                         .vocab = 128256,
                                                         .layers = 80});
  Failure failure;
  Hardware shipped, hardware;
  Profile profile;
  if (!readHardware(shippedHardware("dgx-h100"), "dgx-h100", shipped, failure) ||
      !resized(shipped, 1024, hardware, failure) ||
      !readProfile(shippedProfile("megatron-core"), "megatron-core", profile,
                   failure))
    return 1;
  Plan base;
  base.globalBatch = 1024;
  base.sequence = program.sequence;
  base.dtypes = profile.dtypes;
  const ProgramEstimator estimator(program, hardware, profile, base);

  std::vector<Candidate> candidates;
  for (int64_t tp : {1, 2, 4, 8})
    for (int64_t pp : {2, 4, 8, 16})
      for (int zero : {0, 1})
        for (Recompute policy :
             {Recompute::None, Recompute::Selective, Recompute::Full})
          for (int64_t first : {80 / pp - 1, 80 / pp}) {
            Candidate candidate;
            candidate.tp = tp;
            candidate.pp = pp;
            candidate.dp = 1024 / tp / pp;
            candidate.sp = tp > 1;
            candidate.zero = zero;
            candidate.recompute = policy;
            candidate.firstLayers = candidate.lastLayers = first;
            if (estimator.check(candidate, Depth::Batch).empty())
              candidates.push_back(candidate);
          }
  std::printf("%zu candidates: Llama 3 70B, 1,024 H100, batch 1,024\n",
              candidates.size());
  const double bounds = rate(candidates, [&](const Candidate &candidate) {
    return estimator.lowerBound(candidate, Depth::Complete).count();
  });
  std::printf("bounds of complete plans  %9.0f a second and core\n", bounds);
  const double estimates = rate(candidates, [&](const Candidate &candidate) {
    return estimator.estimate(candidate).stepTime.count();
  });
  std::printf("full estimates            %9.0f a second and core\n", estimates);
  return 0;
}

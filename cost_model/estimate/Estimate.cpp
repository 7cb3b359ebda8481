//===- Estimate.cpp - Time and memory of a plan ---------------------------===//
#include "cost_model/estimate/Estimate.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"
#include "cost_model/schedule/Timeline.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace shardwright::cost {
namespace {

class Composer {
public:
  Composer(const Program &program, const Hardware &hardware,
           const Profile &profile, const Plan &plan, EstimateCache &cache)
      : program(program), hardware(hardware), profile(profile), plan(plan),
        cache(cache), clock(hardware, profile, plan) {}

  Estimate run(Breakdown *breakdown) {
    const Stage *last = nullptr;
    for (int64_t stage = 0; stage < plan.pp; ++stage) {
      work.emplace_back();
      for (int64_t index : stagesOfRank(plan, stage)) {
        const Stage &own = plan.stages[static_cast<size_t>(index)];
        // Neighbours are often alike.
        const bool same = last && *last == own;
        chunkWork.push_back(same ? chunkWork.back() : workOf(own));
        if (!same && profile.exchangeBesideOther && !runsBeside(plan.schedule))
          exchangeBesideOther(chunkWork.back(), hardware, plan.microbatches(),
                              plan.pp);
        last = &own;
        if (const double speed = speedOf(stage); speed != 1) {
          slowDown(chunkWork.back(), speed);
          last = nullptr;
        }
        accumulate(work.back(), chunkWork.back());
      }
    }
    addShared();
    if (plan.offloadActivations)
      addHostTransfers();
    const Timeline timeline = runPipeline(plan.schedule, plan.microbatches(),
                                          pipelineTimes(), &cache.schedules);

    size_t end = 0;
    Seconds latest(-1);
    std::vector<Seconds> exposed;
    Seconds optimizer(0), gather(0);
    for (size_t i = 0; i < work.size(); ++i) {
      exposed.push_back(clock.exposedReduce(work[i]));
      if (timeline.stages[i].end + exposed[i] > latest) {
        latest = timeline.stages[i].end + exposed[i];
        end = i;
      }
      optimizer = maximum(optimizer, clock.optimizerTime(work[i]));
      gather = maximum(gather, clock.exposedGather(work[i]));
    }
    Estimate estimate;
    addStageTerms(estimate, end, timeline.stages[end]);
    const auto add = [&](const char *name, Seconds time) {
      estimate.terms.push_back({name, time});
    };
    add("dp_communication",
        exposed[end] +
            perChunk() * (ofChunks(end, &StageClock::shardedForward) +
                          ofChunks(end, &StageClock::shardedBackward)));
    add("embedding_communication", sharedReduce);
    add("optimizer", optimizer);
    add("parameter_gather", gather);
    add("synchronization", synchronizationTime(hardware, plan));
    const double excess = slowestExcess(hardware.device, plan.ranks());
    // Whoever computes most waits most for the slowest.
    Seconds computing(0);
    for (const StageWork &own : work) {
      Seconds sum(0);
      for (const LayerProfile *part : {&own.layers, &own.entrance, &own.exit})
        sum += part->forward + part->dataGrad + part->weightGrad;
      computing = maximum(computing, perChunk() * sum);
    }
    add("stragglers", excess * computing);
    for (const Term &term : estimate.terms)
      estimate.stepTime += term.time;
    if (breakdown)
      *breakdown = breakdownOf(timeline, end, excess, computing);
    return estimate;
  }

private:
  void addHostTransfers() {
    const double rate = hardware.host.link.count() * kHostLinkFraction;
    const std::vector<double> bytes =
        savedByChunks(program, hardware, profile, plan);
    for (size_t i = 0; i < chunkWork.size(); ++i) {
      chunkWork[i].toHost = Seconds(rate > 0 ? bytes[i] / rate : 0);
      work[i / static_cast<size_t>(plan.chunks)].toHost += chunkWork[i].toHost;
    }
  }

  /// Of the slowest device of a pipeline rank: those that share its layers wait
  /// for it, and the step for its pipeline.
  double speedOf(int64_t stage) const {
    double speed = 1;
    for (const SlowRank &slow : hardware.slowRanks)
      if (coordinates(plan, slow.rank)[axisNamed(plan, "pp")] == stage)
        speed = std::min(speed, slow.speed);
    return speed;
  }

  Breakdown breakdownOf(const Timeline &timeline, size_t last, double excess,
                        Seconds computing) const {
    Breakdown breakdown;
    for (size_t i = 0; i < work.size(); ++i) {
      const StageWork &own = work[i];
      StageBreakdown stage;
      stage.work = own.layers;
      accumulate(stage.work, own.entrance, 1);
      accumulate(stage.work, own.exit, 1);
      stage.line = timeline.stages[i];
      stage.reduce = own.reduce;
      stage.exposedReduce = clock.exposedReduce(own);
      stage.gather = own.gather;
      stage.exposedGather = clock.exposedGather(own);
      stage.toHost = own.toHost;
      stage.savedForward = ofChunks(i, &StageClock::savedForward);
      stage.savedBackward = ofChunks(i, &StageClock::savedBackward);
      stage.shardedForward = ofChunks(i, &StageClock::shardedForward);
      stage.shardedBackward = ofChunks(i, &StageClock::shardedBackward);
      stage.optimizer = clock.optimizerTime(own);
      stage.hostUpdate = clock.hostTime(own);
      stage.elements = own.elements;
      stage.stateElements = own.stateElements;
      stage.optimizerBytes = clock.optimizerBytes(own);
      breakdown.stages.push_back(stage);
    }
    breakdown.last = last;
    breakdown.pipeline = pipelineTimes();
    breakdown.excess = excess;
    breakdown.computing = computing;
    breakdown.shared = sharedReduce;
    return breakdown;
  }

  /// Microbatches that pass a chunk.
  double perChunk() const {
    return static_cast<double>(
        chunkMicrobatches(plan.schedule, plan.microbatches()));
  }

  StageWork workOf(const Stage &stage) {
    StageWork sum;
    for (const StageRun &run : stage.runs) {
      const int kind = kindIndex(program, run.kind);
      assert(kind >= 0 && "a legal plan runs kinds of its program");
      const Kind &type = program.kinds[static_cast<size_t>(kind)];
      const ParameterBlock &block = cache.block(program, plan, kind);
      addLayers(sum,
                !takesStream(type)   ? sum.entrance
                : !givesStream(type) ? sum.exit
                                     : sum.layers,
                cache.layer(program, hardware, profile, plan, kind,
                            run.recompute),
                block, cache.times(program, hardware, profile, plan, kind),
                run.count);
    }
    return sum;
  }

  /// Parameters that several kinds use: they belong to every stage that uses
  /// them, and their gradients are summed over these stages.
  void addShared() {
    for (size_t stage = 0; stage < work.size(); ++stage) {
      bool shares = false;
      forEachRun(
          plan, static_cast<int64_t>(stage), [&](const StageRun &run, int64_t) {
            for (const Parameter &parameter :
                 program
                     .kinds[static_cast<size_t>(kindIndex(program, run.kind))]
                     .parameters)
              shares = shares || !parameter.shared.empty();
          });
      if (!shares)
        continue;
      const ParameterBlock &block =
          cache.shared(program, plan, static_cast<int64_t>(stage));
      const BlockTimes times = blockTimes(plan, hardware, profile, block);
      work[stage].reduce += times.reduce;
      work[stage].largestReduce =
          maximum(work[stage].largestReduce, times.reduce);
      work[stage].gather += times.gather;
      work[stage].reduceShards += times.reduceShards;
      work[stage].elements = checkedAdd(work[stage].elements, block.elements);
      work[stage].stateElements =
          checkedAdd(work[stage].stateElements, block.stateElements);
      if (stage == 0 || plan.pp == 1)
        continue;
      // First and last stage, far apart; every rank of a node does the same.
      Seconds sum(0);
      for (const Bucket &bucket : block.buckets)
        sum += collectiveTime(
            hardware, Collective::AllReduce,
            Bytes(checkedMul(bucket.elements, byteWidth(plan.dtypes.grad))),
            placeGroup(2, pipelineStride(plan) * static_cast<int64_t>(stage),
                       hardware.ranksPerNode()));
      sharedReduce = maximum(sharedReduce, sum);
    }
  }

  PipelineTimes pipelineTimes() const {
    PipelineTimes times;
    times.stages = plan.pp;
    times.chunks = plan.chunks;
    times.group = plan.group;
    for (const StageWork &own : chunkWork) {
      StageTimes entry{own.layers.forwardAll() + own.entrance.forwardAll() +
                           own.exit.forwardAll() + clock.shardedForward(own) +
                           clock.savedForward(own),
                       own.layers.dataGradAll() + own.entrance.dataGradAll() +
                           own.exit.dataGradAll() + clock.shardedBackward(own) +
                           clock.savedBackward(own),
                       own.layers.weightGrad + own.entrance.weightGrad +
                           own.exit.weightGrad,
                       hiddenBeside(own)};
      times.times.push_back(entry);
    }
    if (plan.pp == 1)
      return times;
    times.sendForward = times.sendBackward =
        borderTime(program, hardware, profile, plan);
    times.overlapTransfers = profile.overlapTransfers;
    return times;
  }

  /// A forward beside the backward of another chunk: the exchanges of experts of
  /// either run beside the other's compute.
  Seconds hiddenBeside(const StageWork &own) const {
    const LayerProfile &layers = own.layers;
    const Seconds exchanges = layers.forwardExchange + layers.backwardExchange;
    return exchanges -
           exposedTime(hardware, exchanges,
                       layers.forward + layers.dataGrad + layers.weightGrad);
  }

  /// What shows in a microbatch on all chunks of a rank: each chunk hides what it
  /// moves behind its own work, as on the timeline.
  Seconds ofChunks(size_t rank,
                   Seconds (StageClock::*shown)(const StageWork &) const) const {
    const auto chunks = static_cast<size_t>(plan.chunks);
    Seconds sum(0);
    for (size_t i = rank * chunks; i < (rank + 1) * chunks; ++i)
      sum += (clock.*shown)(chunkWork[i]);
    return sum;
  }

  void addStageTerms(Estimate &estimate, size_t rank,
                     const StageTimeline &line) const {
    const StageWork &own = work[rank];
    const Seconds offload = ofChunks(rank, &StageClock::savedForward) +
                            ofChunks(rank, &StageClock::savedBackward);
    LayerProfile sum = own.layers;
    accumulate(sum, own.entrance, 1);
    accumulate(sum, own.exit, 1);
    const double count = perChunk();
    const auto add = [&](const char *name, Seconds time) {
      estimate.terms.push_back({name, time});
    };
    add("compute_forward", count * sum.forward);
    add("compute_backward",
        count * (sum.dataGrad - sum.recompute + sum.weightGrad));
    add("recompute", count * sum.recompute);
    add("tp_communication",
        count * (sum.forwardCommunication + sum.backwardCommunication));
    add("cp_communication",
        count * (sum.forwardContext + sum.backwardContext));
    Seconds exchange = count * (sum.forwardExchange + sum.backwardExchange);
    if (runsBeside(plan.schedule)) {
      // What forwards beside backwards hid is in nobody's way.
      const Seconds apart =
          count * (sum.forwardAll() + sum.dataGradAll() + sum.weightGrad +
                   ofChunks(rank, &StageClock::shardedForward) +
                   ofChunks(rank, &StageClock::shardedBackward) + offload);
      exchange = maximum(Seconds(0), exchange - (apart - line.busy));
    }
    add("ep_communication", exchange);
    add("host", count * (sum.forwardHost + sum.backwardHost));
    add("offload", count * offload);
    add("pp_communication", line.transfer);
    add("pp_bubble", line.idle);
  }

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan &plan;
  EstimateCache &cache;
  const StageClock clock;
  std::vector<StageWork> work;      ///< of the ranks of a pipeline
  std::vector<StageWork> chunkWork; ///< [rank * chunks + chunk]
  Seconds sharedReduce;
};

} // namespace

Estimate estimateTime(const Program &program, const Hardware &hardware,
                      const Profile &profile, const Plan &plan,
                      EstimateCache *cache, Breakdown *breakdown) {
  std::optional<EstimateCache> own;
  if (!cache)
    cache = &own.emplace();
  Estimate estimate =
      Composer(program, hardware, profile, plan, *cache).run(breakdown);
  const double tokens = static_cast<double>(plan.globalBatch) *
                        static_cast<double>(program.sequence);
  const double ranks = static_cast<double>(plan.ranks());
  const double seconds = estimate.stepTime.count();
  estimate.tokensPerSecondPerGpu = tokens / seconds / ranks;
  estimate.modelFlopsUtilization =
      modelFlopsPerToken(program, FlopsConvention::CausalHalved) * tokens /
      (seconds * ranks * arithmeticRate(hardware.device, plan.dtypes.compute));
  return estimate;
}

Estimate estimate(const Program &program, const Hardware &hardware,
                  const Profile &profile, const Plan &plan,
                  EstimateCache *cache) {
  Estimate estimate = estimateTime(program, hardware, profile, plan, cache);
  estimate.stages = estimateMemory(program, hardware, profile, plan);
  estimate.fits = true;
  for (const StageEstimate &stage : estimate.stages)
    estimate.fits =
        estimate.fits && staysBelow(stage.total(), hardware.device.usable);
  return estimate;
}

} // namespace shardwright::cost

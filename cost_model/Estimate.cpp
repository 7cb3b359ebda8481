//===- Estimate.cpp - Time and memory of a plan ---------------------------===//
#include "cost_model/Estimate.h"
#include "cost_model/Collective.h"
#include "cost_model/Kernel.h"
#include "cost_model/LayerTable.h"
#include "cost_model/Timeline.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shardwright::cost {
namespace {

/// Sums over the layers of a stage, of one microbatch.
struct StageWork {
  LayerProfile layers;           ///< of kinds that take and give a stream
  LayerProfile entrance;         ///< of kinds that only give one (embedding)
  LayerProfile exit;             ///< of kinds that only take one (head)
  Seconds reduce, largestReduce; ///< gradient reduction; of one layer
  Seconds gather;                ///< of updated parameters
  int64_t elements = 0;          ///< parameters of a rank
  int64_t stateElements = 0;     ///< of its optimizer state
};

void accumulate(LayerProfile &sum, const LayerProfile &layer, int64_t count) {
  const double times = static_cast<double>(count);
  sum.forward += times * layer.forward;
  sum.dataGrad += times * layer.dataGrad;
  sum.weightGrad += times * layer.weightGrad;
  sum.recompute += times * layer.recompute;
  sum.forwardCommunication += times * layer.forwardCommunication;
  sum.backwardCommunication += times * layer.backwardCommunication;
  sum.forwardExchange += times * layer.forwardExchange;
  sum.backwardExchange += times * layer.backwardExchange;
  sum.forwardHost += times * layer.forwardHost;
  sum.backwardHost += times * layer.backwardHost;
}

void accumulate(StageWork &sum, const StageWork &chunk) {
  accumulate(sum.layers, chunk.layers, 1);
  accumulate(sum.entrance, chunk.entrance, 1);
  accumulate(sum.exit, chunk.exit, 1);
  sum.reduce += chunk.reduce;
  sum.largestReduce = maximum(sum.largestReduce, chunk.largestReduce);
  sum.gather += chunk.gather;
  sum.elements = checkedAdd(sum.elements, chunk.elements);
  sum.stateElements = checkedAdd(sum.stateElements, chunk.stateElements);
}

Seconds forwardTime(const LayerProfile &layer) { return layer.forwardAll(); }
Seconds dataGradTime(const LayerProfile &layer) { return layer.dataGradAll(); }

/// Placement of a group over neighbouring mesh axes.
Placement placementOf(const Plan &plan, const Hardware &hardware,
                      const std::vector<Axis> &axes) {
  if (axes.empty())
    return {};
  int64_t stride = 1;
  for (size_t axis = axes.back() + size_t(1); axis < plan.mesh.size(); ++axis)
    stride *= plan.mesh[axis].size;
  return placeGroup(degree(plan, axes), stride, hardware.ranksPerNode());
}

struct BlockTimes {
  Seconds reduce, gather;
};

/// Reduction and gathering of one block, bucket by bucket (D8).
BlockTimes blockTimes(const Plan &plan, const Hardware &hardware,
                      const Profile &profile, const ParameterBlock &block) {
  BlockTimes times;
  const int64_t gradWidth =
      profile.reducedGradientBytes > 0
          ? static_cast<int64_t>(profile.reducedGradientBytes)
          : byteWidth(plan.dtypes.grad);
  const int64_t paramWidth = byteWidth(plan.dtypes.param);
  for (const Bucket &bucket : block.buckets) {
    const Placement data = placementOf(plan, hardware, bucket.dataAxes);
    const Bytes gradient(checkedMul(bucket.elements, gradWidth));
    if (!bucket.extraReduceAxes.empty())
      times.reduce +=
          collectiveTime(hardware, Collective::AllReduce, gradient,
                         placeGroup(degree(plan, bucket.extraReduceAxes), 1,
                                    hardware.ranksPerNode()));
    if (stageOwners(plan.schedule) > 1) // half a pipeline apart, on average
      times.reduce += collectiveTime(
          hardware, Collective::AllReduce, gradient,
          placeGroup(2, plan.dp * plan.tp * std::max<int64_t>(1, plan.pp / 2),
                     hardware.ranksPerNode()));
    if (data.ranks > 1)
      times.reduce += memoryTime(
          hardware.device, KernelClass::Elementwise,
          Bytes(static_cast<int64_t>(static_cast<double>(bucket.elements) *
                                     profile.reductionTraffic)));
    times.reduce += collectiveTime(hardware,
                                   plan.zero == 0 || profile.allReduceUnderZero
                                       ? Collective::AllReduce
                                       : Collective::ReduceScatter,
                                   gradient, data);
    if (plan.zero == 0)
      continue;
    times.gather += collectiveTime(
        hardware, Collective::AllGather,
        Bytes(checkedMul(bucket.elements / bucket.shards, paramWidth)), data);
  }
  return times;
}

/// How much slower than the mean the slowest of `ranks` devices is, if speeds
/// are normal: the expected largest of n standard normals, by Blom's
/// quantile (n - 0.375) / (n + 0.25), times the deviation. For large n the
/// quantile is sqrt(2 ln n) to first order; 3.2 at n = 1024.
double slowestExcess(const Device &device, int64_t ranks) {
  if (ranks <= 1)
    return 0;
  const double n = static_cast<double>(ranks);
  const double tail = 1 - (n - 0.375) / (n + 0.25);
  // Abramowitz and Stegun 26.2.23, |error| < 4.5e-4.
  const double t = std::sqrt(-2 * std::log(tail));
  const double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                           (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return device.speedDeviation * z;
}

class Composer {
public:
  Composer(const Program &program, const Hardware &hardware,
           const Profile &profile, const Plan &plan, EstimateCache &cache)
      : program(program), hardware(hardware), profile(profile), plan(plan),
        cache(cache) {}

  Estimate run() {
    for (int64_t stage = 0; stage < plan.pp; ++stage) {
      work.emplace_back();
      for (int64_t index : stagesOfRank(plan, stage)) {
        chunkWork.push_back(workOf(plan.stages[static_cast<size_t>(index)]));
        accumulate(work.back(), chunkWork.back());
      }
    }
    addShared();
    const Timeline timeline = runPipeline(plan.schedule, plan.microbatches(),
                                          pipelineTimes(), &cache.schedules);

    size_t last = 0;
    Seconds latest(-1);
    std::vector<Seconds> exposed;
    Seconds optimizer(0), gather(0);
    for (size_t i = 0; i < work.size(); ++i) {
      exposed.push_back(exposedReduce(work[i]));
      if (timeline.stages[i].end + exposed[i] > latest) {
        latest = timeline.stages[i].end + exposed[i];
        last = i;
      }
      optimizer = maximum(optimizer, optimizerTime(work[i]));
      gather = maximum(gather, exposedGather(work[i]));
    }
    Estimate estimate;
    addStageTerms(estimate, work[last], timeline.stages[last]);
    const auto add = [&](const char *name, Seconds time) {
      estimate.terms.push_back({name, time});
    };
    add("dp_communication",
        exposed[last] +
            perChunk() *
                (shardedForward(work[last]) + shardedBackward(work[last])));
    add("embedding_communication", sharedReduce);
    add("optimizer", optimizer);
    add("parameter_gather", gather);
    add("synchronization",
        collectiveTime(hardware, Collective::AllReduce, Bytes(16),
                       placeGroup(plan.ranks(), 1, hardware.ranksPerNode())));
    const double excess = slowestExcess(hardware.device, plan.ranks());
    Seconds computing(0);
    for (const Term &term : estimate.terms)
      if (term.name == "compute_forward" || term.name == "compute_backward" ||
          term.name == "recompute")
        computing += term.time;
    add("stragglers", excess * computing);
    for (const Term &term : estimate.terms)
      estimate.stepTime += term.time;
    return estimate;
  }

private:
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
      const LayerProfile &layer =
          cache.layer(program, hardware, profile, plan, kind, run.recompute);
      const Kind &type = program.kinds[static_cast<size_t>(kind)];
      accumulate(!takesStream(type)   ? sum.entrance
                 : !givesStream(type) ? sum.exit
                                      : sum.layers,
                 layer, run.count);
      const ParameterBlock &block =
          cache.facts(program, plan, kind, run.recompute).block;
      const BlockTimes times = blockTimes(plan, hardware, profile, block);
      const double count = static_cast<double>(run.count);
      sum.reduce += count * times.reduce;
      sum.largestReduce = maximum(sum.largestReduce, times.reduce);
      sum.gather += count * times.gather;
      sum.elements =
          checkedAdd(sum.elements, checkedMul(run.count, block.elements));
      sum.stateElements = checkedAdd(
          sum.stateElements, checkedMul(run.count, block.stateElements));
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
            placeGroup(2, plan.dp * plan.tp * static_cast<int64_t>(stage),
                       hardware.ranksPerNode()));
      sharedReduce = maximum(sharedReduce, sum);
    }
  }

  PipelineTimes pipelineTimes() const {
    PipelineTimes times;
    times.stages = plan.pp;
    times.chunks = plan.chunks;
    for (const StageWork &own : chunkWork) {
      StageTimes entry{forwardTime(own.layers) + forwardTime(own.entrance) +
                           forwardTime(own.exit) + shardedForward(own),
                       dataGradTime(own.layers) + dataGradTime(own.entrance) +
                           dataGradTime(own.exit) + shardedBackward(own),
                       own.layers.weightGrad + own.entrance.weightGrad +
                           own.exit.weightGrad,
                       hiddenBeside(own)};
      times.times.push_back(entry);
    }
    if (plan.pp == 1)
      return times;
    const Bytes stream = streamBytes(program, plan);
    Bytes sent = stream;
    Seconds gather(0);
    if (profile.scatterTransfers && !plan.sp && plan.tp > 1) {
      sent = Bytes(ceilDiv(stream.count(), plan.tp));
      gather = collectiveTime(hardware, Collective::AllGather, sent,
                              placeGroup(plan.tp, 1, hardware.ranksPerNode()));
    }
    times.sendForward = times.sendBackward =
        transferTime(hardware, sent, plan.dp * plan.tp, plan.pp) + gather;
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

  /// ZeRO 3 gathers the parameters of a layer before it runs, forward and again
  /// backward, and ZeRO 2 once for both; either reduces the gradients of every
  /// microbatch. The next layer's transfers run beside a layer if the profile
  /// overlaps, so only what is longer than the layers shows.
  Seconds shardedForward(const StageWork &own) const {
    if (plan.zero < 2)
      return Seconds(0);
    return profile.overlapParameterGather
               ? exposedTime(hardware, own.gather, own.layers.forward)
               : own.gather;
  }
  Seconds shardedBackward(const StageWork &own) const {
    if (plan.zero < 2)
      return Seconds(0);
    const Seconds transfers =
        plan.zero == 3 ? own.gather + own.reduce : own.reduce;
    return profile.overlapGradientReduce
               ? exposedTime(hardware, transfers,
                             own.layers.dataGrad + own.layers.weightGrad)
               : transfers;
  }
  Seconds exposedReduce(const StageWork &own) const {
    if (plan.zero >= 2) // the last one of a step
      return profile.overlapGradientReduce ? own.largestReduce : Seconds(0);
    if (!profile.overlapGradientReduce)
      return own.reduce;
    // All but the last bucket may hide behind the last microbatch's backward.
    const Seconds cover = own.layers.dataGrad + own.layers.weightGrad;
    return maximum(own.largestReduce, exposedInChunks(own.reduce, cover));
  }
  /// exposedTime of a transfer whose parts belong to the chunks of a stage. Of
  /// interleaved chunks each runs pp microbatches in a row, and only the part
  /// of the last (first) one has no more than its own microbatch to hide
  /// behind.
  Seconds exposedInChunks(Seconds transfer, Seconds cover) const {
    const double part =
        plan.schedule == ScheduleKind::Interleaved
            ? 1.0 / static_cast<double>(plan.chunks)
            : 1.0;
    const Seconds early = (1 - part) * transfer;
    const Seconds room = (1 - part) * static_cast<double>(plan.pp) * cover;
    return exposedTime(hardware,
                       part * transfer + maximum(Seconds(0), early - room),
                       part * cover);
  }
  Seconds exposedGather(const StageWork &own) const {
    if (plan.zero >= 2)
      return Seconds(0);
    return profile.overlapParameterGather
               ? exposedInChunks(own.gather, own.layers.forward)
               : own.gather;
  }
  Seconds optimizerTime(const StageWork &own) const {
    const double bytes =
        static_cast<double>(own.stateElements) *
            profile.stateBytesPerParameter +
        static_cast<double>(own.elements) * profile.gradientBytesPerParameter;
    return memoryTime(hardware.device, KernelClass::Optimizer,
                      Bytes(static_cast<int64_t>(bytes)));
  }

  void addStageTerms(Estimate &estimate, const StageWork &own,
                     const StageTimeline &line) const {
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
    Seconds exchange = count * (sum.forwardExchange + sum.backwardExchange);
    if (plan.schedule == ScheduleKind::DualPipe ||
        plan.schedule == ScheduleKind::DualPipeV) {
      // What forwards beside backwards hid is in nobody's way.
      const Seconds apart =
          count * (sum.forwardAll() + sum.dataGradAll() + sum.weightGrad +
                   shardedForward(own) + shardedBackward(own));
      exchange = maximum(Seconds(0), exchange - (apart - line.busy));
    }
    add("ep_communication", exchange);
    add("host", count * (sum.forwardHost + sum.backwardHost));
    add("pp_communication", line.transfer);
    add("pp_bubble", line.idle);
  }

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan &plan;
  EstimateCache &cache;
  std::vector<StageWork> work;      ///< of the ranks of a pipeline
  std::vector<StageWork> chunkWork; ///< [rank * chunks + chunk]
  Seconds sharedReduce;
};

/// Context and library memory, and what fragmentation loses.
Bytes outsideBytes(const Profile &profile, const MemoryParts &memory) {
  return profile.frameworkBytes +
         Bytes(static_cast<int64_t>(
             profile.allocatorSlack *
             static_cast<double>((memory.saved + memory.workspace).count())));
}

/// Bytes that a framework holds on a rank of `stage` beside our arena.
Bytes frameworkBytes(const Program &program, const Hardware &hardware,
                     const Profile &profile, const Plan &plan, int64_t stage,
                     const MemoryParts &memory,
                     const std::vector<InFlight> &moments) {
  double bytes = static_cast<double>(outsideBytes(profile, memory).count());
  const double stream =
      static_cast<double>(streamBytes(program, plan).count()) /
      static_cast<double>(byteWidth(plan.dtypes.compute));
  const double scores = static_cast<double>(program.sequence) *
                        static_cast<double>(program.sequence) *
                        static_cast<double>(plan.microBatch) *
                        static_cast<double>(program.heads) /
                        static_cast<double>(plan.tp);
  // What eager kernels keep of the two norms and the activation of a layer.
  const double eager =
      2 * profile.norm.saved * stream +
      profile.activation.saved * static_cast<double>(program.sequence) *
          static_cast<double>(plan.microBatch) *
          static_cast<double>(program.ffn) / static_cast<double>(plan.tp);
  const bool unfused = attentionIsUnfused(hardware.device, profile);
  // Bytes that a microbatch holds, per chunk.
  std::vector<double> held(static_cast<size_t>(plan.chunks), 0);
  forEachRun(plan, stage, [&](const StageRun &run, int64_t chunk) {
    const Kind &kind =
        program.kinds[static_cast<size_t>(kindIndex(program, run.kind))];
    if (!givesStream(kind)) // the head
      bytes += profile.loss.saved * static_cast<double>(program.sequence) *
               static_cast<double>(plan.microBatch) *
               static_cast<double>(paddedVocab(program.vocab, plan.tp)) /
               (profile.gatherLogits ? 1.0 : static_cast<double>(plan.tp));
    if (!takesStream(kind) || !givesStream(kind))
      return;
    double &own = held[static_cast<size_t>(chunk)];
    const double count = static_cast<double>(run.count);
    if (run.recompute != Recompute::Full)
      own += count * (profile.savedMaskBytes * stream + eager);
    if (unfused && run.recompute == Recompute::None)
      own += count * profile.scoreSavedBytes * scores;
  });
  double most = 0;
  for (const InFlight &moment : moments) {
    double sum = 0;
    for (size_t chunk = 0; chunk < held.size(); ++chunk)
      sum += static_cast<double>(moment.saved[chunk]) * held[chunk];
    most = std::max(most, sum);
  }
  bytes += most;
  bytes += eager; // of the layer at work, as the scores
  if (unfused)
    bytes += profile.scoreSavedBytes * scores;
  return Bytes(static_cast<int64_t>(bytes));
}

} // namespace

Bytes StageEstimate::total() const { return memory.total() + framework; }

EstimateCache::Key EstimateCache::key(const Plan &plan, int kind,
                                      Recompute policy) {
  return {kind,
          static_cast<int64_t>(policy),
          plan.tp,
          plan.sp,
          plan.microBatch,
          static_cast<int64_t>(plan.dtypes.param),
          static_cast<int64_t>(plan.dtypes.compute),
          static_cast<int64_t>(plan.dtypes.reduce),
          static_cast<int64_t>(plan.dtypes.grad),
          static_cast<int64_t>(plan.dtypes.master),
          0,
          0,
          plan.ep,
          plan.etp,
          plan.ep * plan.etp > 1 ? plan.dp : 0,
          0};
}

const LayerProfile &EstimateCache::layer(const Program &program,
                                         const Hardware &hardware,
                                         const Profile &profile,
                                         const Plan &plan, int kind,
                                         Recompute policy) {
  const Key at = key(plan, kind, policy);
  auto found = layers.find(at);
  if (found == layers.end()) {
    const Kind &type = program.kinds[static_cast<size_t>(kind)];
    found = layers
                .emplace(at, profileLayer(plan, type, type.variant(policy),
                                          hardware, profile))
                .first;
  }
  return found->second;
}

const ParameterBlock &EstimateCache::shared(const Program &program,
                                            const Plan &plan, int64_t stage) {
  // The block depends on which kinds the stage runs, not on how many layers.
  int64_t kinds = 0;
  forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
    kinds |= int64_t(1) << kindIndex(program, run.kind);
  });
  Key at = key(plan, 0, Recompute::None);
  at[0] = kinds;
  at[10] = plan.dp;
  at[11] = plan.zero;
  auto found = sharedBlocks.find(at);
  if (found == sharedBlocks.end())
    found = sharedBlocks.emplace(at, sharedBlock(plan, program, stage)).first;
  return found->second;
}

const LayerFacts &EstimateCache::facts(const Program &program, const Plan &plan,
                                       int kind, Recompute policy) {
  Key at = key(plan, kind, policy);
  at[10] = plan.dp;
  at[11] = plan.zero;
  auto found = layerFactsOf.find(at);
  if (found == layerFactsOf.end()) {
    const Kind &type = program.kinds[static_cast<size_t>(kind)];
    found =
        layerFactsOf.emplace(at, layerFacts(plan, type, type.variant(policy)))
            .first;
  }
  return found->second;
}

StageEstimate estimateStageMemory(const Program &program,
                                  const Hardware &hardware,
                                  const Profile &profile, const Plan &plan,
                                  const LayerTable &table, int64_t stage,
                                  const ScheduleFacts *facts) {
  const ScheduleFacts made = facts ? ScheduleFacts() : scheduleFacts(plan);
  if (!facts)
    facts = &made;
  MemoryParts parts = memoryOf(program, plan, table, stage, facts);
  if (plan.zero >= 2) {
    // Gradients of a microbatch are reduced at once; ZeRO 3 holds the
    // parameters of the layer at work and of the next.
    const double shards = static_cast<double>(plan.dp);
    const double layers =
        static_cast<double>(program.layers) / static_cast<double>(plan.pp);
    const double whole = std::min(1.0, 2 / layers);
    const auto scaled = [](Bytes bytes, double factor) {
      return Bytes(
          static_cast<int64_t>(static_cast<double>(bytes.count()) * factor));
    };
    parts.gradients = scaled(parts.gradients, 1 / shards + whole);
    if (plan.zero == 3)
      parts.parameters = scaled(parts.parameters, 1 / shards + whole);
  }
  StageEstimate estimate;
  estimate.memory = parts;
  estimate.framework =
      frameworkBytes(program, hardware, profile, plan, stage, parts,
                     facts->inFlight[static_cast<size_t>(stage)]);
  estimate.outside = outsideBytes(profile, parts);
  return estimate;
}

std::vector<StageEstimate> estimateMemory(const Program &program,
                                          const Hardware &hardware,
                                          const Profile &profile,
                                          const Plan &plan) {
  const LayerTable table(program, plan);
  const ScheduleFacts facts = scheduleFacts(plan);
  std::vector<StageEstimate> stages;
  for (int64_t stage = 0; stage < plan.pp; ++stage)
    stages.push_back(estimateStageMemory(program, hardware, profile, plan,
                                         table, stage, &facts));
  return stages;
}

Estimate estimateTime(const Program &program, const Hardware &hardware,
                      const Profile &profile, const Plan &plan,
                      EstimateCache *cache) {
  EstimateCache own;
  Estimate estimate =
      Composer(program, hardware, profile, plan, cache ? *cache : own).run();
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
    estimate.fits = estimate.fits && stage.total() <= hardware.device.usable;
  return estimate;
}

} // namespace shardwright::cost

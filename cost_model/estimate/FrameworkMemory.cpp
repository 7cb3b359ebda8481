//===- FrameworkMemory.cpp - What a framework holds beside the arena ------===//
#include "cost_model/estimate/Estimate.h"
#include "cost_model/hardware/Kernel.h"
#include "cost_model/partition/LayerTable.h"
#include "cost_model/rules/Framework.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {
namespace {

/// Gathered logits and their gradient, 16 bits each.
constexpr double kGatheredBytes = 4;

/// Context, libraries and buffers of the communicators that a rank is in. A
/// pipeline has a communicator of its own for each neighbour.
Bytes contextBytes(const Profile &profile, const Plan &plan) {
  const int64_t communicators = (plan.tp > 1 ? 1 : 0) + (plan.cp > 1 ? 1 : 0) +
                                (plan.dp * plan.cp > 1 ? 1 : 0) +
                                (plan.ep > 1 ? 1 : 0) + (plan.pp > 1 ? 2 : 0);
  return profile.frameworkBytes + communicators * profile.communicatorBytes;
}

Bytes rounded(double bytes) { return Bytes(static_cast<int64_t>(bytes)); }

/// What a profile says of the memory of one rank of a stage.
class FrameworkMemory {
public:
  FrameworkMemory(const Program &program, const Hardware &hardware,
                  const Profile &profile, const Plan &plan,
                  const LayerTable &table, int64_t stage,
                  const std::vector<InFlight> &moments)
      : program(program), profile(profile), plan(plan), table(table),
        stage(stage), moments(moments),
        unfused(attentionIsUnfused(hardware.device, profile)),
        tokens(static_cast<double>(program.sequence) /
               static_cast<double>(plan.cp) *
               static_cast<double>(plan.microBatch)) {
    scores = tokens * static_cast<double>(program.sequence) *
             static_cast<double>(program.heads) / static_cast<double>(plan.tp);
    stream = static_cast<double>(streamBytes(program, plan).count()) /
             static_cast<double>(byteWidth(plan.dtypes.compute));
    // What eager kernels keep of the two norms and the activation of a layer.
    eager = 2 * profile.norm.saved * stream +
            profile.activation.saved * tokens *
                static_cast<double>(program.ffn) /
                static_cast<double>(plan.tp);
  }

  /// Saved values that the framework keeps otherwise than the arena does: the
  /// output of recomputed attention, inputs of products in 8 bits. May be
  /// negative.
  double otherwiseSaved() const {
    return largestHeld(
        [&](const StageRun &run) { return otherwiseSavedBy(run); });
  }

  /// What layers save for a microbatch, a chunk at a time.
  std::vector<double> savedByChunk() const {
    return heldByChunk([&](const StageRun &run) { return savedBy(run); });
  }

  /// Of all that layers save: the layer at work and the one whose copy is under
  /// way keep theirs on the device, the others' goes to the host.
  double savedOnHost() const {
    double largest = 0;
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      if (isLayer(kindOf(run)))
        largest = std::max(largest, savedBy(run));
    });
    return std::max(
        0.0, largestHeld([&](const StageRun &run) { return savedBy(run); }) -
                 2 * largest);
  }

  /// What kernels that are not fused hold: masks, scores, copies of logits.
  double eagerBytes() const {
    double bytes =
        largestHeld([&](const StageRun &run) { return eagerSavedBy(run); });
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      if (!isHead(run))
        return;
      // Gathered logits lie beside their parts.
      bytes += (profile.loss.saved +
                (profile.gatherLogits && plan.tp > 1 ? kGatheredBytes : 0)) *
               tokens / static_cast<double>(profile.lossParts) *
               static_cast<double>(paddedVocab(program.vocab, plan.tp)) /
               (profile.gatherLogits ? 1.0 : static_cast<double>(plan.tp));
    });
    bytes += eager; // of the layer at work, as the scores
    if (unfused)
      bytes += profile.scoreSavedBytes * scores;
    return bytes;
  }

  /// 16-bit gradients that autograd makes before they are added to a buffer of
  /// their own, as far as they outgrow what the microbatch has given back by
  /// then.
  double gradientCopies(const MemoryParts &parts) const {
    if (profile.gradientCopyBytes == 0)
      return 0;
    int64_t most = 1;
    for (const InFlight &moment : moments)
      for (int64_t saved : moment.saved)
        most = std::max(most, saved);
    const double freed = static_cast<double>(parts.saved.count()) /
                         static_cast<double>(most);
    return std::max(0.0, profile.gradientCopyBytes * elements(parts) - freed);
  }

  /// By how much the largest temporaries shrink where the head goes over parts
  /// of a sequence: what it saves of a part is one of them.
  Bytes smallerWorkspace() const {
    Bytes whole(0), inParts(0);
    forEachRun(plan, stage, [&](const StageRun &run, int64_t) {
      const LayerMemory &layer = table.of(run).memory;
      whole = std::max(whole, layer.workspace);
      inParts = std::max(
          inParts,
          isHead(run) && profile.lossParts > 1
              ? Bytes(ceilDiv((layer.workspace + savedIn(layer)).count(),
                              profile.lossParts))
              : layer.workspace);
    });
    return whole - std::min(whole, inParts);
  }

  /// Flat 16-bit buckets of a data-parallel wrapper.
  double bucketBytes(const MemoryParts &parts) const {
    return plan.dp * plan.cp > 1
               ? profile.bucketBytesPerParameter * elements(parts)
               : 0;
  }

  /// What the update makes and leaves: the allocator gives it no blocks of the
  /// backward pass, whose sizes are others.
  double updateBytes(const MemoryParts &parts) const {
    return profile.updateBytesPerParameter *
           static_cast<double>(parts.optimizer.count()) /
           static_cast<double>(optimizerBytesPerElement(plan.dtypes));
  }

private:
  const Kind &kindOf(const StageRun &run) const {
    return program.kinds[static_cast<size_t>(kindIndex(program, run.kind))];
  }

  bool isHead(const StageRun &run) const { return !givesStream(kindOf(run)); }

  /// What a layer saves beside its stream.
  static Bytes savedIn(const LayerMemory &layer) {
    Bytes bytes(0);
    for (const SavedPart &part : layer.parts)
      bytes += part.bytes;
    return bytes;
  }

  double otherwiseSavedBy(const StageRun &run) const {
    const LayerMemory &layer = table.of(run).memory;
    if (!isLayer(kindOf(run)))
      return isHead(run) && profile.lossParts > 1
                 ? -static_cast<double>(savedIn(layer).count())
                 : 0;
    Bytes bytes(0);
    if (run.recompute == Recompute::Selective && profile.selectiveKeepsOutput)
      bytes += layer.attention;
    if (profile.keepsGatheredInputs && plan.sp && plan.tp > 1 &&
        run.recompute != Recompute::Full) // behind either norm
      bytes += 2 * (plan.tp - 1) * streamBytes(program, plan);
    if (run.recompute != Recompute::Full)
      for (const SavedPart &part : layer.parts) {
        if (profile.redoes(part.label)) {
          bytes = bytes - part.bytes;
          continue;
        }
        if (plan.dtypes.products != Narrow::None)
          bytes += part.narrow;
        if (part.routed)
          bytes += rounded((profile.expertImbalance - 1) *
                           static_cast<double>(part.bytes.count()));
      }
    return static_cast<double>(bytes.count());
  }
  double eagerSavedBy(const StageRun &run) const {
    if (!isLayer(kindOf(run)))
      return 0;
    double own = 0;
    if (run.recompute != Recompute::Full)
      own += profile.savedMaskBytes * stream + eager;
    if (unfused && run.recompute == Recompute::None)
      own += profile.scoreSavedBytes * scores;
    return own;
  }
  double savedBy(const StageRun &run) const {
    if (!isLayer(kindOf(run)))
      return 0;
    return static_cast<double>(table.of(run).memory.saved.count()) +
           otherwiseSavedBy(run) + eagerSavedBy(run);
  }

  /// What `of` says that a run holds in each of its layers, over a chunk.
  template <typename Of> std::vector<double> heldByChunk(Of of) const {
    std::vector<double> held(static_cast<size_t>(plan.chunks), 0);
    forEachRun(plan, stage, [&](const StageRun &run, int64_t chunk) {
      held[static_cast<size_t>(chunk)] +=
          static_cast<double>(run.count) * of(run);
    });
    return held;
  }

  /// The most at any moment of the schedule of what `of` says that one layer of
  /// a run holds for a microbatch.
  template <typename Of> double largestHeld(Of of) const {
    const std::vector<double> held = heldByChunk(of);
    double most = 0;
    bool first = true;
    for (const InFlight &moment : moments) {
      double sum = 0;
      for (size_t chunk = 0; chunk < held.size(); ++chunk)
        sum += static_cast<double>(moment.saved[chunk]) * held[chunk];
      // Of savings the one at the moment that holds most.
      if (first || std::abs(sum) > std::abs(most))
        most = sum;
      first = false;
    }
    return most;
  }

  /// Parameters of this rank; its part of them under ZeRO 2 and 3.
  double elements(const MemoryParts &parts) const {
    return static_cast<double>(parts.gradients.count()) /
           static_cast<double>(byteWidth(plan.dtypes.grad));
  }

  const Program &program;
  const Profile &profile;
  const Plan &plan;
  const LayerTable &table;
  const int64_t stage;
  const std::vector<InFlight> &moments;
  const bool unfused;
  const double tokens;
  double scores, stream, eager;
};

} // namespace

Bytes StageEstimate::total() const { return memory.total() + framework; }
Bytes StageEstimate::reserved() const { return allocated() + fragments; }

StageEstimate estimateStageMemory(const Program &program,
                                  const Hardware &hardware,
                                  const Profile &profile, const Plan &plan,
                                  const LayerTable &table, int64_t stage,
                                  const ScheduleFacts *facts) {
  const ScheduleFacts made = facts ? ScheduleFacts() : scheduleFacts(plan);
  if (!facts)
    facts = &made;
  StageEstimate estimate;
  MemoryParts &parts = estimate.memory;
  parts = memoryOf(program, plan, table, stage, facts,
                   profile.framework == Framework::Native ? SavedIn::Slots
                                                          : SavedIn::Blocks);
  const FrameworkMemory framework(program, hardware, profile, plan, table,
                                  stage,
                                  facts->inFlight[static_cast<size_t>(stage)]);
  double beside = framework.eagerBytes() + framework.bucketBytes(parts) +
                  framework.updateBytes(parts);
  parts.saved = rounded(std::max(0.0, static_cast<double>(parts.saved.count()) +
                                          framework.otherwiseSaved()));
  parts.workspace = parts.workspace - framework.smallerWorkspace();
  double room = static_cast<double>(hardware.host.capacity.count());
  if (plan.offloadOptimizer) {
    const Bytes state = optimizerStateBytes(program, plan, table, stage);
    const Bytes master(state.count() / 3); // beside two moments as wide
    const Bytes host = factsOf(profile.framework).offloadsMaster
                           ? state
                           : state - master;
    // What does not go there, and what it has no room for.
    const double goes =
        std::min(room, static_cast<double>(host.count()));
    beside += static_cast<double>(state.count()) - goes;
    room -= goes;
  }
  if (plan.offloadActivations) {
    // Copies of logits and the like are no layer's, so this is part of both.
    const double goes = std::min(room, framework.savedOnHost());
    const double saved = static_cast<double>(parts.saved.count());
    parts.saved = rounded(std::max(0.0, saved - goes));
    beside -= std::max(0.0, goes - saved);
  }
  // They fill what the microbatch has given back on the device alone.
  beside += framework.gradientCopies(parts);
  if (plan.zero >= 3 && profile.masterIsParameter)
    parts.parameters = Bytes(0); // gathered copies are cast from it
  // Of the layer behind the one at work, whose transfers run ahead.
  const auto ahead = [&](DType dtype) {
    return static_cast<double>(
        checkedMul(largestBlock(program, plan, table, stage),
                   byteWidth(dtype)));
  };
  if (plan.zero >= 3 && profile.overlapParameterGather)
    beside += ahead(plan.dtypes.param);
  if (plan.zero >= 2 && profile.overlapGradientReduce)
    beside += ahead(plan.dtypes.grad);
  const Bytes eager = rounded(beside);
  estimate.fragments =
      rounded(profile.allocatorSlack *
              static_cast<double>((parts.total() + eager).count()));
  estimate.outside = contextBytes(profile, plan) + estimate.fragments;
  estimate.framework = eager + estimate.outside;
  return estimate;
}

std::vector<double> savedByChunks(const Program &program,
                                  const Hardware &hardware,
                                  const Profile &profile, const Plan &plan) {
  const LayerTable table(program, plan);
  const ScheduleFacts facts = scheduleFacts(plan);
  std::vector<double> bytes;
  for (int64_t stage = 0; stage < plan.pp; ++stage) {
    const std::vector<double> own =
        FrameworkMemory(program, hardware, profile, plan, table, stage,
                        facts.inFlight[static_cast<size_t>(stage)])
            .savedByChunk();
    bytes.insert(bytes.end(), own.begin(), own.end());
  }
  return bytes;
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

} // namespace shardwright::cost

//===- LayerProfile.cpp - Time of one layer on one rank -------------------===//
#include "cost_model/estimate/LayerTimes.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"

#include <algorithm>

namespace shardwright::cost {
namespace {

/// Traffic of the dropouts on the stream, which no op of the program stands
/// for: a mask byte written forward (the rest is part of the fused residual
/// add), and backward a kernel that reads the gradient and the mask and writes
/// the masked gradient.
struct DropoutTime {
  Seconds forward, backward;
};

DropoutTime dropoutTime(const Plan &plan, const Kind &kind,
                        const Hardware &hardware, const Profile &profile) {
  if (profile.savedMaskBytes == 0 || !isLayer(kind))
    return {};
  const Function &forward = kind.variants.front().forward;
  for (const Result &result : forward.results) {
    if (result.kind != ResultKind::StreamOut)
      continue;
    const double width = static_cast<double>(byteWidth(plan.dtypes.compute));
    const double masks =
        profile.savedMaskBytes *
        static_cast<double>(
            localBytes(plan, forward.values[result.value], streamEncoding(plan))
                .count()) /
        width;
    const auto time = [&](double bytesPerMask) {
      return memoryTime(hardware.device, KernelClass::Elementwise,
                        Bytes(static_cast<int64_t>(masks * bytesPerMask)));
    };
    return {time(1), time(1 + 2 * width)};
  }
  return {};
}

/// Whether the host reads in every forward pass of a layer how many rows each
/// expert gets before it can size and issue the work on them.
bool waitsForRows(const Kind &kind, const Profile &profile) {
  return profile.waitsForRows && profile.graphs != GraphCapture::Whole &&
         std::any_of(kind.parameters.begin(), kind.parameters.end(),
                     [](const Parameter &parameter) {
                       return parameter.segment == Segment::Experts;
                     });
}

/// What of the time to issue a pass of a layer shows. Where the host waits for the
/// `counts` of a forward pass, the device has nothing left to do when it has them:
/// the first operator's launch shows, and so does what operators on rows take
/// longer to issue than to run, however far ahead the host gets with what follows,
/// until it waits again in the next layer.
Seconds hostWait(Seconds issue, Seconds device, const FunctionTime *counts,
                 const Profile &profile) {
  const Seconds late = maximum(Seconds(0), issue - device);
  if (!counts)
    return late;
  return profile.launch +
         maximum(late, counts->issuedBehindCounts * profile.launch -
                           counts->behindCounts);
}

} // namespace

Seconds exposedTime(const Hardware &hardware, Seconds communication,
                    Seconds cover) {
  const Seconds hidden = communication < cover ? communication : cover;
  // A collective kernel holds one compute unit per channel, and NCCL opens two
  // channels per channel of its graph (src/graph/connect.cc).
  const double taken =
      hardware.fabric.model == CollectiveModel::Nccl
          ? std::min(1.0,
                     2.0 * static_cast<double>(hardware.fabric.ringChannels) /
                         static_cast<double>(hardware.device.computeUnits))
          : 1.0;
  return communication - hidden + taken * hidden;
}

LayerProfile profileLayer(const Plan &plan, const Kind &kind,
                          const KindVariant &variant, const Hardware &hardware,
                          const Profile &profile) {
  const auto all = [&](const KindVariant &one) {
    const PlannedVariant planned = plannedVariant(plan, kind, one);
    const VariantFacts facts = factsOf(one);
    VariantTime time;
    for (LayerPart part : layerParts)
      time.add(timesOf({plan, one, facts, planned}, hardware, profile, part));
    return time;
  };
  return profileLayer(plan, kind, variant.policy, all(variant),
                      all(kind.variant(Recompute::None)), hardware, profile);
}

LayerProfile profileLayer(const Plan &plan, const Kind &kind, Recompute policy,
                          const VariantTime &own, const VariantTime &without,
                          const Hardware &hardware, const Profile &profile) {
  const bool recomputes = policy != Recompute::None;
  const bool whole = redoesAll(profile, policy);
  const VariantTime &time = whole ? without : own;

  LayerProfile layer;
  const DropoutTime dropout = dropoutTime(plan, kind, hardware, profile);
  layer.forward = time.forward.compute + dropout.forward;
  layer.dataGrad = time.dataGrad.compute + dropout.backward;
  layer.weightGrad = time.weightGrad.compute;
  const Seconds forwardCollectives =
      time.forward.finishes + time.forward.gathers;
  // Products that run beside their own collectives write into mapped memory of
  // their peers: gathers and scatters of one NVLink domain alone (Transformer
  // Engine's user buffers: NVIDIA/TransformerEngine issues 746 and 1071).
  const bool besideProducts = profile.overlapForwardTensor && plan.sp &&
                              hardware.fabric.links == NodeLinks::NvLink &&
                              hardware.ranksPerNode() % plan.tp == 0;
  layer.forwardCommunication =
      besideProducts
          ? exposedTime(hardware, forwardCollectives, time.forward.products)
          : forwardCollectives;
  layer.forwardExchange = time.forward.exchanges;
  layer.backwardExchange = time.dataGrad.exchanges + time.weightGrad.exchanges;
  layer.forwardContext = time.forward.contexts;
  layer.backwardContext = time.dataGrad.contexts + time.weightGrad.contexts;

  const FunctionTime &data = time.dataGrad, &weight = time.weightGrad;
  const Seconds weightCollectives = weight.finishes + weight.gathers;
  layer.backwardCommunication =
      (besideProducts ? exposedTime(hardware, data.gathers, data.products)
                      : data.gathers) +
      (profile.overlapDataGradient
           ? exposedTime(hardware, data.finishes, weight.products)
           : data.finishes) +
      (profile.overlapWeightGather
           ? exposedTime(hardware, weightCollectives, data.products)
           : weightCollectives);

  // The host runs ahead of the device; where it cannot, the device waits.
  const Seconds issueForward = time.forward.issued * profile.launch;
  Seconds issueBackward = (data.issued + weight.issued) * profile.launch;
  if (whole)
    issueBackward += issueForward;

  if (whole) {
    layer.recompute = layer.forward;
    layer.dataGrad += layer.forward;
    layer.backwardCommunication += layer.forwardCommunication;
    layer.backwardExchange += layer.forwardExchange;
    layer.backwardContext += layer.forwardContext;
  } else if (recomputes) {
    layer.recompute =
        maximum(Seconds(0), time.dataGrad.compute - without.dataGrad.compute);
  }
  if (redoesLabels(policy)) {
    const FunctionTime &again = time.again;
    layer.recompute += again.compute;
    layer.dataGrad += again.compute;
    layer.backwardCommunication += again.finishes + again.gathers;
    layer.backwardExchange += again.exchanges;
    layer.backwardContext += again.contexts;
    issueBackward += again.issued * profile.launch;
  }
  const bool counts = waitsForRows(kind, profile);
  const bool again = counts && (policy == Recompute::Full ||
                                profile.redoes("dispatch"));
  layer.forwardHost = hostWait(issueForward, layer.forwardAll(),
                               counts ? &time.forward : nullptr, profile);
  layer.backwardHost =
      hostWait(issueBackward, layer.dataGradAll() + layer.weightGrad,
               !again                         ? nullptr
               : policy == Recompute::Full ? &time.forward
                                           : &time.again,
               profile);
  return layer;
}

std::vector<std::pair<Phase, LayerMove>>
layerMoves(const Plan &plan, const Kind &kind, Recompute policy,
           const Hardware &hardware, const Profile &profile) {
  const bool whole = redoesAll(profile, policy);
  const KindVariant &variant = kind.variant(whole ? Recompute::None : policy);
  const PlannedVariant planned = plannedVariant(plan, kind, variant);
  const VariantFacts facts = factsOf(variant);
  VariantMoves moves;
  for (LayerPart part : layerParts)
    timesOf({plan, variant, facts, planned}, hardware, profile, part, &moves);

  std::vector<std::pair<Phase, LayerMove>> all;
  const auto add = [&](Phase phase, const std::vector<LayerMove> &some) {
    for (const LayerMove &move : some)
      all.emplace_back(phase, move);
  };
  add(Phase::Forward, moves.forward);
  add(Phase::DataGrad, moves.dataGrad);
  add(Phase::WeightGrad, moves.weightGrad);
  if (whole)
    add(Phase::DataGrad, moves.forward);
  if (redoesLabels(policy))
    add(Phase::DataGrad, moves.again);
  return all;
}

} // namespace shardwright::cost

//===- LayerProfile.cpp - Time of one layer on one rank -------------------===//
#include "cost_model/estimate/Estimate.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace shardwright::cost {
namespace {

/// Times of one function; collectives by what may run beside them.
struct FunctionTime {
  Seconds compute;
  Seconds products; ///< the part of compute that is matrix products
  Seconds finishes; ///< all-reduces and reduce-scatters
  Seconds gathers;
  Seconds exchanges; ///< all-to-alls of rows; nothing runs beside them
  double issued = 0; ///< operators, of the host
};

/// Of an operator of eager code, the part that is its launch.
constexpr double kLaunchOfLoop = 0.5;

bool isMap(const Op &op, const Profile &profile) {
  return (profile.fuseElementwise &&
          op.space.kernel == KernelClass::Elementwise) ||
         (profile.fuseNorm && op.space.kernel == KernelClass::RowNorm);
}

class FunctionClock {
public:
  FunctionClock(const Plan &plan, const Function &function,
                const PlannedFunction &planned, const Hardware &hardware,
                const Profile &profile, bool backward, bool redone = false)
      : plan(plan), function(function), planned(planned), hardware(hardware),
        device(hardware.device), profile(profile), backward(backward),
        redone(redone) {
    producer.assign(function.values.size(), -1);
    uses.assign(function.values.size(), 0);
    returned.assign(function.values.size(), false);
    for (size_t op = 0; op < function.ops.size(); ++op) {
      for (ValueId value : function.ops[op].operands)
        ++uses[value];
      for (ValueId value : function.ops[op].results)
        producer[value] = static_cast<int>(op);
    }
    for (const Result &result : function.results)
      returned[result.value] = true;
  }

  FunctionTime run() {
    std::vector<bool> merged(function.ops.size(), false);
    for (size_t i = 0; i < function.ops.size(); ++i) {
      if (!counts(static_cast<int>(i)))
        continue;
      time.issued += operatorsOf(function.ops[i], i);
      if (merged[i])
        continue;
      switch (function.ops[i].space.kernel) {
      case KernelClass::Gemm: {
        const Seconds product = productTime(i, merged);
        time.compute += product;
        time.products += product;
        break;
      }
      case KernelClass::GroupedGemm: {
        const Seconds product = groupedTime(i, merged);
        time.compute += product;
        time.products += product;
        break;
      }
      case KernelClass::Attention:
      case KernelClass::AttentionGrad:
        time.compute += attention(i);
        break;
      case KernelClass::RowNorm:
      case KernelClass::Elementwise:
      case KernelClass::ColumnSum:
      case KernelClass::Gather:
      case KernelClass::Scatter:
      case KernelClass::CrossEntropy:
      case KernelClass::Optimizer:
        time.compute += streaming(i);
        break;
      case KernelClass::Permute:
        if (!profile.exchangePermutes || plan.ep == 1)
          time.compute += streaming(i);
        break;
      }
    }
    addCollectives();
    if (profile.gatherLogits && plan.tp > 1)
      addLogitsGather();
    return time;
  }

private:
  /// Whether this clock runs for `op`; -1 stands for an argument's producer.
  bool counts(int op) const {
    return !redone ||
           (op >= 0 &&
            profile.redoes(function.ops[static_cast<size_t>(op)].label));
  }

  /// Of experts: the rows of the program's flat dim, whose number varies.
  static bool isOfExperts(const Op &op) {
    return op.segment == Segment::Experts;
  }

  /// What the host issues for an op.
  double operatorsOf(const Op &op, size_t index) const {
    const bool grouped = op.space.kernel == KernelClass::GroupedGemm;
    const bool routed = isOfExperts(op) || op.segment == Segment::Router;
    if (profile.graphs == GraphCapture::Whole ||
        (profile.graphs == GraphCapture::Layers && !isOfExperts(op)))
      return 0;
    double operators = routed     ? profile.expertOperators
                       : backward ? profile.backwardOperators
                                  : profile.forwardOperators;
    // Each expert's product is launched apart, from a loop without Python.
    const double launches =
        grouped ? static_cast<double>(
                      groupedShapeOf(planned.ops[index].local, 1).batch)
                : 1;
    if (grouped)
      operators += kLaunchOfLoop * launches;
    if (isNarrow(op) && !isGradientOfParameter(op.results[0]))
      operators += profile.narrowOperators *
                   (grouped ? kLaunchOfLoop * launches : 1.0);
    return operators;
  }

  Bytes operandBytes(size_t op, size_t i) const {
    return localBytes(plan, function.values[function.ops[op].operands[i]],
                      planned.ops[op].operands[i]);
  }
  Bytes resultBytes(size_t op, size_t i) const {
    return localBytes(plan, function.values[function.ops[op].results[i]],
                      planned.ops[op].results[i]);
  }
  Bytes traffic(size_t op) const {
    Bytes bytes(0);
    for (size_t i = 0; i < function.ops[op].operands.size(); ++i)
      bytes += operandBytes(op, i);
    for (size_t i = 0; i < function.ops[op].results.size(); ++i)
      bytes += resultBytes(op, i);
    return bytes;
  }
  bool isGradientOfParameter(ValueId value) const {
    return returned[value] &&
           function.values[value].precision == Precision::Grad;
  }

  Seconds productTime(size_t index, std::vector<bool> &merged) const {
    GemmShape shape = gemmShapeOf(planned.ops[index].local);
    Bytes bytes = traffic(index);
    const Op &op = function.ops[index];
    if (fusesSiblings(op) && shape.batch == 1)
      for (size_t other = index + 1; other < function.ops.size(); ++other) {
        const Op &sibling = function.ops[other];
        if (merged[other] || sibling.space.kernel != KernelClass::Gemm)
          continue;
        const GemmShape next = gemmShapeOf(planned.ops[other].local);
        const bool left =
            sibling.operands[0] == op.operands[0] && next.m == shape.m;
        const bool right =
            sibling.operands[1] == op.operands[1] && next.n == shape.n;
        if (next.batch != 1 || next.k != shape.k || left == right)
          continue;
        (left ? shape.n : shape.m) += left ? next.n : next.m;
        bytes += traffic(other) - operandBytes(other, left ? 0 : 1);
        merged[other] = true;
      }
    return productOf(
               index, bytes,
               gemmComputeTime(device, shape, plan.dtypes.compute,
                               accumulates(index), narrowRate(op))) +
           quantizeTime(index);
  }

  /// One kernel over all experts of the rank. Every expert's product is tiled
  /// as a product of its own; that the tiles of all experts share the waves is
  /// what the batch of a GemmShape says. No further loss: the curve fitted to
  /// plain products gives the published times of fused expert layers (balanced,
  /// bfloat16, at least 32 rows an expert, one rank) within 0.84 to 1.09 on
  /// H100 and 0.88 to 1.05 on H200: ai-dynamo/aiconfigurator commit 095f58a,
  /// moe_perf tables.
  Seconds groupedTime(size_t index, std::vector<bool> &merged) const {
    GemmShape shape =
        groupedShapeOf(planned.ops[index].local, profile.expertImbalance);
    Bytes bytes = traffic(index);
    const Op &op = function.ops[index];
    const bool forward = op.space.results[0].size() == 2;
    if (profile.fuseSiblingProducts && forward)
      for (size_t other = index + 1; other < function.ops.size(); ++other) {
        const Op &sibling = function.ops[other];
        if (merged[other] || sibling.space.kernel != KernelClass::GroupedGemm ||
            sibling.operands[0] != op.operands[0])
          continue;
        const GemmShape next =
            groupedShapeOf(planned.ops[other].local, profile.expertImbalance);
        if (next.batch != shape.batch || next.m != shape.m || next.k != shape.k)
          continue;
        shape.n += next.n;
        bytes += traffic(other) - operandBytes(other, 0);
        merged[other] = true;
      }
    return productOf(
               index, bytes,
               gemmComputeTime(device, shape, plan.dtypes.compute,
                               accumulates(index), narrowRate(op))) +
           quantizeTime(index);
  }

  /// Whether the profile computes this product in 8 or 4 bits.
  bool isNarrow(const Op &op) const {
    return profile.narrow.speedup > 0 && op.segment != Segment::Head &&
           op.segment != Segment::Embed && op.segment != Segment::Loss &&
           op.segment != Segment::Router;
  }
  const NarrowRate *narrowRate(const Op &op) const {
    return isNarrow(op) ? &profile.narrow : nullptr;
  }
  /// Inputs and result gradients are quantized once, with a transposed copy;
  /// weight gradients read what is there.
  Seconds quantizeTime(size_t index) const {
    const Op &op = function.ops[index];
    if (!isNarrow(op) || isGradientOfParameter(op.results[0]))
      return Seconds(0);
    const double elements =
        static_cast<double>(operandBytes(index, 0).count()) /
        static_cast<double>(byteWidth(plan.dtypes.compute));
    return kernelTime(device, profile, Seconds(0),
                      memoryTime(device, KernelClass::Elementwise,
                                 Bytes(static_cast<int64_t>(
                                     elements * profile.quantizeBytes))));
  }
  /// Whether a product adds its result to the gradient buffer itself.
  bool accumulates(size_t index) const {
    return profile.fuseGradientAccumulation &&
           isGradientOfParameter(function.ops[index].results[0]);
  }
  /// A product of `bytes` of traffic, and what it does to a gradient.
  Seconds productOf(size_t index, Bytes bytes, Seconds compute) const {
    const ValueId result = function.ops[index].results[0];
    Seconds extra(0);
    if (isGradientOfParameter(result)) {
      const Bytes gradient = resultBytes(index, 0);
      if (accumulates(index))
        bytes += gradient; // the product reads what it adds to
      else { // a kernel of its own: read the product, read and write the sum
        const int64_t width = byteWidth(plan.dtypes.grad);
        const Bytes made(gradient.count() / width *
                         byteWidth(plan.dtypes.compute));
        extra = kernelTime(
            device, profile, Seconds(0),
            memoryTime(device, KernelClass::Elementwise, 2 * gradient + made));
      }
    }
    return extra + kernelTime(device, profile, compute,
                              memoryTime(device, KernelClass::Gemm, bytes));
  }

  Seconds attention(size_t index) const {
    const IterationSpace &space = planned.ops[index].local;
    const bool backwards = space.kernel == KernelClass::AttentionGrad;
    AttentionShape shape = attentionShapeOf(space);
    shape.keys = checkedMul(shape.keys, plan.sequenceParts);
    const Seconds core = attentionTime(device, profile, shape, backwards,
                                       plan.dtypes.compute, traffic(index));
    if (plan.sequenceParts == 1)
      return core;
    // Keys and values go round; backward their gradients too. They run beside
    // the products of the part that has arrived.
    const size_t key = backwards ? 2 : 1;
    const Bytes own = operandBytes(index, key) + operandBytes(index, key + 1);
    const Seconds ring = collectiveTime(
        hardware, Collective::AllGather, (backwards ? 2 : 1) * own,
        placeGroup(plan.sequenceParts, plan.tp, hardware.ranksPerNode()));
    return core + exposedTime(hardware, ring, core);
  }

  /// Whether `value` stays in registers between its producer and `user`.
  bool staysInside(ValueId value, const Op &user) const {
    return producer[value] >= 0 && isMap(user, profile) &&
           isMap(function.ops[producer[value]], profile) &&
           planned.values[value].reshards.steps.empty();
  }
  bool isSaved(ValueId value) const {
    return std::any_of(function.arguments.begin(), function.arguments.end(),
                       [&](const Argument &argument) {
                         return argument.value == value &&
                                argument.kind == ArgKind::Saved;
                       });
  }
  bool fusesSiblings(const Op &op) const {
    return profile.fuseSiblingProducts &&
           !(profile.gatedInputsApart && op.segment == Segment::Mlp);
  }
  /// Layers that exchange `value` on their own: those that gather it, or whose
  /// input gradients it is the sum of.
  double exchangesApart(size_t value) const {
    if (!profile.gatedInputsApart)
      return 1;
    double readers = 0;
    for (const Op &op : function.ops)
      readers += op.segment == Segment::Mlp &&
                 op.space.kernel == KernelClass::Gemm &&
                 op.operands[0] == static_cast<ValueId>(value);
    if (!backward && readers > 1)
      return readers;
    if (backward && producer[value] >= 0) {
      const Op &from = function.ops[static_cast<size_t>(producer[value])];
      if (from.segment == Segment::Mlp && addsProducts(from))
        return 2;
    }
    return 1;
  }
  /// Whether `op` only adds products that can accumulate into one another.
  bool accumulatesProducts(const Op &op) const {
    return fusesSiblings(op) && addsProducts(op);
  }
  bool addsProducts(const Op &op) const {
    if (
        op.space.kernel != KernelClass::Elementwise ||
        op.operands.size() != 2 || op.space.linear.size() != 2 ||
        !op.space.linear[0] || !op.space.linear[1])
      return false;
    for (ValueId value : op.operands) {
      if (producer[value] < 0 || uses[value] != 1 || returned[value])
        return false;
      const Op &from = function.ops[producer[value]];
      if (from.space.kernel != KernelClass::Gemm &&
          from.space.kernel != KernelClass::GroupedGemm && !addsProducts(from))
        return false;
    }
    return true;
  }

  /// What the profile says of ops like `op` beside their own operands and
  /// results; found by what the op computes, never by its name.
  const EagerTraffic *eagerTraffic(const Op &op) const {
    const IterationSpace &space = op.space;
    switch (space.kernel) {
    case KernelClass::RowNorm:
      return &profile.norm;
    case KernelClass::CrossEntropy:
      for (int factor : space.operands[0])
        if (space.factors[factor].role == Role::Vocab)
          return &profile.loss;
      return nullptr;
    case KernelClass::Elementwise: {
      if (op.operands.size() == 1 && space.linear[0])
        return &profile.rotary;
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (space.linear[i] || space.operands[i] != space.results[0])
          return nullptr;
      return &profile.activation;
    }
    default:
      return nullptr;
    }
  }
  /// Ops of the forward pass that read the logits: the traffic of the loss is
  /// spread over them.
  double lossReaders() const {
    double readers = 0;
    for (const Op &op : function.ops)
      if (op.space.kernel == KernelClass::CrossEntropy &&
          eagerTraffic(op) != nullptr)
        readers += 1;
    return readers;
  }

  Seconds streaming(size_t index) const {
    const Op &op = function.ops[index];
    if (accumulatesProducts(op))
      return Seconds(0);
    if (const EagerTraffic *eager = eagerTraffic(op)) {
      double perElement = backward ? eager->backward : eager->forward;
      if (op.space.kernel == KernelClass::CrossEntropy) {
        perElement /= lossReaders();
        if (profile.gatherLogits && eager == &profile.loss)
          perElement *= static_cast<double>(plan.tp);
      }
      if (perElement > 0) {
        const Value &input = function.values[op.operands[0]];
        const double elements =
            static_cast<double>(operandBytes(index, 0).count()) /
            static_cast<double>(byteWidth(plan.dtypes.of(input.precision)));
        return kernelTime(
            device, profile, Seconds(0),
            memoryTime(device, op.space.kernel,
                       Bytes(static_cast<int64_t>(elements * perElement))));
      }
    }
    Bytes bytes(0);
    bool continues = false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (staysInside(op.operands[i], op))
        continues = true;
      else
        bytes += operandBytes(index, i);
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId value = op.results[i];
      if (uses[value] == 1 && !returned[value] && usedInside(value))
        continue;
      bytes += resultBytes(index, i);
      if (isGradientOfParameter(value))
        bytes += resultBytes(index, i);
    }
    const Seconds memory = memoryTime(device, op.space.kernel, bytes);
    return continues ? memory : kernelTime(device, profile, Seconds(0), memory);
  }
  bool usedInside(ValueId value) const {
    for (const auto &use : planned.values[value].uses)
      if (use.op >= 0)
        return staysInside(value, function.ops[use.op]);
    return false;
  }

  void addCollectives() {
    for (size_t value = 0; value < planned.values.size(); ++value) {
      if (!counts(producer[value]))
        continue;
      const std::vector<ReshardStep> &steps =
          planned.values[value].reshards.steps;
      for (const ReshardStep &step : steps) {
        if (step.collective == Collective::Slice)
          continue;
        const Encoding &source = step.source == 0
                                     ? planned.encodings[value]
                                     : steps[step.source - 1].result;
        if (profile.graphs == GraphCapture::None)
          time.issued += backward ? profile.backwardOperators
                                  : profile.forwardOperators;
        Bytes payload = localBytes(plan, function.values[value], source);
        if (step.collective == Collective::AllToAll) {
          payload = Bytes(static_cast<int64_t>(
              profile.expertImbalance * static_cast<double>(payload.count())));
          time.exchanges +=
              exchangeTime(hardware, payload, placementOf(step.axes), choices(),
                           profile.exchangeOncePerNode);
          continue;
        }
        // Backward reads what the forward pass has gathered.
        if (profile.keepsGatheredInputs && isSaved(static_cast<ValueId>(value)) &&
            step.collective == Collective::AllGather)
          continue;
        const Seconds cost =
            exchangesApart(value) * collectiveTime(hardware, step.collective,
                                                   payload,
                                                   placementOf(step.axes));
        (step.collective == Collective::AllGather ? time.gathers
                                                  : time.finishes) += cost;
      }
    }
  }

  /// Forward, the ranks of a tensor group exchange their parts of the logits.
  void addLogitsGather() {
    if (backward)
      return;
    for (size_t i = 0; i < function.ops.size(); ++i)
      if (eagerTraffic(function.ops[i]) == &profile.loss) {
        time.gathers += collectiveTime(
            hardware, Collective::AllGather, operandBytes(i, 0),
            placeGroup(plan.tp, 1, hardware.ranksPerNode()));
        return;
      }
  }

  /// Copies of a token that the rows of this function are.
  int64_t choices() const {
    int64_t most = 1;
    for (const Op &op : function.ops)
      for (const Factor &factor : op.space.factors)
        if (factor.role == Role::Choice)
          most = std::max(most, factor.size);
    return most;
  }

  Placement placementOf(const std::vector<Axis> &axes) const {
    int64_t stride = 1;
    for (size_t axis = axes.back() + size_t(1); axis < plan.mesh.size(); ++axis)
      stride *= plan.mesh[axis].size;
    return placeGroup(degree(plan, axes), stride, hardware.ranksPerNode());
  }

  const Plan &plan;
  const Function &function;
  const PlannedFunction &planned;
  const Hardware &hardware;
  const Device &device;
  const Profile &profile;
  const bool backward;
  const bool redone; ///< only of what the profile runs again
  std::vector<int> producer;
  std::vector<int> uses; ///< by ops
  std::vector<bool> returned;
  FunctionTime time;
};

struct VariantTime {
  FunctionTime forward, dataGrad, weightGrad;
};

PlannedVariant plannedOrDie(const Plan &plan, const Kind &kind,
                            const KindVariant &variant) {
  PlannedVariant planned;
  std::string why;
  if (!planVariant(plan, kind, variant, planned, why)) {
    std::fprintf(stderr, "shardwright: internal error: illegal plan: %s\n",
                 why.c_str());
    std::abort();
  }
  return planned;
}

VariantTime timeOf(const Plan &plan, const KindVariant &variant,
                   const PlannedVariant &planned, const Hardware &hardware,
                   const Profile &profile) {
  const auto time = [&](const Function &function,
                        const PlannedFunction &plannedFunction, bool backward) {
    return FunctionClock(plan, function, plannedFunction, hardware, profile,
                         backward)
        .run();
  };
  return {time(variant.forward, planned.forward, false),
          time(variant.dataGrad, planned.dataGrad, true),
          time(variant.weightGrad, planned.weightGrad, true)};
}

/// Traffic of the dropouts on the stream, which no op of the program stands
/// for: a mask byte written forward (the rest is part of the fused residual
/// add), and backward a kernel that reads the gradient and the mask and writes
/// the masked gradient.
struct DropoutTime {
  Seconds forward, backward;
};

DropoutTime dropoutTime(const Plan &plan, const Kind &kind,
                        const Hardware &hardware, const Profile &profile) {
  if (profile.savedMaskBytes == 0 || !takesStream(kind) || !givesStream(kind))
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
  return profileLayer(plan, kind, variant, plannedOrDie(plan, kind, variant),
                      plannedOrDie(plan, kind, kind.variant(Recompute::None)),
                      hardware, profile);
}

LayerProfile profileLayer(const Plan &plan, const Kind &kind,
                          const KindVariant &variant,
                          const PlannedVariant &planned,
                          const PlannedVariant &plannedPlain,
                          const Hardware &hardware, const Profile &profile) {
  const bool recomputes = variant.policy != Recompute::None;
  const bool whole =
      profile.recomputeWholeLayer && variant.policy == Recompute::Full;
  const KindVariant &plain = kind.variant(Recompute::None);
  const VariantTime time =
      whole ? timeOf(plan, plain, plannedPlain, hardware, profile)
            : timeOf(plan, variant, planned, hardware, profile);

  LayerProfile layer;
  const DropoutTime dropout = dropoutTime(plan, kind, hardware, profile);
  layer.forward = time.forward.compute + dropout.forward;
  layer.dataGrad = time.dataGrad.compute + dropout.backward;
  layer.weightGrad = time.weightGrad.compute;
  const Seconds forwardCollectives =
      time.forward.finishes + time.forward.gathers;
  layer.forwardCommunication =
      profile.overlapForwardTensor
          ? exposedTime(hardware, forwardCollectives, time.forward.products)
          : forwardCollectives;
  layer.forwardExchange = time.forward.exchanges;
  layer.backwardExchange = time.dataGrad.exchanges + time.weightGrad.exchanges;

  const FunctionTime &data = time.dataGrad, &weight = time.weightGrad;
  const Seconds weightCollectives = weight.finishes + weight.gathers;
  layer.backwardCommunication =
      (profile.overlapForwardTensor
           ? exposedTime(hardware, data.gathers, data.products)
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
  } else if (recomputes) {
    const VariantTime without =
        timeOf(plan, plain, plannedPlain, hardware, profile);
    layer.recompute =
        maximum(Seconds(0), time.dataGrad.compute - without.dataGrad.compute);
  }
  if (!profile.redoneLabels.empty() && variant.policy != Recompute::Full) {
    const FunctionTime again =
        FunctionClock(plan, variant.forward, planned.forward, hardware, profile,
                      false, /*redone=*/true)
            .run();
    layer.recompute += again.compute;
    layer.dataGrad += again.compute;
    layer.backwardCommunication += again.finishes + again.gathers;
    layer.backwardExchange += again.exchanges;
    issueBackward += again.issued * profile.launch;
  }
  layer.forwardHost = maximum(Seconds(0), issueForward - layer.forwardAll());
  layer.backwardHost = maximum(Seconds(0), issueBackward - layer.dataGradAll() -
                                               layer.weightGrad);
  return layer;
}

} // namespace shardwright::cost

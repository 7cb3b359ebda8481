//===- LayerTimes.cpp - Time of the functions of a layer ------------------===//
#include "cost_model/estimate/LayerTimes.h"
#include "cost_model/estimate/FusedFunction.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"

#include <algorithm>

namespace shardwright::cost {

namespace {

bool holdsAny(const Axes &axes, const Axes &wanted) {
  return std::find_first_of(axes.begin(), axes.end(), wanted.begin(),
                            wanted.end()) != axes.end();
}

/// Traffic to quantize an element of a narrow product's input: 16 bits are read
/// and 8 written twice, once transposed (4 and 8 in fp4, and scales).
constexpr double kQuantizeBytes = 4;

class FunctionClock : private FusedFunction {
public:
  FunctionClock(const Plan &plan, const Function &function,
                const FunctionFacts &facts, const PlannedFunction &planned,
                const Hardware &hardware, const Profile &profile, bool backward,
                bool redone, std::vector<LayerMove> *moves)
      : FusedFunction(plan, function, facts, planned, profile, backward),
        hardware(hardware), device(hardware.device), redone(redone),
        moves(moves),
        narrow(narrowRate(hardware.device, plan.dtypes.products)),
        parts(facts.parts), choices(facts.choices) {
    if (plan.cp > 1)
      contextAxes = axesOfDegree(plan, Degree::Cp);
  }

  FunctionTime of(LayerPart part) {
    if (part != LayerPart::Moves)
      addOps(part);
    if (part == LayerPart::Core && plan.cp > 1)
      addCollectives(true); // of cp, for attention
    if (part == LayerPart::Moves) {
      addCollectives(false);
      if (profile.gatherLogits && plan.tp > 1)
        addLogitsGather();
      if (plan.kvReplicas > 1 && factsOf(profile.framework).gathersHeads)
        addHeadsGather();
    }
    return time;
  }

  /// Products of experts alone, at their best: experts that are split have as
  /// many times the rows as they have parts.
  FunctionTime leastOfExperts() const {
    FunctionTime least;
    for (size_t i = 0; i < function.ops.size(); ++i) {
      const Op &op = function.ops[i];
      if (op.space.kernel != KernelClass::GroupedGemm ||
          parts[i] != LayerPart::Experts ||
          !counts(static_cast<int>(i)))
        continue;
      least.compute += leastGemmTime(
          device,
          profile.expertImbalance *
              static_cast<double>(flopsOf(planned.ops[i].local).count()),
          plan.dtypes.compute, accumulates(i), rateOf(op));
    }
    least.products = least.behindCounts = least.compute;
    return least;
  }

private:
  void addOps(LayerPart part) {
    std::vector<bool> merged(function.ops.size(), false);
    for (size_t i = 0; i < function.ops.size(); ++i) {
      if (parts[i] != part || !counts(static_cast<int>(i)))
        continue;
      const double operators = operatorsOf(function.ops[i], i);
      const bool behindCounts = isOfExperts(function.ops[i]);
      time.issued += operators;
      if (behindCounts)
        time.issuedBehindCounts += operators;
      if (merged[i])
        continue;
      const Seconds before = time.compute;
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
      case KernelClass::AttentionGrad: time.compute += attention(i); break;
      case KernelClass::RowNorm:
      case KernelClass::Elementwise:
      case KernelClass::ColumnSum:
      case KernelClass::Gather:
      case KernelClass::Scatter:
      case KernelClass::CrossEntropy:
      case KernelClass::Optimizer: time.compute += streaming(i); break;
      case KernelClass::Permute:
        if (!profile.exchangePermutes || plan.ep == 1)
          time.compute += streaming(i);
        break;
      }
      if (behindCounts)
        time.behindCounts += time.compute - before;
    }
  }

  /// Whether this clock runs for `op`; -1 stands for an argument's producer.
  bool counts(int op) const {
    return !redone ||
           (op >= 0 &&
            profile.redoes(function.ops[static_cast<size_t>(op)].label));
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

  Seconds productTime(size_t index, std::vector<bool> &merged) const {
    GemmShape shape = gemmShapeOf(planned.ops[index].local);
    Bytes bytes = traffic(index);
    const Op &op = function.ops[index];
    if (fusesSiblings(op) && shape.batch == 1)
      for (size_t other = index + 1; other < function.ops.size(); ++other) {
        const Op &sibling = function.ops[other];
        // No framework runs the router's product with others of its input.
        if (merged[other] || sibling.space.kernel != KernelClass::Gemm ||
            parts[other] != parts[index])
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
                               accumulates(index), rateOf(op))) +
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
                               accumulates(index), rateOf(op))) +
           quantizeTime(index);
  }

  /// Whether the plan computes this product in 8 or 4 bits: head, router,
  /// attention core, norms and activations stay in 16.
  bool isNarrow(const Op &op) const {
    return narrow.speedup > 0 && mayBeNarrow(op.segment);
  }
  const NarrowRate *rateOf(const Op &op) const {
    return isNarrow(op) ? &narrow : nullptr;
  }
  /// Inputs and result gradients are quantized once, with a transposed copy;
  /// weight gradients read what is there.
  Seconds quantizeTime(size_t index) const {
    const Op &op = function.ops[index];
    if (!isNarrow(op) || isGradientOfParameter(op.results[0]))
      return Seconds(0);
    if (op.space.kernel == KernelClass::GroupedGemm && comesFused(op.operands[0]))
      return Seconds(0);
    const double elements =
        static_cast<double>(operandBytes(index, 0).count()) /
        static_cast<double>(byteWidth(plan.dtypes.compute));
    return kernelTime(device, profile, Seconds(0),
                      memoryTime(device, KernelClass::Elementwise,
                                 Bytes(static_cast<int64_t>(
                                     elements * kQuantizeBytes))));
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

  Seconds attention(size_t index) {
    const IterationSpace &space = planned.ops[index].local;
    const bool backwards = space.kernel == KernelClass::AttentionGrad;
    const AttentionShape shape = attentionShapeOf(space);
    const auto timeOf = [&](const AttentionShape &part) {
      return attentionTime(device, profile, part, backwards,
                           plan.dtypes.compute, traffic(index));
    };
    if (!goesRound(plan, function.ops[index]))
      return timeOf(shape);
    // The own part, then cp - 1 that arrive: of two chunks of queries and two of
    // keys, half the pairs of each are masked. Every step adds its result to
    // those before: forward it reads two outputs and writes one, backward it
    // does so with gradients of queries, keys and values.
    AttentionShape own = shape, arrived = shape;
    own.keys = shape.queries;
    arrived.keys = shape.causal ? std::max<int64_t>(1, shape.queries / 2)
                                : shape.queries;
    arrived.causal = false;
    const Seconds first = timeOf(own), later = timeOf(arrived);
    const Bytes passed =
        ringBytes(plan, function, function.ops[index], planned.ops[index]);
    Bytes made(0);
    for (size_t i = 0; i < (backwards ? function.ops[index].results.size() : 1);
         ++i)
      made += resultBytes(index, i);
    const Seconds combine = kernelTime(
        device, profile, Seconds(0),
        memoryTime(device, KernelClass::Elementwise, 3 * made));
    // The part of the next step travels beside this one.
    const Seconds step = transferTime(hardware, passed, plan.tp, plan.cp);
    moved(Collective::Send, contextAxes, passed, step,
          static_cast<double>(plan.cp - 1));
    time.contexts += exposedTime(hardware, step, first) +
                      static_cast<double>(plan.cp - 2) *
                          exposedTime(hardware, step, later + combine);
    return first + static_cast<double>(plan.cp - 1) * (later + combine);
  }

  Seconds streaming(size_t index) const {
    const Op &op = function.ops[index];
    if (accumulatesProducts(op))
      return Seconds(0);
    if (isFusedActivation(op)) { // only what it writes is left
      Bytes written(0);
      for (size_t i = 0; i < op.results.size(); ++i)
        written += resultBytes(index, i);
      return memoryTime(device, op.space.kernel, written);
    }
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
  /// Whether a step moves keys, values or heads of attention over cp; nothing
  /// runs beside it (Megatron Core 0.20, transformer_config.py, cp_comm_type).
  bool ofContext(const Value &value, const ReshardStep &step,
                 const Encoding &source) const {
    return plan.cp > 1 && step.dim >= 0 &&
           value.dims[static_cast<size_t>(step.dim)].role != Role::Rows &&
           source.routed == step.result.routed &&
           holdsAny(step.axes, contextAxes);
  }

  void addCollectives(bool contexts) {
    for (ValueId id : planned.resharded) {
      const auto value = static_cast<size_t>(id);
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
        if (ofContext(function.values[value], step, source) != contexts)
          continue;
        if (profile.graphs == GraphCapture::None) {
          const double operators = backward ? profile.backwardOperators
                                            : profile.forwardOperators;
          time.issued += operators;
          if (!contexts && step.collective == Collective::AllToAll)
            time.issuedBehindCounts += operators;
        }
        Bytes payload = localBytes(plan, function.values[value], source);
        if (contexts) {
          time.contexts += moved(step.collective, step.axes, payload);
          continue;
        }
        if (step.collective == Collective::AllToAll) {
          payload = Bytes(static_cast<int64_t>(
              profile.expertImbalance * static_cast<double>(payload.count())));
          const Seconds exchange =
              moved(step.collective, step.axes, payload,
                    exchangeTime(hardware, payload,
                                 placementOf(plan, hardware, step.axes),
                                 choices, profile.exchangeOncePerNode),
                    1, source.routed != step.result.routed);
          time.exchanges += exchange;
          time.behindCounts += exchange;
          continue;
        }
        // Backward reads what the forward pass has gathered.
        if (profile.keepsGatheredInputs &&
            isSaved(static_cast<ValueId>(value)) &&
            step.collective == Collective::AllGather)
          continue;
        const Seconds cost = moved(step.collective, step.axes, payload,
                                   exchangesApart(value));
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
        time.gathers += moved(Collective::AllGather,
                              axesOfDegree(plan, Degree::Tp),
                              operandBytes(i, 0));
        return;
      }
  }

  /// What tp ranks have together of `values`: queries, keys and values, or their
  /// gradients. Ranks that share a key/value head count it once.
  Bytes bytesOfHeads(const std::vector<ValueId> &values) const {
    Bytes bytes(0);
    for (size_t i = 0; i < 3; ++i) {
      const auto id = static_cast<size_t>(values[i]);
      bytes += plan.tp / (i == 0 ? 1 : plan.kvReplicas) *
               localBytes(plan, function.values[id], planned.encodings[id]);
    }
    return bytes;
  }

  /// The product that gives `value` but for norms and positions; -1 if what is
  /// behind them comes from elsewhere.
  int productBehind(ValueId value) const {
    int op = producer[static_cast<size_t>(value)];
    while (op >= 0 && function.ops[static_cast<size_t>(op)].space.kernel !=
                          KernelClass::Gemm)
      op = producer[static_cast<size_t>(
          function.ops[static_cast<size_t>(op)].operands[0])];
    return op;
  }

  /// Behind the product in either pass, and before that of its gradient.
  void addHeadsGather() {
    const Axes axes = axesOfDegree(plan, Degree::Tp);
    for (const Op &op : function.ops) {
      const bool forward = op.space.kernel == KernelClass::Attention;
      if (!forward && op.space.kernel != KernelClass::AttentionGrad)
        continue;
      if (forward) {
        const int product = productBehind(op.operands[0]);
        if (product < 0 || !counts(product))
          continue;
        const Bytes whole = bytesOfHeads(op.operands);
        time.gathers += moved(Collective::AllGather, axes,
                              Bytes(whole.count() / plan.tp));
      } else {
        time.finishes += moved(Collective::ReduceScatter, axes,
                               bytesOfHeads(op.results));
      }
      if (profile.graphs == GraphCapture::None)
        time.issued += backward ? profile.backwardOperators
                                : profile.forwardOperators;
    }
  }

  /// Notes `calls` of a collective that take `each`; what all of them take.
  Seconds moved(Collective collective, const Axes &axes, Bytes payload,
                Seconds each, double calls = 1, bool ofExperts = false) {
    if (moves)
      moves->push_back({collective, axes, ofExperts, calls, payload, each});
    return calls * each;
  }
  /// The same of a collective over `axes` that is not the rows of experts.
  Seconds moved(Collective collective, const Axes &axes, Bytes payload,
                double calls = 1) {
    return moved(collective, axes, payload,
                 collectiveTime(hardware, collective, payload,
                                placementOf(plan, hardware, axes)),
                 calls);
  }

  const Hardware &hardware;
  const Device &device;
  const bool redone; ///< only of what the profile runs again
  std::vector<LayerMove> *const moves; ///< null: nobody asks
  const NarrowRate narrow;
  const std::vector<LayerPart> &parts;
  const int64_t choices;
  Axes contextAxes;
  FunctionTime time;
};

} // namespace

void FunctionTime::add(const FunctionTime &other) {
  compute += other.compute;
  products += other.products;
  finishes += other.finishes;
  gathers += other.gathers;
  exchanges += other.exchanges;
  contexts += other.contexts;
  issued += other.issued;
  behindCounts += other.behindCounts;
  issuedBehindCounts += other.issuedBehindCounts;
}
void VariantTime::add(const VariantTime &other) {
  forward.add(other.forward);
  dataGrad.add(other.dataGrad);
  weightGrad.add(other.weightGrad);
  again.add(other.again);
}

namespace {

/// Of all functions of a variant what `timeOf` says of one.
template <typename TimeOf>
VariantTime timesBy(const TimedVariant &timed, const Hardware &hardware,
                    const Profile &profile, const TimeOf &timeOf,
                    VariantMoves *moves = nullptr) {
  const auto &[plan, variant, facts, planned] = timed;
  const auto time = [&, &plan = plan](const Function &function,
                                      const FunctionFacts &facts,
                                      const PlannedFunction &planned,
                                      std::vector<LayerMove> *moves,
                                      bool backward, bool redone = false) {
    FunctionClock clock(plan, function, facts, planned, hardware, profile,
                        backward, redone, moves);
    return timeOf(clock);
  };
  return {time(variant.forward, facts.forward, planned.forward,
               moves ? &moves->forward : nullptr, false),
          time(variant.dataGrad, facts.dataGrad, planned.dataGrad,
               moves ? &moves->dataGrad : nullptr, true),
          time(variant.weightGrad, facts.weightGrad, planned.weightGrad,
               moves ? &moves->weightGrad : nullptr, true),
          profile.redoneLabels.empty()
              ? FunctionTime()
              : time(variant.forward, facts.forward, planned.forward,
                     moves ? &moves->again : nullptr, false, true)};
}

bool hasLoss(const KindVariant &variant) {
  return std::any_of(
      variant.forward.results.begin(), variant.forward.results.end(),
      [](const Result &result) { return result.kind == ResultKind::Loss; });
}

/// The variant over one of `parts` equal parts of a sequence.
KindVariant overPart(KindVariant variant, int64_t parts) {
  for (Function *function :
       {&variant.forward, &variant.dataGrad, &variant.weightGrad}) {
    for (Value &value : function->values)
      for (Dim &dim : value.dims)
        dim.size /= dim.role == Role::Seq ? parts : 1;
    for (Op &op : function->ops)
      for (Factor &factor : op.space.factors)
        factor.size /= factor.role == Role::Seq ? parts : 1;
  }
  return variant;
}

/// `parts` times as much.
FunctionTime repeated(const FunctionTime &once, int64_t parts) {
  FunctionTime time;
  for (int64_t i = 0; i < parts; ++i)
    time.add(once);
  return time;
}
void append(std::vector<LayerMove> &moves, const std::vector<LayerMove> &once,
            int64_t parts) {
  for (LayerMove move : once) {
    move.calls *= static_cast<double>(parts);
    moves.push_back(std::move(move));
  }
}

} // namespace

VariantTime timesOf(const TimedVariant &timed, const Hardware &hardware,
                    const Profile &profile, LayerPart part,
                    VariantMoves *moves) {
  const auto timeOf = [&](FunctionClock &clock) { return clock.of(part); };
  const int64_t parts = profile.lossParts;
  if (parts == 1 || !hasLoss(timed.variant))
    return timesBy(timed, hardware, profile, timeOf, moves);
  const KindVariant shorter = overPart(timed.variant, parts);
  PlannedVariant planned = timed.planned;
  resizeVariant(timed.plan, shorter, planned);
  VariantMoves movesOnce;
  const VariantTime once = timesBy({timed.plan, shorter, timed.facts, planned},
                                   hardware, profile, timeOf,
                                   moves ? &movesOnce : nullptr);
  if (moves) {
    append(moves->forward, movesOnce.forward, parts);
    append(moves->dataGrad, movesOnce.dataGrad, parts);
    append(moves->weightGrad, movesOnce.weightGrad, parts);
    append(moves->again, movesOnce.forward, parts);
  }
  const FunctionTime forward = repeated(once.forward, parts);
  return {forward, repeated(once.dataGrad, parts),
          repeated(once.weightGrad, parts), forward};
}

VariantTime leastExpertTimes(const TimedVariant &timed,
                             const Hardware &hardware, const Profile &profile) {
  return timesBy(timed, hardware, profile, [](FunctionClock &clock) {
    return clock.leastOfExperts();
  });
}

} // namespace shardwright::cost

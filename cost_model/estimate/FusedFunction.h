//===- FusedFunction.h - What of a function is one kernel -------*- C++ -*-===//
//
// Used by LayerTimes.cpp only.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_FUSEDFUNCTION_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_FUSEDFUNCTION_H

#include "cost_model/estimate/LayerTimes.h"

#include <algorithm>

namespace shardwright::cost {

/// A function of a layer under a plan as a framework runs it: local sizes, and
/// what the profile does in one kernel with what. The arguments outlive it.
class FusedFunction {
public:
  FusedFunction(const Plan &plan, const Function &function,
                const FunctionFacts &facts, const PlannedFunction &planned,
                const Profile &profile, bool backward)
      : plan(plan), function(function), planned(planned), profile(profile),
        backward(backward), producer(facts.producer), uses(facts.uses),
        returned(facts.returned) {}

  /// Of experts: the rows of the program's flat dim, whose number varies.
  static bool isOfExperts(const Op &op) {
    return op.segment == Segment::Experts;
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

  /// Whether `op` is an activation, or the gradient of one, that the product
  /// before it does as it writes.
  bool isFusedActivation(const Op &op) const {
    return profile.groupedProductsFuse && isOfExperts(op) &&
           op.space.kernel == KernelClass::Elementwise && !addsProducts(op);
  }
  bool comesFused(ValueId value) const {
    return producer[value] >= 0 &&
           isFusedActivation(function.ops[static_cast<size_t>(producer[value])]);
  }
  /// Whether a product adds its result to the gradient buffer itself.
  bool accumulates(size_t index) const {
    return profile.fuseGradientAccumulation &&
           isGradientOfParameter(function.ops[index].results[0]);
  }
  /// Whether `value` stays in registers between its producer and `user`.
  bool staysInside(ValueId value, const Op &user) const {
    return producer[value] >= 0 && isMap(user) &&
           isMap(function.ops[producer[value]]) &&
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
    if (op.space.kernel != KernelClass::Elementwise ||
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

  bool usedInside(ValueId value) const {
    for (const auto &use : planned.values[value].uses)
      if (use.op >= 0)
        return staysInside(value, function.ops[use.op]);
    return false;
  }

protected:
  const Plan &plan;
  const Function &function;
  const PlannedFunction &planned;
  const Profile &profile;
  const bool backward;
  const std::vector<int> &producer, &uses;
  const std::vector<bool> &returned;

private:
  bool isMap(const Op &op) const {
    return (profile.fuseElementwise &&
            op.space.kernel == KernelClass::Elementwise) ||
           (profile.fuseNorm && op.space.kernel == KernelClass::RowNorm);
  }
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_FUSEDFUNCTION_H

//===- LayerParts.cpp - What of a layer no plan changes -------------------===//
#include "cost_model/estimate/LayerTimes.h"

#include <algorithm>

namespace shardwright::cost {

LayerPart partOf(const Function &function, const Op &op) {
  if (isAttentionCore(op))
    return LayerPart::Core;
  const auto ofSequences = [&](ValueId id) {
    bool sequences = false, positions = false;
    for (const Dim &dim : function.values[id].dims) {
      sequences = sequences || dim.role == Role::Batch;
      positions = positions || dim.role == Role::Seq || dim.role == Role::KvSeq;
    }
    return sequences && !positions;
  };
  if (std::any_of(op.operands.begin(), op.operands.end(), ofSequences) ||
      std::any_of(op.results.begin(), op.results.end(), ofSequences))
    return LayerPart::Core;
  return op.segment == Segment::Experts || op.segment == Segment::Router
             ? LayerPart::Experts
             : LayerPart::Ops;
}

namespace {

FunctionFacts factsOf(const Function &function) {
  FunctionFacts facts;
  facts.producer.assign(function.values.size(), -1);
  facts.uses.assign(function.values.size(), 0);
  facts.returned.assign(function.values.size(), false);
  for (size_t op = 0; op < function.ops.size(); ++op) {
    for (ValueId value : function.ops[op].operands)
      ++facts.uses[value];
    for (ValueId value : function.ops[op].results)
      facts.producer[value] = static_cast<int>(op);
    facts.parts.push_back(partOf(function, function.ops[op]));
    for (const Factor &factor : function.ops[op].space.factors)
      if (factor.role == Role::Choice)
        facts.choices = std::max(facts.choices, factor.size);
  }
  for (const Result &result : function.results)
    facts.returned[result.value] = true;
  return facts;
}

} // namespace

VariantFacts factsOf(const KindVariant &variant) {
  return {factsOf(variant.forward), factsOf(variant.dataGrad),
          factsOf(variant.weightGrad)};
}

} // namespace shardwright::cost

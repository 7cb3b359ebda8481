//===- KernelTable.cpp - Generated kernels of a module --------------------===//
#include "passes/Lower/KernelTable.h"

#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Spmd/IR/SpmdDialect.h"
#include "passes/Schedule/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace shardwright {

bool isRowOp(Operation *op) {
  return isa<model::AddOp, model::BiasAddOp, model::ColumnSumOp,
             model::RmsNormOp, model::RmsNormGradOp, model::RmsNormWeightGradOp,
             model::SquareSumOp, model::RmsApplyOp, model::RowDotOp,
             model::RmsApplyGradOp, model::LayerNormOp, model::LayerNormGradOp,
             model::LayerNormWeightGradOp, model::RopeOp, model::SwigluOp,
             model::SwigluGradOp, model::GeluOp, model::GeluGradOp,
             model::ReluOp, model::ReluGradOp, model::ScaleOp, model::SoftcapOp,
             model::SoftcapGradOp, model::ClipOp, model::ClipGradOp,
             model::FillOp, model::AddPositionsOp, model::AddPositionsGradOp,
             model::MaxLogitOp, model::SumExpOp, model::TargetLogitOp,
             model::TokenLossOp, model::SoftmaxGradOp>(op);
}

/// Letters whose place on a rank the code of `op` depends on: the position of
/// a row, the number of a logit.
static StringRef originLetters(Operation *op) {
  if (isa<model::RopeOp, model::AddPositionsOp, model::AddPositionsGradOp>(op))
    return "s";
  if (isa<model::MaxLogitOp, model::SumExpOp, model::TargetLogitOp,
          model::SoftmaxGradOp>(op))
    return "v";
  return "";
}

/// Drops attributes that do not change what `op` computes, so that equal
/// kernels are equal text.
static void reduceAttributes(Operation *op) {
  op->removeAttr(spmd::kAddressAttr);
  op->removeAttr("label");
  op->setAttr("segment", model::SegmentAttr::get(op->getContext(),
                                                 model::Segment::Stream));
  op->removeAttr(kFusionGroupAttr);
  auto axes = op->getAttrOfType<DictionaryAttr>(plan::kAxesAttr);
  op->removeAttr(plan::kAxesAttr);
  if (!axes)
    return;
  SmallVector<NamedAttribute> kept;
  for (NamedAttribute entry : axes)
    if (originLetters(op).contains(entry.getName().getValue()) &&
        !cast<ArrayAttr>(entry.getValue()).empty())
      kept.push_back(entry);
  if (!kept.empty())
    op->setAttr(plan::kAxesAttr, DictionaryAttr::get(op->getContext(), kept));
}

static std::string textOf(rt::KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel->print(stream, OpPrintingFlags().printGenericOpForm());
  return text;
}

FlatSymbolRefAttr KernelTable::get(ArrayRef<Operation *> group,
                                   ArrayRef<Value> inputs,
                                   ArrayRef<Value> outputs,
                                   ArrayRef<bool> accumulate) {
  MLIRContext *context = builder.getContext();
  Location location = group.front()->getLoc();
  auto type = builder.getFunctionType(ValueRange(inputs).getTypes(),
                                      ValueRange(outputs).getTypes());
  auto kernel = rt::KernelOp::create(builder, location, "kernel", type);
  Block *body = &kernel.getBody().front();
  IRMapping mapping;
  for (auto [value, argument] : llvm::zip(inputs, body->getArguments()))
    mapping.map(value, argument);
  OpBuilder inside = OpBuilder::atBlockEnd(body);
  std::string stem;
  for (Operation *op : group) {
    reduceAttributes(inside.clone(*op, mapping));
    stem += (stem.empty() ? "" : ".") + op->getName().stripDialect().str();
  }
  SmallVector<Value> yielded;
  for (auto [index, value] : llvm::enumerate(outputs)) {
    yielded.push_back(mapping.lookup(value));
    if (accumulate[index])
      kernel.setResultAttr(index, StringAttr::get(context, kAccumulateAttr),
                           UnitAttr::get(context));
  }
  rt::YieldOp::create(inside, location, yielded);

  auto [entry, isNew] = nameByText.try_emplace(textOf(kernel));
  if (!isNew) {
    kernel.erase();
    return FlatSymbolRefAttr::get(context, entry->second);
  }
  const int number = uses[stem]++;
  entry->second = stem + "." + std::to_string(number);
  kernel.setSymName(entry->second);
  return FlatSymbolRefAttr::get(context, entry->second);
}

} // namespace shardwright

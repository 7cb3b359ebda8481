//===- SpmdVerify.cpp - Verifiers of the spmd dialect ---------------------===//
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Spmd/IR/SpmdOps.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::spmd;

LogicalResult ActionAttr::verify(llvm::function_ref<InFlightDiagnostic()> error,
                                 ActionKind, int64_t microbatch, int64_t slot,
                                 int64_t chunk) {
  for (int64_t number : {microbatch, slot, chunk})
    if (number < 0) // action_c1
      return error() << "expected microbatch, slot and chunk to be at least 0, "
                        "but got "
                     << number;
  return success();
}

namespace {

/// collective_c1: there is an axis, every axis is one of the mesh, none stands
/// twice. Returns the number of ranks in `ranks`; 0 if there is no mesh to ask.
LogicalResult verifyAxes(Operation *op, ArrayAttr axes, int64_t &ranks) {
  if (axes.empty()) // collective_c1
    return op->emitOpError() << "expected at least one axis, but got none";
  ranks = 0;
  plan::MeshAttr mesh = plan::MeshAttr::of(op);
  for (auto [index, axis] : llvm::enumerate(axes)) {
    if (llvm::is_contained(axes.getValue().take_front(index),
                           axis)) // collective_c1
      return op->emitOpError()
             << "expected axes to differ, but got " << axis << " twice";
    if (mesh && mesh.sizeOf(cast<StringAttr>(axis).getValue()) < 0)
      return op->emitOpError() // collective_c1
             << "expected an axis of " << mesh << ", but got " << axis;
  }
  if (mesh)
    ranks = mesh.degree(axes);
  return success();
}

/// collective_c2: types differ only in dim `dim`, where `whole` is the number
/// of ranks of the group times `part`.
LogicalResult verifyParts(Operation *op, ArrayAttr axes, int64_t dim,
                          Type wholeType, Type partType) {
  int64_t ranks;
  if (failed(verifyAxes(op, axes, ranks)))
    return failure();
  auto whole = cast<RankedTensorType>(wholeType);
  auto part = cast<RankedTensorType>(partType);
  if (dim < 0 || dim >= whole.getRank()) // collective_c2
    return op->emitOpError() << "expected dim to be one of " << whole.getRank()
                             << ", but got " << dim;
  SmallVector<int64_t> wanted(part.getShape());
  bool matches = whole.getRank() == part.getRank() &&
                 whole.getElementType() == part.getElementType();
  if (matches) {
    int64_t factor = ranks;
    if (factor == 0) // no mesh: any whole multiple will do
      factor = std::max<int64_t>(1, whole.getDimSize(dim) /
                                        std::max<int64_t>(1, wanted[dim]));
    wanted[dim] *= factor;
    matches = ArrayRef<int64_t>(wanted) == whole.getShape();
  }
  if (!matches) // collective_c2
    return op->emitOpError()
           << "expected dim " << dim << " of " << whole << " to be "
           << (ranks ? std::to_string(ranks) + " times" : "a multiple of")
           << " that of " << part << " and the rest to be equal";
  return success();
}

} // namespace

LogicalResult AllReduceOp::verify() {
  int64_t ranks;
  if (failed(verifyAxes(*this, getAxes(), ranks)))
    return failure();
  if (getInput().getType() != getResult().getType()) // all_reduce_c1
    return emitOpError() << "expected the result to have type "
                         << getInput().getType() << ", but got "
                         << getResult().getType();
  return success();
}

LogicalResult AllGatherOp::verify() {
  return verifyParts(*this, getAxes(), getDim(), getResult().getType(),
                     getInput().getType());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyParts(*this, getAxes(), getDim(), getInput().getType(),
                     getResult().getType());
}
LogicalResult SliceOp::verify() {
  return verifyParts(*this, getAxes(), getDim(), getInput().getType(),
                     getResult().getType());
}

LogicalResult StageOp::verify() {
  if (getIndex() < 0) // stage_c1
    return emitOpError() << "expected index to be at least 0, but got "
                         << getIndex();
  for (Attribute run : getRuns()) {
    auto triple = dyn_cast<ArrayAttr>(run);
    if (!triple || triple.size() != 3 || !isa<StringAttr>(triple[0]) ||
        !isa<IntegerAttr>(triple[1]) || !isa<IntegerAttr>(triple[2]))
      return emitOpError() // stage_c2
             << "expected each run to be [\"function\", count, first layer], "
                "but got "
             << run;
    if (cast<IntegerAttr>(triple[1]).getInt() < 1) // stage_c2
      return emitOpError() << "expected the count of " << triple[0]
                           << " to be at least 1, but got "
                           << cast<IntegerAttr>(triple[1]).getInt();
  }
  if (std::optional<ArrayAttr> schedule = getSchedule()) {
    int64_t slots = getSlots().value_or(0);
    for (Attribute entry : *schedule) {
      auto action = dyn_cast<ActionAttr>(entry);
      if (!action) // stage_c3
        return emitOpError() << "expected the schedule to hold #spmd.action, "
                                "but got "
                             << entry;
      bool usesSlot = action.getKind() == ActionKind::Forward ||
                      action.getKind() == ActionKind::BackwardData ||
                      action.getKind() == ActionKind::BackwardWeight;
      if (usesSlot && getSlots() && action.getSlot() >= slots) // stage_c4
        return emitOpError()
               << "expected slots below " << slots << ", but got " << action;
    }
  }
  return success();
}

//===- SpmdVerify.cpp - Verifiers of the spmd dialect ---------------------===//
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Spmd/IR/SpmdOps.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::spmd;

LogicalResult ActionAttr::verify(llvm::function_ref<InFlightDiagnostic()> error,
                                 ActionKind, int64_t microbatch, int64_t slot,
                                 int64_t chunk, int64_t takes, int64_t leaves,
                                 int64_t peer) {
  for (int64_t number : {microbatch, slot, chunk})
    if (number < 0) // action_c1
      return error() << "expected microbatch, slot and chunk to be at least 0, "
                        "but got "
                     << number;
  for (int64_t number : {takes, leaves, peer})
    if (number < -1) // action_c1
      return error() << "expected takes, leaves and peer to be at least -1, "
                        "but got "
                     << number;
  return success();
}

int64_t StageOp::chunkOf(Attribute run) {
  auto entries = cast<ArrayAttr>(run);
  return entries.size() < 4 ? 0 : cast<IntegerAttr>(entries[3]).getInt();
}

int64_t StageOp::getNumChunks() {
  return getRuns().empty() ? 1 : chunkOf(getRuns().getValue().back()) + 1;
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
  int64_t chunk = 0;
  for (auto [number, run] : llvm::enumerate(getRuns())) {
    auto entries = dyn_cast<ArrayAttr>(run);
    if (!entries || (entries.size() != 3 && entries.size() != 4) ||
        !isa<StringAttr>(entries[0]) ||
        !llvm::all_of(entries.getValue().drop_front(),
                      llvm::IsaPred<IntegerAttr>))
      return emitOpError() // stage_c2
             << "expected each run to be [\"function\", count, first layer], "
                "or "
                "with its chunk behind them, but got "
             << run;
    if (cast<IntegerAttr>(entries[1]).getInt() < 1) // stage_c2
      return emitOpError() << "expected the count of " << entries[0]
                           << " to be at least 1, but got "
                           << cast<IntegerAttr>(entries[1]).getInt();
    const int64_t next = chunkOf(run);
    if (next != chunk && (number == 0 || next != chunk + 1)) // stage_c2
      return emitOpError() << "expected the chunk of " << run << " to be "
                           << chunk << (number == 0 ? "" : " or the next")
                           << ", but got " << next;
    chunk = next;
  }
  if (std::optional<ArrayAttr> schedule = getSchedule()) {
    const ArrayRef<int64_t> slots = getSlots().value_or(ArrayRef<int64_t>());
    for (Attribute entry : *schedule) {
      auto action = dyn_cast<ActionAttr>(entry);
      if (!action) // stage_c3
        return emitOpError() << "expected the schedule to hold #spmd.action, "
                                "but got "
                             << entry;
      bool usesSlot = action.getKind() == ActionKind::Forward ||
                      action.getKind() == ActionKind::BackwardData ||
                      action.getKind() == ActionKind::BackwardWeight ||
                      action.getKind() == ActionKind::RecvForward;
      if (!usesSlot || !getSlots())
        continue;
      if (action.getChunk() >= static_cast<int64_t>(slots.size())) // stage_c4
        return emitOpError() << "expected chunks below " << slots.size()
                             << ", but got " << action;
      if (action.getSlot() >= slots[action.getChunk()]) // stage_c4
        return emitOpError()
               << "expected slots below " << slots[action.getChunk()]
               << ", but got " << action;
    }
  }
  return success();
}

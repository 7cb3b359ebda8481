//===- VerifyAllocation.cpp - Simulates the buffers of every function -----===//
//
// Shares no code with the allocator: it does not ask how long a value lives,
// it runs the ops over a picture of the memory and looks whether what they
// read is still there.
//
//===----------------------------------------------------------------------===//
#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Phase/Diagnostics.h"
#include "passes/Verify/Passes.h"

#include <map>

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_VERIFYALLOCATIONPASS
#include "passes/Verify/Passes.h.inc"

namespace {

struct Region {
  rt::Base base;
  int64_t begin, end;
  bool overlaps(const Region &other) const {
    return base == other.base && begin < other.end && other.begin < end;
  }
  bool operator==(const Region &) const = default;
};

class Simulation {
public:
  LogicalResult run(model::KindOp function) {
    workspace = 0;
    if (auto bytes = function->getAttrOfType<IntegerAttr>(spmd::kWorkspaceAttr))
      workspace = bytes.getInt();
    if (failed(enter(function)))
      return failure();
    SmallVector<Operation *> group;
    Attribute groupNumber;
    for (Operation &op : function.getBody().front()) {
      for (Value operand : op.getOperands())
        if (failed(read(op, operand)))
          return failure();
      if (isa<model::ReturnOp>(op))
        break;
      Attribute number = op.getAttr("fusion_group");
      if (!number || number != groupNumber)
        group.clear();
      groupNumber = number;
      group.push_back(&op);
      if (failed(write(op)) || (number && failed(checkGroup(group))))
        return failure();
    }
    leave(function);
    return success();
  }

private:
  static int64_t bytesOf(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }

  LogicalResult setRegion(Operation *op, Value value, Attribute attr) {
    auto address = dyn_cast_or_null<rt::AddrAttr>(attr);
    if (!address)
      return Breach(op->emitOpError(), BreachId::memory_reused)
             << "expected '" << spmd::kAddressAttr
             << "' for every value, but got none";
    Region region{address.getBase(), address.getOffset(),
                  address.getOffset() + bytesOf(value)};
    if (region.base == rt::Base::Workspace && region.end > workspace)
      return Breach(op->emitOpError(), BreachId::memory_reused)
             << "expected buffers to end within the " << workspace
             << " bytes of workspace, but got " << region.end;
    regions[value] = region;
    return success();
  }

  LogicalResult enter(model::KindOp function) {
    for (BlockArgument argument : function.getBody().front().getArguments()) {
      unsigned number = argument.getArgNumber();
      if (failed(setRegion(function, argument,
                           function.getArgAttr(number, spmd::kAddressAttr))))
        return failure();
      model::ArgAttr attr = function.getModelArg(number);
      if (attr.getKind() != model::ArgKind::Kept) {
        fill(argument);
        continue;
      }
      // What the function before has kept has to be there still.
      auto found = kept.find(attr.getIndex());
      if (found == kept.end() || !holds(found->second) ||
          !(regions[found->second] == regions[argument]))
        return Breach(function.emitOpError(), BreachId::memory_reused)
               << "expected kept value " << attr.getIndex()
               << " to lie where the data gradient left it";
      fill(argument);
    }
    return success();
  }
  void leave(model::KindOp function) {
    for (OpOperand &operand : function.getReturn()->getOpOperands()) {
      model::ResAttr attr = function.getModelRes(operand.getOperandNumber());
      if (attr.getKind() == model::ResultKind::Kept)
        kept[attr.getIndex()] = operand.get();
    }
  }

  bool holds(Value value) const { return llvm::is_contained(alive, value); }
  void fill(Value value) {
    const Region &region = regions[value];
    llvm::erase_if(
        alive, [&](Value other) { return regions[other].overlaps(region); });
    alive.push_back(value);
  }

  LogicalResult read(Operation &op, Value value) {
    if (holds(value))
      return success();
    Breach error(
        op.emitOpError("expected what it reads to be alive, but another value "
                       "has been written over it"),
        BreachId::memory_reused);
    error.attachNote(value.getLoc()) << "this value";
    return error;
  }

  LogicalResult write(Operation &op) {
    auto addresses = op.getAttrOfType<ArrayAttr>(spmd::kAddressAttr);
    if (!addresses || addresses.size() != op.getNumResults())
      return Breach(op.emitOpError(), BreachId::memory_reused)
             << "expected '" << spmd::kAddressAttr
             << "' with one address per result";
    for (auto [result, attr] : llvm::zip_equal(op.getResults(), addresses)) {
      if (failed(setRegion(&op, result, attr)))
        return failure();
      for (Value operand : op.getOperands()) {
        bool inPlace =
            isa<spmd::AllReduceOp>(op) && regions[operand] == regions[result];
        if (!inPlace && regions[operand].overlaps(regions[result]))
          return Breach(op.emitOpError(), BreachId::memory_reused)
                 << "expected its result to lie apart from "
                    "what it reads";
      }
      fill(result);
    }
    return success();
  }

  /// The ops of a group run row by row: none may write where another reads or
  /// writes.
  LogicalResult checkGroup(ArrayRef<Operation *> group) {
    for (Operation *writer : group)
      for (Value written : writer->getResults())
        for (Operation *other : group) {
          SmallVector<Value> values(other->getOperands());
          llvm::append_range(values, other->getResults());
          for (Value value : values)
            if (value != written && regions[value].overlaps(regions[written]))
              return Breach(writer->emitOpError(), BreachId::memory_reused)
                     << "expected the buffers of a fusion group to lie apart";
        }
    return success();
  }

  int64_t workspace = 0;
  llvm::DenseMap<Value, Region> regions;
  SmallVector<Value> alive;
  std::map<int64_t, Value> kept;
};

/// Runs the schedule of a stage over a picture of its slots: what a microbatch
/// has saved in a chunk must be whole until its weight gradient.
LogicalResult verifySlots(spmd::StageOp stage) {
  DictionaryAttr arena = stage.getArenaAttr();
  DenseI64ArrayAttr first, bytes;
  if (arena) {
    first = arena.getAs<DenseI64ArrayAttr>("first_slot");
    bytes = arena.getAs<DenseI64ArrayAttr>("slot_bytes");
  }
  if (!first || !bytes || !stage.getSchedule())
    return Breach(stage.emitOpError(), BreachId::memory_reused)
           << "expected 'schedule', and 'first_slot' and 'slot_bytes' in "
              "'arena'";
  auto end = arena.getAs<IntegerAttr>("slots_bytes");
  struct Held {
    int64_t begin, end, slot;
  };
  std::map<std::pair<int64_t, int64_t>, Held> alive; // by chunk and microbatch
  for (auto action : stage.getSchedule()->getAsRange<spmd::ActionAttr>()) {
    using Kind = spmd::ActionKind;
    const Kind kind = action.getKind();
    if (kind != Kind::RecvForward && kind != Kind::Forward &&
        kind != Kind::BackwardData && kind != Kind::BackwardWeight)
      continue;
    const int64_t chunk = action.getChunk();
    if (chunk >= first.size() || chunk >= bytes.size())
      return Breach(stage.emitOpError(), BreachId::memory_reused)
             << "expected slots of the chunk of " << action;
    const std::pair who(chunk, action.getMicrobatch());
    const int64_t begin = first[chunk] + action.getSlot() * bytes[chunk];
    auto found = alive.find(who);
    if (found == alive.end() && kind != Kind::RecvForward &&
        kind != Kind::Forward)
      return Breach(stage.emitOpError(), BreachId::memory_reused)
             << "expected a forward before " << action;
    if (found == alive.end()) {
      const Held own{begin, begin + bytes[chunk], action.getSlot()};
      if (!end || own.end > end.getInt())
        return Breach(stage.emitOpError(), BreachId::memory_reused)
               << "expected the slot of " << action
               << " to end within the slots of the arena";
      for (const auto &[other, held] : alive)
        if (own.begin < held.end && held.begin < own.end)
          return Breach(stage.emitOpError(), BreachId::memory_reused)
                 << "expected a free slot for " << action << ", but microbatch "
                 << other.second << " of chunk " << other.first << " is in it";
      found = alive.emplace(who, own).first;
    }
    if (found->second.slot != action.getSlot())
      return Breach(stage.emitOpError(), BreachId::memory_reused)
             << "expected slot " << found->second.slot << " in " << action;
    if (kind == Kind::BackwardWeight)
      alive.erase(found);
  }
  return success();
}

class VerifyAllocationPass
    : public impl::VerifyAllocationPassBase<VerifyAllocationPass> {
public:
  using VerifyAllocationPassBase::VerifyAllocationPassBase;

  LogicalResult run(ModuleOp module) override {
    for (auto kind : module.getOps<model::KindOp>()) {
      if (kind.getPart() == model::Part::WeightGrad && dataGradOf(kind))
        continue; // runs with its data gradient
      Simulation simulation;
      if (failed(simulation.run(kind)))
        return failure();
      if (kind.getPart() != model::Part::DataGrad)
        continue;
      StringRef prefix = kind.getSymName();
      prefix.consume_back(".data_grad");
      auto weightGrad =
          module.lookupSymbol<model::KindOp>((prefix + ".weight_grad").str());
      if (weightGrad && failed(simulation.run(weightGrad)))
        return failure();
    }
    for (auto stage : module.getOps<spmd::StageOp>())
      if (failed(verifySlots(stage)))
        return failure();
    markAllAnalysesPreserved();
    return success();
  }

private:
  model::KindOp dataGradOf(model::KindOp weightGrad) {
    StringRef prefix = weightGrad.getSymName();
    prefix.consume_back(".weight_grad");
    return getOperation().lookupSymbol<model::KindOp>(
        (prefix + ".data_grad").str());
  }
};

} // namespace
} // namespace shardwright

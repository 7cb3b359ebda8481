#include "cost_model/partition/Layout.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Plan/PlannedModule.h"
#include "passes/Schedule/ParameterAddresses.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Workspace.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_ALLOCATEPASS
#include "passes/Schedule/Passes.h.inc"

namespace {

int64_t aligned(int64_t bytes) {
  return cost::roundUp(bytes, cost::arenaAlignment);
}

/// While groups are formed: the number that an op had.
constexpr llvm::StringLiteral kOldGroup("fusion_group_before");

/// Functions of one kind under one policy; null where there is none.
struct Variant {
  const cost::Kind *kind = nullptr;
  model::KindOp forward, dataGrad, weightGrad;
  int64_t workspaceBytes = 0;
  int64_t savedBytes = 0; ///< of one layer in a slot, with its stream
};

/// Offsets of saved values behind the stream in their slot, by index.
std::map<int64_t, int64_t> savedOffsets(model::KindOp forward) {
  std::map<int64_t, int64_t> bytes, offsets;
  for (auto [number, type] : llvm::enumerate(forward.getResultTypes()))
    if (model::ResAttr attr = forward.getModelRes(number);
        attr.getKind() == model::ResultKind::Saved)
      bytes[attr.getIndex()] = aligned(bytesOf(type));
  int64_t end = 0;
  for (auto [index, size] : bytes) {
    offsets[index] = end;
    end += size;
  }
  return offsets;
}

/// What one layer has in a slot: the stream that enters and its saved values.
int64_t savedBytes(model::KindOp forward) {
  int64_t bytes = 0;
  for (auto [number, type] : llvm::enumerate(forward.getArgumentTypes()))
    if (forward.getModelArg(number).getKind() == model::ArgKind::StreamIn)
      bytes += aligned(bytesOf(type));
  for (auto [number, type] : llvm::enumerate(forward.getResultTypes()))
    if (forward.getModelRes(number).getKind() == model::ResultKind::Saved)
      bytes += aligned(bytesOf(type));
  return bytes;
}

class Allocator {
public:
  explicit Allocator(const ParameterAddresses &parameters)
      : parameters(parameters) {}

  /// Places all values of a variant's functions and writes their addresses.
  LogicalResult place(Variant &variant) {
    SmallVector<model::KindOp> backward;
    for (model::KindOp op : {variant.dataGrad, variant.weightGrad})
      if (op)
        backward.push_back(op);
    std::map<int64_t, int64_t> saved = savedOffsets(variant.forward);
    variant.savedBytes = savedBytes(variant.forward);
    int64_t most = 0;
    for (ArrayRef<model::KindOp> functions :
         {ArrayRef<model::KindOp>(variant.forward),
          ArrayRef<model::KindOp>(backward)}) {
      AddressMap addresses;
      for (model::KindOp op : functions)
        if (failed(placeBorders(op, *variant.kind, saved, addresses)))
          return failure();
      int64_t bytes = placeInside(functions, addresses);
      for (model::KindOp op : functions) {
        for (BlockArgument argument : op.getBody().front().getArguments())
          if (!addresses.contains(argument))
            return op.emitOpError()
                   << "expected the data gradient to keep argument "
                   << argument.getArgNumber() << ", but it does not";
        annotate(op, addresses, bytes);
      }
      most = std::max(most, bytes);
    }
    variant.workspaceBytes = most;
    return success();
  }

private:
  Address argumentAddress(model::ArgAttr attr, const cost::Kind &kind,
                          const std::map<int64_t, int64_t> &saved) {
    switch (attr.getKind()) {
    case model::ArgKind::StreamIn:
      return {rt::Base::StreamIn, 0};
    case model::ArgKind::StreamGrad:
      return {rt::Base::GradIn, 0};
    case model::ArgKind::Parameter:
      return parameters.of(kind, attr.getIndex(), /*gradient=*/false);
    case model::ArgKind::Saved:
      return {rt::Base::Saved, saved.at(attr.getIndex())};
    case model::ArgKind::Tokens:
      return {rt::Base::Tokens, 0};
    case model::ArgKind::Labels:
      return {rt::Base::Labels, 0};
    case model::ArgKind::Kept:
      break; // lies where it was made
    }
    return {rt::Base::Workspace, 0};
  }
  Address resultAddress(model::ResAttr attr, const cost::Kind &kind,
                        const std::map<int64_t, int64_t> &saved) {
    switch (attr.getKind()) {
    case model::ResultKind::StreamOut:
      return {rt::Base::StreamOut, 0};
    case model::ResultKind::StreamGrad:
      return {rt::Base::GradOut, 0};
    case model::ResultKind::Saved:
      return {rt::Base::Saved, saved.at(attr.getIndex())};
    case model::ResultKind::ParameterGrad:
      return parameters.of(kind, attr.getIndex(), /*gradient=*/true);
    case model::ResultKind::Loss:
      return {rt::Base::Loss, 0};
    case model::ResultKind::Kept:
      break; // placed with the temporaries
    }
    return {rt::Base::Workspace, 0};
  }

  /// Places what lies outside of the workspace.
  LogicalResult placeBorders(model::KindOp op, const cost::Kind &kind,
                             const std::map<int64_t, int64_t> &saved,
                             AddressMap &addresses) {
    for (BlockArgument argument : op.getBody().front().getArguments()) {
      model::ArgAttr attr = op.getModelArg(argument.getArgNumber());
      if (attr.getKind() == model::ArgKind::Saved &&
          !saved.count(attr.getIndex()))
        return op.emitOpError() << "expected the forward function to save "
                                   "value "
                                << attr.getIndex() << ", but it does not";
      if (attr.getKind() != model::ArgKind::Kept)
        addresses[argument] = argumentAddress(attr, kind, saved);
    }
    for (OpOperand &operand : op.getReturn()->getOpOperands()) {
      model::ResAttr attr = op.getModelRes(operand.getOperandNumber());
      if (attr.getKind() == model::ResultKind::Kept)
        continue;
      if (attr.getKind() == model::ResultKind::Saved &&
          !saved.count(attr.getIndex()))
        return op.emitOpError() << "expected the forward function to save "
                                   "value "
                                << attr.getIndex() << ", but it does not";
      if (!addresses.insert({operand.get(), resultAddress(attr, kind, saved)})
               .second)
        return op.emitOpError()
               << "expected result " << operand.getOperandNumber()
               << " to be made by an op and returned once, but it has another "
                  "place already";
    }
    return success();
  }

  /// Places all other values. An op stays in the fusion group of the op before
  /// it as long as that takes the workspace of kernels of single ops, which is
  /// what was predicted: by chance it could also take less.
  int64_t placeInside(ArrayRef<model::KindOp> functions,
                      AddressMap &addresses) {
    SmallVector<std::pair<Operation *, Operation *>> joined;
    for (model::KindOp function : functions) {
      Operation *before = nullptr;
      int64_t number = 0;
      for (Operation &op : function.getBody().front()) {
        auto group = op.getAttrOfType<IntegerAttr>(kFusionGroupAttr);
        if (group && before && before->getAttr(kOldGroup) == group)
          joined.push_back({before, &op});
        before = group ? &op : nullptr;
        if (!group)
          continue;
        op.setAttr(kOldGroup, group);
        op.setAttr(kFusionGroupAttr,
                   IntegerAttr::get(group.getType(), number++));
      }
    }
    auto bytesNow = [&] {
      AddressMap copy = addresses;
      return placeValues(functions, copy);
    };
    int64_t bytes = bytesNow();
    for (auto [before, op] : joined) {
      Attribute alone = op->getAttr(kFusionGroupAttr);
      op->setAttr(kFusionGroupAttr, before->getAttr(kFusionGroupAttr));
      if (bytesNow() != bytes)
        op->setAttr(kFusionGroupAttr, alone);
    }
    for (model::KindOp function : functions)
      for (Operation &op : function.getBody().front())
        op.removeAttr(kOldGroup);
    return placeValues(functions, addresses);
  }

  void annotate(model::KindOp op, const AddressMap &addresses, int64_t bytes) {
    MLIRContext *context = op.getContext();
    auto attr = [&](Value value) -> Attribute {
      const Address &address = addresses.at(value);
      return rt::AddrAttr::get(context, address.base, address.offset);
    };
    auto name = StringAttr::get(context, spmd::kAddressAttr);
    Block &body = op.getBody().front();
    for (BlockArgument argument : body.getArguments())
      op.setArgAttr(argument.getArgNumber(), name, attr(argument));
    for (OpOperand &operand : op.getReturn()->getOpOperands())
      op.setResultAttr(operand.getOperandNumber(), name, attr(operand.get()));
    for (Operation &inner : body.without_terminator()) {
      SmallVector<Attribute> list;
      for (Value result : inner.getResults())
        list.push_back(attr(result));
      inner.setAttr(name, ArrayAttr::get(context, list));
    }
    op->setAttr(spmd::kWorkspaceAttr,
                IntegerAttr::get(IntegerType::get(context, 64), bytes));
  }

  const ParameterAddresses &parameters;
};

/// Slots of one size.
struct SlotPool {
  int64_t bytes;
  std::vector<bool> used; ///< by slot
};

/// Numbers the slots of the actions anew, so that chunks whose slots are of one
/// size share them, each microbatch the lowest that is free from its first
/// action to its weight gradient. Returns the pools; `poolOf` has that of each
/// chunk.
std::vector<SlotPool> shareSlots(spmd::StageOp stage,
                                 ArrayRef<int64_t> slotBytes,
                                 SmallVector<size_t> &poolOf) {
  std::vector<SlotPool> pools;
  for (int64_t bytes : slotBytes) {
    auto same = llvm::find_if(
        pools, [&](const SlotPool &pool) { return pool.bytes == bytes; });
    poolOf.push_back(same - pools.begin());
    if (same == pools.end())
      pools.push_back({bytes, {}});
  }
  std::map<std::pair<int64_t, int64_t>, int64_t> slotOf;
  SmallVector<Attribute> actions;
  for (auto action : stage.getSchedule()->getAsRange<spmd::ActionAttr>()) {
    int64_t slot = action.getSlot();
    if (action.getKind() == spmd::ActionKind::Forward ||
        action.getKind() == spmd::ActionKind::BackwardData ||
        action.getKind() == spmd::ActionKind::BackwardWeight ||
        action.getKind() == spmd::ActionKind::RecvForward) {
      std::vector<bool> &used = pools[poolOf[action.getChunk()]].used;
      auto [at, isNew] =
          slotOf.try_emplace({action.getChunk(), action.getMicrobatch()}, 0);
      if (isNew) {
        at->second = llvm::find(used, false) - used.begin();
        if (at->second == static_cast<int64_t>(used.size()))
          used.push_back(false);
        used[at->second] = true;
      }
      slot = at->second;
      if (action.getKind() == spmd::ActionKind::BackwardWeight)
        used[slot] = false;
    }
    actions.push_back(spmd::ActionAttr::get(
        stage.getContext(), action.getKind(), action.getMicrobatch(), slot,
        action.getChunk(), action.getTakes(), action.getLeaves(),
        action.getPeer()));
  }
  stage.setScheduleAttr(ArrayAttr::get(stage.getContext(), actions));
  SmallVector<int64_t> slots;
  for (size_t pool : poolOf)
    slots.push_back(static_cast<int64_t>(pools[pool].used.size()));
  stage.setSlots(slots);
  return pools;
}

/// Lays out the arena of a stage, as sw_rt_arena documents it.
DictionaryAttr arenaOf(spmd::StageOp stage, const PlannedModule &planned,
                       const std::map<std::string, Variant> &variants) {
  const cost::Plan &plan = planned.plan;
  cost::MemoryParts memory =
      cost::memoryOf(planned.program, plan, stage.getIndex());
  int64_t temporaries = 0;
  SmallVector<int64_t> slotBytes(stage.getNumChunks(), 0);
  for (Attribute run : stage.getRuns()) {
    auto entries = cast<ArrayAttr>(run);
    const Variant &variant = variants.at(cast<StringAttr>(entries[0]).str());
    temporaries = std::max(temporaries, variant.workspaceBytes);
    slotBytes[spmd::StageOp::chunkOf(run)] +=
        cast<IntegerAttr>(entries[1]).getInt() * variant.savedBytes;
  }
  int64_t stream = aligned(cost::streamBytes(planned.program, plan).count());

  Builder builder(stage.getContext());
  SmallVector<NamedAttribute> entries;
  auto set = [&](StringRef key, int64_t value) {
    entries.push_back(
        builder.getNamedAttr(key, builder.getI64IntegerAttr(value)));
  };
  int64_t end = 0;
  auto part = [&](StringRef key, int64_t bytes) {
    set(key, end);
    set((key + "_bytes").str(), bytes);
    end += aligned(bytes);
  };
  part("parameters", memory.parameters.count());
  part("gradients", memory.gradients.count());
  part("optimizer", memory.optimizer.count());
  part("slots", memory.saved.count());
  part("p2p", memory.p2p.count());
  part("comm", memory.comm.count());
  part("workspace", temporaries + 2 * stream);
  set("total", end);
  int64_t elements =
      memory.parameters.count() / cost::byteWidth(plan.dtypes.param);
  set("elements", elements);
  set("optimizer_elements", elements / cost::zeroDegree(plan));
  set("gradient_stream", temporaries);
  SmallVector<size_t> poolOf;
  SmallVector<int64_t> firstOfPool, firstSlots;
  int64_t slotsEnd = 0;
  for (const SlotPool &pool : shareSlots(stage, slotBytes, poolOf)) {
    firstOfPool.push_back(slotsEnd);
    slotsEnd += pool.bytes * static_cast<int64_t>(pool.used.size());
  }
  for (size_t pool : poolOf)
    firstSlots.push_back(firstOfPool[pool]);
  auto setList = [&](StringRef key, ArrayRef<int64_t> values) {
    entries.push_back(
        builder.getNamedAttr(key, builder.getDenseI64ArrayAttr(values)));
  };
  setList("first_slot", firstSlots);
  setList("slot_bytes", slotBytes);
  return builder.getDictionaryAttr(entries);
}

class AllocatePass : public impl::AllocatePassBase<AllocatePass> {
public:
  using AllocatePassBase::AllocatePassBase;

private:
  LogicalResult run(ModuleOp module) override {
    PlannedModule planned;
    if (failed(readPlannedModule(module, planned)))
      return failure();
    ParameterAddresses parameters(planned);
    if (!parameters.isConsistent())
      return emitError(module.getLoc())
             << "expected shared parameters to lie alike on "
                "all stages, but they do not";
    std::map<std::string, Variant> variants;
    for (auto op : module.getOps<model::KindOp>()) {
      PlannedKindFunction found;
      lookUp(planned, op, found);
      Variant &variant = variants[variantName(
          *found.kind, static_cast<cost::Recompute>(*op.getPolicy()))];
      variant.kind = found.kind;
      switch (*op.getPart()) {
      case model::Part::Forward:
        variant.forward = op;
        break;
      case model::Part::DataGrad:
        variant.dataGrad = op;
        break;
      case model::Part::WeightGrad:
        variant.weightGrad = op;
        break;
      }
    }
    Allocator allocator(parameters);
    for (auto &[name, variant] : variants) {
      if (!variant.forward)
        return emitError(module.getLoc())
               << "expected a forward function of '" << name << "'";
      if (failed(allocator.place(variant)))
        return failure();
    }
    for (auto stage : module.getOps<spmd::StageOp>())
      stage.setArenaAttr(arenaOf(stage, planned, variants));
    setPhase(module, IrPhase::Allocated);
    return success();
  }
};

} // namespace
} // namespace shardwright

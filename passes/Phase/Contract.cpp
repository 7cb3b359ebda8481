//===- Contract.cpp - Checks the contract of a phase ----------------------===//
//
// The contracts are those of the description of sw-verify-phase, in its order
// and with its labels.
//
//===----------------------------------------------------------------------===//
#include "passes/Phase/Diagnostics.h"
#include "passes/Phase/Phase.h"

#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanOps.h"
#include "dialects/Rt/IR/RtOps.h"
#include "dialects/Spmd/IR/SpmdOps.h"

#include <limits>

using namespace mlir;

namespace shardwright {
namespace {

constexpr llvm::StringLiteral kProgramKeys[] = {
    "name",  "family",   "sequence", "vocab",  "layers",
    "heads", "kv_heads", "head_dim", "hidden", "ffn"};

/// Dialects whose ops may occur in a phase.
bool isLegal(IrPhase phase, StringRef dialect) {
  if (dialect == "builtin" || dialect == "model")
    return true;
  if (dialect == "plan")
    return phase == IrPhase::Planned;
  if (dialect == "spmd")
    return phase >= IrPhase::Planned;
  if (dialect == "rt")
    return phase == IrPhase::Lowered;
  return false;
}

/// Programs number their values in 32 bits.
constexpr int64_t mostIndex = std::numeric_limits<int32_t>::max();

class Contract {
public:
  Contract(ModuleOp module, IrPhase phase) : module(module), phase(phase) {}

  LogicalResult check() {
    checkDialects();
    checkModule();
    checkStages();
    for (auto kind : module.getOps<model::KindOp>())
      checkKind(kind);
    return success(!failed);
  }

private:
  /// Error on `op`: the contract `id` is broken.
  Breach error(Operation *op, BreachId id) {
    failed = true;
    return Breach(op->emitError() << "phase '" << name(phase) << "': ", id);
  }

  void checkDialects();
  void checkModule();
  void checkImportedStack();
  void checkStages();
  void checkStage(spmd::StageOp stage, int64_t index);
  void checkKind(model::KindOp kind);
  void checkArguments(model::KindOp kind);
  void checkParameter(model::KindOp kind, unsigned index, int64_t number);
  void checkTypes(model::KindOp kind);
  void checkOps(model::KindOp kind);
  void checkAddresses(model::KindOp kind);

  ModuleOp module;
  IrPhase phase;
  bool failed = false;
};

void Contract::checkDialects() { // phase_c2
  module->walk([&](Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    if (!isLegal(phase, dialect))
      error(op, BreachId::phase_c2) << "expected no op of dialect '" << dialect
                                    << "', but got '" << op->getName() << "'";
    if (phase == IrPhase::Lowered && isa<model::KindOp>(op))
      error(op, BreachId::phase_c2)
          << "expected every kind to be lowered, but got '@"
          << cast<model::KindOp>(op).getSymName() << "'";
    bool collective = dialect == "spmd" && !isa<spmd::StageOp>(op);
    if (collective && (phase == IrPhase::Planned || phase == IrPhase::Lowered))
      error(op, BreachId::phase_c2)
          << "expected no collective of dialect 'spmd', but got '"
          << op->getName() << "'";
  });
}

void Contract::checkModule() {
  auto program = module->getAttrOfType<DictionaryAttr>(model::kProgramAttr);
  if (!program) { // phase_c3
    error(module, BreachId::phase_c3)
        << "expected the module attribute '" << model::kProgramAttr
        << "', but got none";
  } else {
    for (StringRef key : kProgramKeys)
      if (!program.get(key)) // phase_c3
        error(module, BreachId::phase_c3)
            << "expected '" << model::kProgramAttr << "' to have '" << key
            << "', but got only " << program;
  }
  if (phase <= IrPhase::Differentiated)
    checkImportedStack();
  if (phase >= IrPhase::Planned) {
    if (!module->getAttrOfType<plan::MeshAttr>(plan::kMeshAttr)) // phase_c5
      error(module, BreachId::phase_c5) << "expected the module attribute '"
                                        << plan::kMeshAttr << "', but got none";
    if (!module->getAttrOfType<StringAttr>(plan::kTextAttr)) // phase_c5
      error(module, BreachId::phase_c5) << "expected the module attribute '"
                                        << plan::kTextAttr << "', but got none";
  }
}

void Contract::checkImportedStack() { // phase_c4
  auto stacks = llvm::to_vector(module.getOps<model::StackOp>());
  if (stacks.size() != 1) {
    error(module, BreachId::phase_c4)
        << "expected one 'model.stack', but got " << stacks.size();
    return;
  }
  for (Attribute run : stacks[0].getRuns()) {
    StringRef kind = cast<StringAttr>(cast<ArrayAttr>(run)[0]).getValue();
    std::string function = kind.str();
    if (phase == IrPhase::Differentiated)
      function += ".none.forward";
    if (!module.lookupSymbol<model::KindOp>(function))
      error(stacks[0], BreachId::phase_c4)
          << "expected a 'model.kind' '@" << function << "' for '" << kind
          << "', but got none";
  }
}

void Contract::checkStages() {
  if (phase < IrPhase::Planned)
    return;
  auto mesh = module->getAttrOfType<plan::MeshAttr>(plan::kMeshAttr);
  auto stages = llvm::to_vector(module.getOps<spmd::StageOp>());
  int64_t wanted = mesh ? mesh.sizeOf("pp") : -1;
  if (wanted > 0 && static_cast<int64_t>(stages.size()) != wanted) // phase_c6
    error(module, BreachId::phase_c6)
        << "expected one 'spmd.stage' per coordinate of 'pp' (" << wanted
        << "), but got " << stages.size();
  for (auto [index, stage] : llvm::enumerate(stages))
    checkStage(stage, static_cast<int64_t>(index));
}

void Contract::checkStage(spmd::StageOp stage, int64_t index) {
  if (stage.getIndex() != index) // phase_c6
    error(stage, BreachId::phase_c6)
        << "expected index " << index << ", but got " << stage.getIndex();
  for (Attribute run : stage.getRuns()) {
    StringRef prefix = cast<StringAttr>(cast<ArrayAttr>(run)[0]).getValue();
    std::string function = (prefix + ".forward").str();
    Operation *symbol = module.lookupSymbol(function);
    bool found = phase == IrPhase::Lowered
                     ? isa_and_nonnull<rt::FuncOp>(symbol)
                     : isa_and_nonnull<model::KindOp>(symbol);
    if (!found) // phase_c7
      error(stage, BreachId::phase_c7)
          << "expected a function '@" << function << "' for the run " << run
          << ", but got none";
  }
  if (phase >= IrPhase::Scheduled &&
      (!stage.getSchedule() || !stage.getSlots()))
    error(stage, BreachId::phase_c10) // phase_c10
        << "expected 'schedule' and 'slots', but got "
        << (stage.getSchedule() ? "no 'slots'" : "no 'schedule'");
  if (phase >= IrPhase::Scheduled && stage.getSlots()) {
    ArrayRef<int64_t> slots = *stage.getSlots();
    if (static_cast<int64_t>(slots.size()) != stage.getNumChunks())
      error(stage, BreachId::phase_c10) // phase_c10
          << "expected 'slots' of " << stage.getNumChunks()
          << " chunks, but got those of " << slots.size();
    for (int64_t count : slots)
      if (count < 1)
        error(stage, BreachId::phase_c10) // phase_c10
            << "expected at least 1 of 'slots', but got " << count;
  }
  if (phase >= IrPhase::Allocated && !stage.getArena()) // phase_c11
    error(stage, BreachId::phase_c11) << "expected 'arena', but got none";
}

void Contract::checkKind(model::KindOp kind) {
  if (phase == IrPhase::Lowered)
    return;
  if (phase == IrPhase::Imported) {
    if (kind.getPart() || kind.getPolicy()) // phase_c8
      error(kind, BreachId::phase_c8)
          << "expected no part and no policy, but got both or one";
  } else {
    if (!kind.getPart() || !kind.getPolicy() || !kind.getKind()) { // phase_c8
      error(kind, BreachId::phase_c8)
          << "expected 'kind', 'policy' and 'part', but got not all";
    } else {
      std::string wanted =
          (*kind.getKind() + "." + stringifyRecompute(*kind.getPolicy()) + "." +
           stringifyPart(*kind.getPart()))
              .str();
      if (kind.getSymName() != wanted) // phase_c8
        error(kind, BreachId::phase_c8)
            << "expected the name '@" << wanted << "', but got '@"
            << kind.getSymName() << "'";
    }
  }
  checkArguments(kind);
  checkTypes(kind);
  checkOps(kind);
  if (phase >= IrPhase::Allocated)
    checkAddresses(kind);
}

void Contract::checkArguments(model::KindOp kind) { // phase_c9
  for (unsigned i = 0; i < kind.getNumArguments(); ++i) {
    model::ArgAttr arg = kind.getModelArg(i);
    if (arg && (arg.getIndex() < 0 || arg.getIndex() > mostIndex))
      error(kind, BreachId::phase_c9)
          << "expected argument " << i << " to have an index from 0 to "
          << mostIndex << ", but got " << arg.getIndex();
    if (!arg)
      error(kind, BreachId::phase_c9)
          << "expected '" << model::kArgAttr << "' on argument " << i
          << ", but got none";
    else if (arg.getKind() == model::ArgKind::Parameter)
      checkParameter(kind, i, arg.getIndex());
  }
  for (unsigned i = 0; i < kind.getNumResults(); ++i) {
    model::ResAttr res = kind.getModelRes(i);
    if (!res)
      error(kind, BreachId::phase_c9)
          << "expected '" << model::kResAttr << "' on result " << i
          << ", but got none";
    else if (res.getIndex() < 0 || res.getIndex() > mostIndex)
      error(kind, BreachId::phase_c9)
          << "expected result " << i << " to have an index from 0 to "
          << mostIndex << ", but got " << res.getIndex();
  }
}

/// phase_c9: a parameter argument has a declaration of the same type.
void Contract::checkParameter(model::KindOp kind, unsigned index,
                              int64_t number) {
  StringRef name = phase == IrPhase::Imported || !kind.getKind()
                       ? kind.getSymName()
                       : *kind.getKind();
  for (auto param : module.getOps<model::ParamOp>()) {
    if (param.getKind() != name || param.getIndex() != number)
      continue;
    if (param.getType() != kind.getArgumentTypes()[index])
      error(kind, BreachId::phase_c9)
          << "expected argument " << index << " to have the type of '@"
          << param.getSymName() << "' (" << param.getType() << "), but got "
          << kind.getArgumentTypes()[index];
    return;
  }
  error(kind, BreachId::phase_c9)
      << "expected a 'model.param' with kind '" << name << "' and index "
      << number << " for argument " << index << ", but got none";
}

void Contract::checkTypes(model::KindOp kind) { // phase_c5
  auto check = [&](Operation *op, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return;
    if (phase == IrPhase::Planned && !plan::ShardingAttr::of(tensor))
      error(op, BreachId::phase_c5)
          << "expected every tensor type to carry #plan.sh, but got " << tensor;
    if (phase != IrPhase::Planned && tensor.getEncoding())
      error(op, BreachId::phase_c5)
          << "expected no encoding of a tensor type, but got " << tensor;
  };
  for (Type type : kind.getArgumentTypes())
    check(kind, type);
  kind->walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      check(op, type);
  });
}

void Contract::checkOps(model::KindOp kind) { // phase_c5
  if (phase < IrPhase::Planned)
    return;
  kind->walk([&](model::IterationSpaceOpInterface op) {
    if (!op->getAttrOfType<DictionaryAttr>(plan::kAxesAttr))
      error(op, BreachId::phase_c5)
          << "expected '" << plan::kAxesAttr << "' on '" << op->getName()
          << "', but got none";
  });
}

void Contract::checkAddresses(model::KindOp kind) { // phase_c11
  for (unsigned i = 0; i < kind.getNumArguments(); ++i)
    if (!kind.getArgAttrOfType<rt::AddrAttr>(i, spmd::kAddressAttr))
      error(kind, BreachId::phase_c11)
          << "expected '" << spmd::kAddressAttr << "' on argument " << i
          << ", but got none";
  for (unsigned i = 0; i < kind.getNumResults(); ++i)
    if (!kind.getResultAttrOfType<rt::AddrAttr>(i, spmd::kAddressAttr))
      error(kind, BreachId::phase_c11)
          << "expected '" << spmd::kAddressAttr << "' on result " << i
          << ", but got none";
  if (!kind->getAttrOfType<IntegerAttr>(spmd::kWorkspaceAttr))
    error(kind, BreachId::phase_c11)
        << "expected '" << spmd::kWorkspaceAttr << "', but got none";
  for (Operation &op : kind.getBody().front()) {
    if (op.getNumResults() == 0)
      continue;
    auto addresses = op.getAttrOfType<ArrayAttr>(spmd::kAddressAttr);
    if (!addresses || addresses.size() != op.getNumResults() ||
        !llvm::all_of(addresses, llvm::IsaPred<rt::AddrAttr>))
      error(&op, BreachId::phase_c11)
          << "expected '" << spmd::kAddressAttr << "' with "
          << op.getNumResults() << " #rt.addr, but got "
          << op.getAttr(spmd::kAddressAttr);
  }
}

} // namespace

LogicalResult checkContract(ModuleOp module, ArrayRef<IrPhase> wanted) {
  auto marker = module->getAttrOfType<StringAttr>(spmd::kPhaseAttr);
  if (!marker) // phase_c1
    return Breach(module->emitError(), BreachId::phase_c1)
           << "expected the module attribute '" << spmd::kPhaseAttr
           << "', but got none";
  IrPhase phase = {};
  if (!phaseNamed(marker.getValue(), phase)) // phase_c1
    return Breach(module->emitError(), BreachId::phase_c1)
           << "expected '" << spmd::kPhaseAttr << "' to be a phase, but got "
           << marker;
  if (!llvm::is_contained(wanted, phase)) // phase_c1
    return Breach(module->emitError(), BreachId::phase_c1)
           << "expected phase " << oneOf(wanted) << ", but got " << marker;
  return Contract(module, phase).check();
}

} // namespace shardwright

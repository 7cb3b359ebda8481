//===- mutate.cpp - Programs that lack or repeat one transfer of data -----===//
//
//   mutate MODEL PLAN list
//   mutate MODEL PLAN (delete|double) NUMBER OUTPUT
//   mutate MODEL PLAN none OUTPUT
//
// Brings a model under a plan to phase `scheduled`, changes one spmd collective
// there (numbered in module order), or one transfer between stages (numbered
// behind the collectives, by what its stage sends), runs sw-verify-ledger on
// the result and then makes an executable of it all the same. Prints JSON: for
// `list` one object a change, else {"ledger_differs": bool, "notes": [...]}.
//
// delete: an all_reduce gives its input, a reduce_scatter this rank's part of
//   its input. No local op gives the whole from a part, so an all_gather is
//   replaced by an unregistered op for the ledger, and the runtime call that it
//   becomes is dropped for the executable, whose buffer then keeps what was
//   there.
// double: the sum is taken twice (what all_reduce gave is reduced again; what
//   reduce_scatter takes is all-reduced first); all_gather is called twice.
// A transfer is deleted or doubled at both ends: else somebody would wait for
//   ever.
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen/ModuleEmitter.h"
#include "compiler/Codegen/Object.h"
#include "compiler/Driver/Artifact.h"
#include "compiler/Files/ReadText.h"
#include "compiler/Import/BuildModel.h"
#include "compiler/Pipelines/Pipelines.h"
#include "cost_model/plan/PlanJson.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtOps.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Lower/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Verify/Passes.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/JSON.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace shardwright;

namespace {

bool isCollective(Operation *op) {
  return isa<spmd::AllReduceOp, spmd::AllGatherOp, spmd::ReduceScatterOp>(op);
}

std::vector<Operation *> collectivesOf(ModuleOp module) {
  std::vector<Operation *> found;
  module.walk([&](Operation *op) {
    if (isCollective(op))
      found.push_back(op);
  });
  return found;
}

/// A send of a schedule.
struct Transfer {
  spmd::StageOp from;
  spmd::ActionAttr send;
};

std::vector<Transfer> transfersOf(ModuleOp module) {
  std::vector<Transfer> found;
  for (auto stage : module.getOps<spmd::StageOp>())
    for (auto action : stage.getSchedule()->getAsRange<spmd::ActionAttr>())
      if (action.getKind() == spmd::ActionKind::SendForward ||
          action.getKind() == spmd::ActionKind::SendBackward)
        found.push_back({stage, action});
  return found;
}

/// Makes an action of a stage `times` times.
void repeat(spmd::StageOp stage, spmd::ActionAttr action, int times) {
  llvm::SmallVector<Attribute> actions;
  for (Attribute entry : stage.getScheduleAttr())
    actions.append(entry == action ? times : 1, entry);
  stage.setScheduleAttr(ArrayAttr::get(stage.getContext(), actions));
}

/// Makes a transfer `times` times at both ends. Its receive is in the same
/// place among those from that stage as it is among the sends to the other.
void repeat(ModuleOp module, Transfer transfer, int times) {
  const int64_t to = transfer.send.getPeer(), from = transfer.from.getIndex();
  int64_t place = 0;
  for (const Transfer &other : transfersOf(module)) {
    if (other.from != transfer.from || other.send.getPeer() != to)
      continue;
    if (other.send == transfer.send)
      break;
    ++place;
  }
  for (auto stage : module.getOps<spmd::StageOp>()) {
    if (stage.getIndex() != to)
      continue;
    for (auto action : stage.getSchedule()->getAsRange<spmd::ActionAttr>()) {
      const bool receives = action.getKind() == spmd::ActionKind::RecvForward ||
                            action.getKind() == spmd::ActionKind::RecvBackward;
      if (!receives || action.getPeer() != from || place-- > 0)
        continue;
      repeat(stage, action, times);
      break;
    }
  }
  repeat(transfer.from, transfer.send, times);
}

llvm::json::Object describe(Transfer transfer, int64_t number) {
  return llvm::json::Object{
      {"number", number},
      {"function", transfer.from.getSymName().str()},
      {"op", stringifyActionKind(transfer.send.getKind()).str()},
      {"microbatch", transfer.send.getMicrobatch()},
      {"chunk", transfer.send.getChunk()},
      {"axes", llvm::json::Array{"pp"}}};
}

int fail(const cost::Failure &failure) {
  for (const std::string &message : failure.messages)
    llvm::errs() << "mutate: " << message << "\n";
  return 1;
}

int fail(cost::Diag id, const std::string &text) {
  cost::Failure failure;
  cost::refuse(failure, id, text);
  return fail(failure);
}

llvm::json::Object describe(Operation *op, int64_t number) {
  llvm::json::Object entry{
      {"number", number},
      {"function", SymbolTable::getSymbolName(op->getParentOp()).str()},
      {"op", op->getName().stripDialect().str()}};
  llvm::json::Array axes;
  for (Attribute axis : op->getAttrOfType<ArrayAttr>("axes"))
    axes.push_back(cast<StringAttr>(axis).getValue().str());
  entry["axes"] = std::move(axes);
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op))
    entry["reduce"] =
        reduce.getReduce() == spmd::ReduceKind::Max ? "max" : "sum";
  return entry;
}

/// Rewrites the collective so that it is missing. False: it is an all_gather,
/// which stays until it is a runtime call.
bool remove(Operation *op) {
  OpBuilder builder(op);
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op)) {
    reduce.replaceAllUsesWith(reduce.getInput());
  } else if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op)) {
    Value part = spmd::SliceOp::create(
        builder, op->getLoc(), scatter.getResult().getType(),
        scatter.getInput(), scatter.getAxes(), scatter.getDim());
    scatter.replaceAllUsesWith(part);
  } else {
    return false;
  }
  op->erase();
  return true;
}

void repeat(Operation *op) {
  OpBuilder builder(op);
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op)) {
    builder.setInsertionPointAfter(op);
    auto again = spmd::AllReduceOp::create(
        builder, op->getLoc(), reduce.getResult().getType(),
        reduce.getResult(), reduce.getAxes(), reduce.getReduce());
    again->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    reduce.getResult().replaceAllUsesExcept(again.getResult(), again);
  } else if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op)) {
    auto before = spmd::AllReduceOp::create(
        builder, op->getLoc(), scatter.getInput().getType(),
        scatter.getInput(), scatter.getAxes(), spmd::ReduceKind::Sum);
    before->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    scatter->setOperand(0, before.getResult());
  } else {
    builder.clone(*op);
  }
}

class Mutation {
public:
  int run(int argc, char **argv);

private:
  bool prepare(const std::string &modelPath, const std::string &planPath);
  bool runPasses(llvm::function_ref<void(OpPassManager &)> build) {
    PassManager passes(&context);
    build(passes);
    return succeeded(passes.run(*module));
  }
  /// Whether sw-verify-ledger refuses `checked`; `notes` say why.
  bool ledgerDiffers(ModuleOp checked, llvm::json::Array &notes);
  bool lower();
  bool write(const std::string &output);

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  cost::Failure failure;
};

} // namespace

bool Mutation::prepare(const std::string &modelPath,
                       const std::string &planPath) {
  std::string text;
  cost::Plan plan;
  if (!readText(planPath, text, failure) ||
      !cost::readPlan(text, planPath, plan, failure) ||
      !importModel(modelPath, plan.sequence, context, module, failure))
    return false;
  PipelineOptions options;
  options.until = IrPhase::Partitioned;
  if (!runPasses([&](OpPassManager &passes) {
        buildImportPipeline(passes, options);
      }))
    return false;
  (*module)->setAttr(plan::kTextAttr,
                     StringAttr::get(&context, cost::canonicalText(plan)));
  return runPasses([&](OpPassManager &passes) {
    buildPlanPipeline(passes, options);
    passes.addPass(createOrderMicrobatchesPass());
  });
}

bool Mutation::ledgerDiffers(ModuleOp checked, llvm::json::Array &notes) {
  bool differs = false;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    differs = differs || diagnostic.str().find("expected the counted ledger to "
                                               "equal the predicted one") !=
                             std::string::npos;
    for (const Diagnostic &note : diagnostic.getNotes())
      notes.push_back(note.str());
    return success();
  });
  PassManager passes(&context);
  passes.addPass(createVerifyLedgerPass());
  return failed(passes.run(checked)) && differs;
}

/// As buildPlanPipeline does from `scheduled` on, but for sw-verify-ledger.
bool Mutation::lower() {
  return runPasses([&](OpPassManager &passes) {
    passes.addPass(createGroupRowOpsPass());
    passes.addPass(createAllocatePass());
    passes.addPass(createVerifyAllocationPass());
    passes.addPass(createSpmdToRtPass());
  });
}

bool Mutation::write(const std::string &output) {
  auto machine = codegen::makeTargetMachine(codegen::kDefaultCpu, failure);
  if (!machine)
    return false;
  llvm::LLVMContext llvmContext;
  llvm::Module target("mutant", llvmContext);
  codegen::setTarget(target, *machine);
  if (failed(codegen::emitModule(*module, target, {}, failure)))
    return false;
  codegen::optimize(target, *machine);
  llvm::SmallVector<char, 0> object;
  return codegen::emitObject(target, *machine, object, failure) &&
         writeExecutable(output, {object.data(), object.size()}, failure);
}

int Mutation::run(int argc, char **argv) {
  const std::string how = argc > 3 ? argv[3] : "";
  const bool changes = how == "delete" || how == "double";
  if (argc != (how == "list" ? 4 : how == "none" ? 5 : 6) ||
      !(changes || how == "list" || how == "none"))
    return fail(cost::Diag::wrong_flag,
                "expected MODEL PLAN (list | none OUTPUT | delete NUMBER "
                "OUTPUT | double NUMBER OUTPUT)");
  if (!prepare(argv[1], argv[2]))
    return fail(failure);
  const std::vector<Operation *> collectives = collectivesOf(*module);
  const std::vector<Transfer> transfers = transfersOf(*module);
  const auto count =
      static_cast<int64_t>(collectives.size() + transfers.size());
  if (how == "list") {
    for (auto [number, op] : llvm::enumerate(collectives))
      llvm::outs() << llvm::json::Value(
                          describe(op, static_cast<int64_t>(number)))
                   << "\n";
    int64_t number = static_cast<int64_t>(collectives.size());
    for (const Transfer &transfer : transfers)
      llvm::outs() << llvm::json::Value(describe(transfer, number++)) << "\n";
    return 0;
  }

  llvm::json::Array notes;
  bool differs = false, dropsCall = false;
  int64_t callNumber = 0;
  if (!changes) {
    differs = ledgerDiffers(*module, notes);
  } else {
    const int64_t number = std::atoll(argv[4]);
    if (number < 0 || number >= count)
      return fail(cost::Diag::flag_value, "expected a number below " +
                                              std::to_string(count) +
                                              ", but got " + argv[4]);
    const bool isTransfer = number >= static_cast<int64_t>(collectives.size());
    Operation *op = isTransfer ? nullptr : collectives[number];
    if (isTransfer) {
      repeat(*module, transfers[number - collectives.size()],
             how == "double" ? 2 : 0);
      differs = ledgerDiffers(*module, notes);
    } else if (how == "double") {
      repeat(op);
      differs = ledgerDiffers(*module, notes);
    } else if (!remove(op)) {
      for (int64_t i = 0; i < number; ++i)
        callNumber += isa<spmd::AllGatherOp>(collectives[i]);
      dropsCall = true;
      OwningOpRef<ModuleOp> counted = module->clone();
      Operation *gather = collectivesOf(*counted)[number];
      OpBuilder builder(gather);
      auto nothing = UnrealizedConversionCastOp::create(
          builder, gather->getLoc(), gather->getResultTypes(),
          gather->getOperands());
      gather->replaceAllUsesWith(nothing->getResults());
      gather->erase();
      differs = ledgerDiffers(*counted, notes);
    } else {
      differs = ledgerDiffers(*module, notes);
    }
  }
  if (!lower())
    return fail(cost::Diag::internal_error, "lowering failed");
  if (dropsCall) {
    std::vector<Operation *> calls;
    module->walk([&](rt::AllGatherOp call) { calls.push_back(call); });
    calls.at(static_cast<size_t>(callNumber))->erase();
  }
  if (!write(argv[argc - 1]))
    return fail(failure);
  llvm::outs() << llvm::json::Value(llvm::json::Object{
                      {"ledger_differs", differs}, {"notes", std::move(notes)}})
               << "\n";
  return 0;
}

int main(int argc, char **argv) { return Mutation().run(argc, argv); }

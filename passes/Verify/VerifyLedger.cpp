//===- VerifyLedger.cpp - Counted against predicted -----------------------===//
#include "cost_model/partition/Ledger.h"
#include "cost_model/partition/LedgerJson.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Phase/Diagnostics.h"
#include "passes/Plan/PlannedModule.h"
#include "passes/Verify/CountLedger.h"
#include "passes/Verify/Passes.h"

#include <set>

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_COUNTLEDGERPASS
#define GEN_PASS_DEF_VERIFYLEDGERPASS
#include "passes/Verify/Passes.h.inc"

namespace {

class CountLedgerPass : public impl::CountLedgerPassBase<CountLedgerPass> {
public:
  using CountLedgerPassBase::CountLedgerPassBase;

  LogicalResult run(ModuleOp module) override {
    for (auto stage : module.getOps<spmd::StageOp>()) {
      cost::Ledger ledger;
      if (!countLedger(module, stage.getIndex(), ledger))
        return failure();
      if (json)
        llvm::outs() << cost::ledgerJson(ledger) << "\n";
      else
        llvm::outs() << "stage " << stage.getIndex() << "\n"
                     << cost::text(ledger);
    }
    llvm::outs().flush();
    markAllAnalysesPreserved();
    return success();
  }
};

std::set<std::string> linesOf(const cost::Ledger &ledger) {
  std::string text = cost::text(ledger);
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::set<std::string> set;
  for (StringRef line : lines)
    set.insert(line.str());
  return set;
}

class VerifyLedgerPass : public impl::VerifyLedgerPassBase<VerifyLedgerPass> {
public:
  using VerifyLedgerPassBase::VerifyLedgerPassBase;

  LogicalResult run(ModuleOp module) override {
    PlannedModule planned;
    if (failed(readPlannedModule(module, planned)))
      return failure();
    std::vector<cost::Ledger> predicted =
        cost::predictLedgers(planned.program, planned.plan);
    bool agree = true;
    for (auto stage : module.getOps<spmd::StageOp>()) {
      cost::Ledger counted;
      if (stage.getIndex() >= static_cast<int64_t>(predicted.size()) ||
          !countLedger(module, stage.getIndex(), counted)) {
        agree = false;
        continue;
      }
      agree &= compare(stage, predicted[stage.getIndex()], counted);
      if (stage.getArena())
        agree &= checkArena(stage, counted.memory);
    }
    if (!agree)
      return failure();
    markAllAnalysesPreserved();
    return success();
  }

private:
  bool compare(spmd::StageOp stage, cost::Ledger predicted,
               cost::Ledger counted) {
    if (!stage.getArena()) {
      counted.memory.workspace = predicted.memory.workspace;
    } else if (counted.memory.workspace <= predicted.memory.workspace &&
               4 * predicted.memory.workspace.count() <=
                   5 * counted.memory.workspace.count()) {
      counted.memory.workspace = predicted.memory.workspace;
    }
    if (!stage.getSchedule()) {
      counted.memory.saved = predicted.memory.saved;
      if (stage.getNumChunks() > 1)
        counted.memory.p2p = predicted.memory.p2p;
    }
    std::set<std::string> wanted = linesOf(predicted), got = linesOf(counted);
    if (wanted == got)
      return true;
    Breach error(
        stage.emitOpError("expected the counted ledger to equal the predicted "
                          "one, but they differ"),
        BreachId::ledger_differs);
    for (const std::string &line : wanted)
      if (!got.count(line))
        error.attachNote() << "predicted: " << line;
    for (const std::string &line : got)
      if (!wanted.count(line))
        error.attachNote() << "counted: " << line;
    return false;
  }

  /// The arena must have the counted sizes, and room for every part.
  bool checkArena(spmd::StageOp stage, const cost::MemoryParts &memory) {
    DictionaryAttr arena = *stage.getArena();
    auto get = [&](StringRef key) {
      auto value = arena.getAs<IntegerAttr>(key);
      return value ? value.getInt() : int64_t(-1);
    };
    const std::pair<StringRef, cost::Bytes> parts[] = {
        {"parameters", memory.parameters},
        {"gradients", memory.gradients},
        {"optimizer", memory.optimizer},
        {"slots", memory.saved},
        {"p2p", memory.p2p},
        {"comm", memory.comm},
        {"workspace", memory.workspace}};
    bool isRight = true;
    int64_t end = 0;
    for (auto [name, bytes] : parts) {
      std::string key = (name + "_bytes").str();
      if (get(key) != bytes.count()) {
        Breach(stage.emitOpError(), BreachId::arena_differs)
            << "expected '" << key << "' of the arena to equal "
            << "the counted bytes (" << bytes.count() << "), but got "
            << get(key);
        isRight = false;
      }
      if (get(name) < end) {
        Breach(stage.emitOpError(), BreachId::arena_differs)
            << "expected '" << name << "' of the arena to "
            << "start at or behind " << end << ", but got " << get(name);
        isRight = false;
      }
      end = get(name) + get(key);
    }
    return isRight;
  }
};

} // namespace
} // namespace shardwright

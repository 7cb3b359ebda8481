#include "compiler/Pipelines/Pipelines.h"

#include "compiler/Files/OutputFile.h"
#include "passes/Differentiate/Passes.h"
#include "passes/Lower/Passes.h"
#include "passes/Partition/Passes.h"
#include "passes/Plan/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Verify/Passes.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace shardwright {

namespace {

/// Writes the module to a file and leaves it as it is.
class SnapshotPass : public PassWrapper<SnapshotPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SnapshotPass)

  explicit SnapshotPass(std::string path = "", cost::Failure *failure = nullptr)
      : path(std::move(path)), failure(failure) {}
  StringRef getArgument() const override { return "sw-snapshot"; }
  StringRef getDescription() const override {
    return "Writes the IR to a file";
  }

  void runOnOperation() override {
    std::string text;
    llvm::raw_string_ostream stream(text);
    getOperation()->print(stream);
    stream << "\n";
    cost::Failure writing;
    if (!writeText(path, text, writing)) {
      getOperation().emitError() << writing.messages.front().tagged();
      if (failure)
        *failure = writing;
      return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }

private:
  std::string path;
  cost::Failure *failure;
};

/// Ends a phase: its contract is checked and its IR written.
void endPhase(OpPassManager &manager, IrPhase phase,
              const PipelineOptions &options) {
  // The IR is written first: that of a broken contract is what one wants to
  // see.
  if (!options.dumpDir.empty()) {
    SmallString<128> path(options.dumpDir);
    llvm::sys::path::append(path, std::to_string(static_cast<int>(phase)) +
                                      "-" + name(phase) + ".mlir");
    manager.addPass(std::make_unique<SnapshotPass>(
        path.str().str(), options.failure));
  }
  VerifyPhasePassOptions verify;
  verify.phase = name(phase).str();
  manager.addPass(createVerifyPhasePass(verify));
}

} // namespace

void buildImportPipeline(OpPassManager &manager,
                         const PipelineOptions &options) {
  // What the importer built is checked before anything relies on it.
  endPhase(manager, IrPhase::Imported, options);
  if (options.until < IrPhase::Differentiated)
    return;
  // Gradients at global shapes, so that a plan sees them as ordinary ops.
  manager.addPass(createDifferentiatePass());
  endPhase(manager, IrPhase::Differentiated, options);
}

void buildPlanPipeline(OpPassManager &manager, const PipelineOptions &options) {
  if (options.until < IrPhase::Planned)
    return;
  // All decisions of the plan become attributes before any shape changes.
  ApplyPlanPassOptions apply;
  apply.plan = options.planPath;
  manager.addPass(createApplyPlanPass(apply));
  // Collectives become ops while encodings can still tell what they are for.
  manager.addPass(createInsertReshardsPass());
  endPhase(manager, IrPhase::Planned, options);

  if (options.until < IrPhase::Partitioned)
    return;
  // Local shapes: from here on the program is that of one rank.
  manager.addPass(createPartitionPass());
  endPhase(manager, IrPhase::Partitioned, options);

  if (options.until < IrPhase::Scheduled)
    return;
  // The order of microbatches fixes the number of slots, which memory needs.
  manager.addPass(createOrderMicrobatchesPass());
  endPhase(manager, IrPhase::Scheduled, options);

  if (options.until < IrPhase::Allocated)
    return;
  // Kernels are fixed before buffers are: a kernel's buffers live together.
  manager.addPass(createGroupRowOpsPass());
  // Last on tensors: every value gets its address.
  manager.addPass(createAllocatePass());
  endPhase(manager, IrPhase::Allocated, options);
  // An address that is wrong would only show as wrong numbers at run time.
  manager.addPass(createVerifyAllocationPass());
  // No later pass touches a collective or a buffer, so this is where the
  // predicted ledger must hold.
  manager.addPass(createVerifyLedgerPass());

  if (options.until < IrPhase::Lowered)
    return;
  // Mechanical: one runtime call per op.
  manager.addPass(createSpmdToRtPass());
  endPhase(manager, IrPhase::Lowered, options);
}

namespace {

/// Reads a phase out of those that a pipeline may stop after.
template <IrPhase first, IrPhase last>
class UntilParser : public llvm::cl::parser<std::string> {
public:
  using parser::parser;

  bool parse(llvm::cl::Option &option, StringRef flag, StringRef text,
             std::string &value) {
    SmallVector<IrPhase> legal;
    for (IrPhase phase : allPhases())
      if (phase >= first && phase <= last)
        legal.push_back(phase);
    IrPhase phase = {};
    if (!phaseNamed(text, phase) || !llvm::is_contained(legal, phase))
      return option.error("expected " + oneOf(legal) + ", but got '" + text +
                          "'");
    return parser::parse(option, flag, text, value);
  }
};

/// Options of a pipeline that goes no further than to `last`.
template <IrPhase first, IrPhase last>
struct TextOptions : PassPipelineOptions<TextOptions<first, last>> {
  template <typename T, typename Parser = llvm::cl::parser<T>>
  using Option = detail::PassOptions::Option<T, Parser>;

  Option<std::string, UntilParser<first, last>> until{
      *this, "until", llvm::cl::desc("Phase to stop after"),
      llvm::cl::init(name(last).str())};
  Option<std::string> dumpDir{
      *this, "dump-dir",
      llvm::cl::desc("Folder that gets the IR of each phase"),
      llvm::cl::init("")};

  PipelineOptions value() const {
    PipelineOptions options;
    phaseNamed(until, options.until);
    options.dumpDir = dumpDir;
    return options;
  }
};

using ImportOptions = TextOptions<IrPhase::Imported, IrPhase::Differentiated>;
struct PlanOptions : TextOptions<IrPhase::Planned, IrPhase::Lowered> {
  Option<std::string> plan{*this, "plan", llvm::cl::desc("Path of plan.json"),
                           llvm::cl::init("")};
};

} // namespace

void registerPipelines() {
  PassPipelineRegistration<ImportOptions>(
      "sw-import-pipeline", "Takes imported IR to `differentiated`",
      [](OpPassManager &manager, const ImportOptions &options) {
        buildImportPipeline(manager, options.value());
      });
  PassPipelineRegistration<PlanOptions>(
      "sw-plan-pipeline", "Takes differentiated IR to the phase `until`",
      [](OpPassManager &manager, const PlanOptions &options) {
        PipelineOptions value = options.value();
        value.planPath = options.plan;
        buildPlanPipeline(manager, value);
      });
}

} // namespace shardwright

#include "cost_model/plan/PlanJson.h"
#include "cost_model/program/ProgramJson.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Plan/Encodings.h"
#include "passes/Plan/ExtractProgram.h"
#include "passes/Plan/Passes.h"
#include "passes/Plan/PlannedModule.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <set>

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_APPLYPLANPASS
#include "passes/Plan/Passes.h.inc"

namespace {

/// Deletes the functions of kinds and policies that no stage uses.
void keepUsedVariants(ModuleOp module, const PlannedModule &planned) {
  for (auto op : llvm::make_early_inc_range(module.getOps<model::KindOp>())) {
    PlannedKindFunction found;
    if (!lookUp(planned, op, found))
      op.erase();
  }
}

/// Mesh axes by factor letter, without the factors that no axis shards.
DictionaryAttr axesByFactor(MLIRContext *context, const cost::Plan &plan,
                            const cost::IterationSpace &space,
                            const cost::PlannedOp &planned) {
  SmallVector<NamedAttribute> entries;
  for (auto [factor, axes] : llvm::zip_equal(space.factors, planned.factorAxes))
    if (!axes.empty())
      entries.emplace_back(
          StringAttr::get(context, StringRef(&factor.letter, 1)),
          axisNames(context, plan, axes));
  return DictionaryAttr::get(context, entries);
}

/// Gives every value of `op` its planned type, and every op its axes.
LogicalResult rewriteFunction(model::KindOp op, const cost::Plan &plan,
                              const PlannedKindFunction &found) {
  MLIRContext *context = op.getContext();
  const cost::Function &function = *found.function;
  SmallVector<Value> values = programValues(op);
  SmallVector<Operation *> ops = computeOps(op);
  if (values.size() != function.values.size() ||
      ops.size() != function.ops.size())
    return op.emitOpError()
           << "expected " << function.values.size() << " values and "
           << function.ops.size() << " ops as in the program, but got "
           << values.size() << " and " << ops.size();
  for (auto [value, programValue, encoding] :
       llvm::zip_equal(values, function.values, found.planned->encodings))
    value.setType(plannedType(context, plan, programValue.dims,
                              programValue.precision, encoding));

  Builder builder(context);
  double tokens = static_cast<double>(plan.globalBatch) *
                  static_cast<double>(plan.sequence);
  for (auto [inner, programOp, planned] :
       llvm::zip_equal(ops, function.ops, found.planned->ops)) {
    inner->setAttr(plan::kAxesAttr,
                   axesByFactor(context, plan, programOp.space, planned));
    // The loss of a step is the mean over all its tokens.
    if (auto loss = dyn_cast<model::TokenLossOp>(inner))
      loss.setScaleAttr(builder.getF64FloatAttr(1.0 / tokens));
    if (auto grad = dyn_cast<model::SoftmaxGradOp>(inner))
      grad.setScaleAttr(builder.getF64FloatAttr(1.0 / tokens));
  }
  op.setFunctionType(FunctionType::get(context,
                                       op.getBody().front().getArgumentTypes(),
                                       op.getReturn().getOperandTypes()));
  return success();
}

/// Gives the parameters of used kinds their planned type; deletes the others.
LogicalResult rewriteParameters(ModuleOp module, const PlannedModule &planned) {
  std::set<int> used;
  for (const auto &[key, variant] : planned.variants)
    used.insert(key.first);
  for (auto op : llvm::make_early_inc_range(module.getOps<model::ParamOp>())) {
    int kind = cost::kindIndex(planned.program, op.getKind());
    if (!used.count(kind)) {
      op.erase();
      continue;
    }
    const auto &parameters = planned.program.kinds[kind].parameters;
    if (op.getIndex() < 0 ||
        op.getIndex() >= static_cast<int64_t>(parameters.size()))
      return op.emitOpError()
             << "expected index to be below " << parameters.size()
             << ", but got " << op.getIndex();
    const cost::Parameter &parameter = parameters[op.getIndex()];
    cost::Encoding encoding = cost::parameterEncoding(planned.plan, parameter);
    op.setType(plannedType(module.getContext(), planned.plan, parameter.dims,
                           cost::Precision::Param, encoding));
    SmallVector<NamedAttribute> axes;
    for (auto [letter, list] : llvm::zip_equal(op.getLetters(), encoding.dims))
      if (!list.empty())
        axes.emplace_back(
            StringAttr::get(module.getContext(), StringRef(&letter, 1)),
            axisNames(module.getContext(), planned.plan, list));
    op->setAttr(plan::kAxesAttr,
                DictionaryAttr::get(module.getContext(), axes));
  }
  return success();
}

/// Whether the Hugging Face names of `kind` hold a layer number.
bool isNumbered(const cost::Kind &kind) {
  return llvm::any_of(kind.parameters, [](const cost::Parameter &parameter) {
    return parameter.hfName.find("{}") != std::string::npos;
  });
}

/// The runs of the plan's stage `stage`, as chunk `chunk` of its rank, with the
/// first layer's number `layer`.
SmallVector<Attribute> runsOf(Builder &builder, const PlannedModule &planned,
                              const cost::Stage &stage, int64_t chunk,
                              int64_t layer) {
  SmallVector<Attribute> runs;
  for (const cost::StageRun &run : stage.runs) {
    if (run.count == 0)
      continue;
    const cost::Kind &kind =
        planned.program.kinds[cost::kindIndex(planned.program, run.kind)];
    SmallVector<Attribute> entries = {
        builder.getStringAttr(variantName(kind, run.recompute)),
        builder.getI64IntegerAttr(run.count),
        builder.getI64IntegerAttr(isNumbered(kind) ? layer : 0)};
    if (planned.plan.chunks > 1)
      entries.push_back(builder.getI64IntegerAttr(chunk));
    runs.push_back(builder.getArrayAttr(entries));
    if (isNumbered(kind))
      layer += run.count;
  }
  return runs;
}

/// Creates one spmd.stage per rank of the pipeline. The plan lists its stages in
/// the order of the model; each is a chunk of a rank. Layers are numbered through
/// all kinds that are numbered in the Hugging Face names.
void createStages(ModuleOp module, const PlannedModule &planned) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  const cost::Plan &plan = planned.plan;
  std::vector<int64_t> firstLayers;
  int64_t layer = 0;
  for (const cost::Stage &stage : plan.stages) {
    firstLayers.push_back(layer);
    for (const cost::StageRun &run : stage.runs)
      if (isNumbered(planned.program.kinds[cost::kindIndex(planned.program,
                                                           run.kind)]))
        layer += run.count;
  }
  for (int64_t rank = 0; rank < plan.pp; ++rank) {
    SmallVector<Attribute> runs;
    for (auto [chunk, stage] : llvm::enumerate(cost::stagesOfRank(plan, rank)))
      llvm::append_range(runs, runsOf(builder, planned, plan.stages[stage],
                                      static_cast<int64_t>(chunk),
                                      firstLayers[stage]));
    spmd::StageOp::create(builder, module.getLoc(),
                          "stage" + std::to_string(rank), rank,
                          builder.getArrayAttr(runs),
                          /*schedule=*/ArrayAttr(),
                          /*slots=*/DenseI64ArrayAttr(),
                          /*arena=*/DictionaryAttr());
  }
}

class ApplyPlanPass : public impl::ApplyPlanPassBase<ApplyPlanPass> {
public:
  using ApplyPlanPassBase::ApplyPlanPassBase;

private:
  /// Text of the plan: of the option's file, else of the module's attribute.
  FailureOr<std::string> planText(ModuleOp module) {
    if (plan.empty()) {
      if (auto text = module->getAttrOfType<StringAttr>(plan::kTextAttr))
        return text.str();
      return emitError(module.getLoc())
             << "expected the option 'plan' or the module attribute '"
             << plan::kTextAttr << "' to give a plan";
    }
    // A pipe might never be written to, and a device never end.
    if (llvm::sys::fs::exists(plan) && !llvm::sys::fs::is_regular_file(plan))
      return emitError(module.getLoc())
             << "cannot read plan '" << plan << "': it is no regular file";
    auto buffer = llvm::MemoryBuffer::getFile(plan, /*IsText=*/true);
    if (!buffer)
      return emitError(module.getLoc()) << "cannot read plan '" << plan
                                        << "': " << buffer.getError().message();
    return (*buffer)->getBuffer().str();
  }

  LogicalResult run(ModuleOp module) override {
    FailureOr<std::string> text = planText(module);
    if (failed(text))
      return failure();
    PlannedModule planned;
    cost::Failure refusal;
    if (!cost::readPlan(*text, plan.empty() ? "plan.text" : plan.getValue(),
                        planned.plan, refusal))
      return report(module, refusal);
    if (!extractProgram(module, planned.program))
      return failure();
    if (failed(checkRules(module, planned)) ||
        failed(expandPlan(module, planned)))
      return failure();

    keepUsedVariants(module, planned);
    for (auto op : module.getOps<model::KindOp>()) {
      PlannedKindFunction found;
      if (lookUp(planned, op, found) &&
          failed(rewriteFunction(op, planned.plan, found)))
        return failure();
    }
    if (failed(rewriteParameters(module, planned)))
      return failure();
    createStages(module, planned);

    Builder builder(module.getContext());
    module->setAttr(plan::kMeshAttr,
                    meshAttr(module.getContext(), planned.plan));
    module->setAttr(plan::kTextAttr,
                    builder.getStringAttr(cost::canonicalText(planned.plan)));
    module->setAttr(kProgramTextAttr,
                    builder.getStringAttr(cost::programJson(planned.program)));
    setPhase(module, IrPhase::Planned);
    return success();
  }
};

} // namespace
} // namespace shardwright

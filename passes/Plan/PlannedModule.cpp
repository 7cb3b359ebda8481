#include "passes/Plan/PlannedModule.h"

#include "cost_model/plan/PlanJson.h"
#include "cost_model/program/ProgramJson.h"
#include "cost_model/rules/Rules.h"
#include "passes/Plan/Encodings.h"

using namespace mlir;

namespace shardwright {

std::string variantName(const cost::Kind &kind, cost::Recompute policy) {
  return kind.name + "." + std::string(cost::name(kind.variant(policy).policy));
}

LogicalResult report(ModuleOp module, const cost::Failure &refusal) {
  for (StringRef line : cost::lines(refusal))
    if (line.consume_front("error: "))
      emitError(module.getLoc()) << line;
  return failure();
}

LogicalResult checkRules(ModuleOp module, const PlannedModule &planned) {
  LogicalResult result = success();
  for (const cost::Violation &violation :
       cost::checkPlan(planned.program, planned.plan))
    result = emitError(module.getLoc())
             << "plan breaks rule '" << violation.rule
             << "': " << violation.message;
  return result;
}

/// Whether the ranks of `encoding` divide `dims`. The rules see to it for
/// programs that are models; a text may say anything.
static bool isEven(const cost::Plan &plan, const std::vector<cost::Dim> &dims,
                   const cost::Encoding &encoding) {
  if (encoding.dims.size() != dims.size())
    return false;
  for (auto [dim, axes] : llvm::zip_equal(dims, encoding.dims))
    if (cost::plannedSize(plan, dim.role, dim.size) %
            cost::degree(plan, axes) !=
        0)
      return false;
  return true;
}

static bool isEven(const cost::Plan &plan, const cost::Function &function,
                   const cost::PlannedFunction &planned) {
  for (auto [value, encoding] :
       llvm::zip_equal(function.values, planned.encodings))
    if (!isEven(plan, value.dims, encoding))
      return false;
  for (auto [op, plannedOp] : llvm::zip_equal(function.ops, planned.ops))
    for (auto [operand, encoding] :
         llvm::zip_equal(op.operands, plannedOp.operands))
      if (!isEven(plan, function.values[operand].dims, encoding))
        return false;
  return true;
}

LogicalResult expandPlan(ModuleOp module, PlannedModule &planned) {
  planned.variants.clear();
  for (const cost::Stage &stage : planned.plan.stages)
    for (const cost::StageRun &run : stage.runs) {
      int index = cost::kindIndex(planned.program, run.kind);
      if (index < 0)
        return emitError(module.getLoc())
               << "expected a stage of the plan to run kinds of the program, "
                  "but got '"
               << run.kind << "'";
      const cost::Kind &kind = planned.program.kinds[index];
      const cost::KindVariant &variant = kind.variant(run.recompute);
      auto [it, isNew] = planned.variants.try_emplace({index, variant.policy});
      std::string why;
      if (isNew &&
          !cost::planVariant(planned.plan, kind, variant, it->second, why))
        return emitError(module.getLoc()) << "cannot shard kind '" << kind.name
                                          << "' as the plan says: " << why;
      bool even =
          isEven(planned.plan, variant.forward, it->second.forward) &&
          isEven(planned.plan, variant.dataGrad, it->second.dataGrad) &&
          isEven(planned.plan, variant.weightGrad, it->second.weightGrad);
      for (const cost::Parameter &parameter : kind.parameters)
        even = even && isEven(planned.plan, parameter.dims,
                              cost::parameterEncoding(planned.plan, parameter));
      if (!even)
        return emitError(module.getLoc())
               << "cannot shard kind '" << kind.name
               << "' as the plan says: expected every rank to get an equal "
                  "part of each of its values";
    }
  return success();
}

/// Whether arguments, ops and results of `op` are those of `function`. Sizes
/// differ as the plan shards them, and types, which are those of its dtypes.
static LogicalResult checkFunction(model::KindOp op,
                                   const cost::Function &function) {
  const auto refuse = [&](const char *what) {
    return op.emitOpError() << "expected the " << what
                            << " of the function of the program, but got "
                               "others";
  };
  if (op.getNumArguments() != function.arguments.size() ||
      programValues(op).size() != function.values.size())
    return refuse("arguments and values");
  for (auto [number, argument] : llvm::enumerate(function.arguments)) {
    model::ArgAttr attr = op.getModelArg(number);
    if (static_cast<cost::ArgKind>(attr.getKind()) != argument.kind ||
        attr.getIndex() != argument.index)
      return refuse("arguments");
  }
  SmallVector<Operation *> ops = computeOps(op);
  if (ops.size() != function.ops.size())
    return refuse("ops");
  for (auto [inner, wanted] : llvm::zip_equal(ops, function.ops))
    if (inner->getName().stripDialect() != wanted.name ||
        inner->getNumOperands() != wanted.operands.size() ||
        inner->getNumResults() != wanted.results.size())
      return refuse("ops");
  if (op.getNumResults() != function.results.size())
    return refuse("results");
  for (auto [number, result] : llvm::enumerate(function.results)) {
    model::ResAttr attr = op.getModelRes(number);
    if (static_cast<cost::ResultKind>(attr.getKind()) != result.kind ||
        attr.getIndex() != result.index)
      return refuse("results");
  }
  return success();
}

/// Plan and program are texts beside the IR: somebody may have changed the one
/// and not the other.
static LogicalResult checkAgainstModule(ModuleOp module,
                                        const PlannedModule &planned) {
  const plan::MeshAttr wanted = meshAttr(module.getContext(), planned.plan);
  const plan::MeshAttr mesh = plan::MeshAttr::of(module);
  if (mesh != wanted)
    return emitError(module.getLoc())
           << "expected '" << plan::kMeshAttr << "' to be that of '"
           << plan::kTextAttr << "' (" << wanted << "), but got " << mesh;
  for (auto op : module.getOps<model::KindOp>()) {
    PlannedKindFunction found;
    if (!lookUp(planned, op, found))
      return op.emitOpError() << "expected a kind that a stage runs";
    if (failed(checkFunction(op, *found.function)))
      return failure();
  }
  return success();
}

LogicalResult readPlanText(ModuleOp module, cost::Plan &plan) {
  auto text = module->getAttrOfType<StringAttr>(plan::kTextAttr);
  if (!text)
    return emitError(module.getLoc())
           << "expected attribute '" << plan::kTextAttr
           << "' on the module, which sw-apply-plan sets";
  cost::Failure refusal;
  if (!cost::readPlan(text.getValue(), plan::kTextAttr, plan, refusal))
    return report(module, refusal);
  return success();
}

LogicalResult readPlannedModule(ModuleOp module, PlannedModule &planned) {
  if (failed(readPlanText(module, planned.plan)))
    return failure();
  auto program = module->getAttrOfType<StringAttr>(kProgramTextAttr);
  if (!program)
    return emitError(module.getLoc())
           << "expected attribute '" << kProgramTextAttr
           << "' on the module, which sw-apply-plan sets";
  cost::Failure refusal;
  if (!cost::readProgram(program.getValue(), kProgramTextAttr.str(),
                         planned.program, refusal))
    return report(module, refusal);
  if (failed(checkRules(module, planned)) ||
      failed(expandPlan(module, planned)))
    return failure();
  return checkAgainstModule(module, planned);
}

bool lookUp(const PlannedModule &planned, model::KindOp op,
            PlannedKindFunction &found) {
  if (!op.getKind() || !op.getPolicy() || !op.getPart())
    return false;
  int index = cost::kindIndex(planned.program, *op.getKind());
  auto policy = static_cast<cost::Recompute>(*op.getPolicy());
  auto it = planned.variants.find({index, policy});
  if (it == planned.variants.end())
    return false;
  found.kind = &planned.program.kinds[index];
  const cost::KindVariant &variant = found.kind->variant(policy);
  switch (*op.getPart()) {
  case model::Part::Forward:
    found.function = &variant.forward;
    found.planned = &it->second.forward;
    break;
  case model::Part::DataGrad:
    found.function = &variant.dataGrad;
    found.planned = &it->second.dataGrad;
    break;
  case model::Part::WeightGrad:
    found.function = &variant.weightGrad;
    found.planned = &it->second.weightGrad;
    break;
  }
  return true;
}

SmallVector<Operation *> computeOps(model::KindOp op) {
  SmallVector<Operation *> ops;
  for (Operation &inner : op.getBody().front())
    if (isa<model::IterationSpaceOpInterface>(inner))
      ops.push_back(&inner);
  return ops;
}

SmallVector<Value> programValues(model::KindOp op) {
  SmallVector<Value> values(op.getBody().front().getArguments());
  for (Operation *inner : computeOps(op))
    values.append(inner->result_begin(), inner->result_end());
  return values;
}

} // namespace shardwright

#include "passes/Plan/PlannedModule.h"

#include "cost_model/plan/PlanJson.h"
#include "cost_model/program/ProgramJson.h"

using namespace mlir;

namespace shardwright {

std::string variantName(const cost::Kind &kind, cost::Recompute policy) {
  return kind.name + "." + std::string(cost::name(kind.variant(policy).policy));
}

LogicalResult report(ModuleOp module, const cost::Failure &refusal) {
  for (const cost::Message &message : refusal.messages)
    emitError(module.getLoc()) << message.tagged();
  return failure();
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
  return expandPlan(module, planned);
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

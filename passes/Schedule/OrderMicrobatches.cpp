#include "cost_model/schedule/Schedule.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Plan/PlannedModule.h"
#include "passes/Schedule/Passes.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_ORDERMICROBATCHESPASS
#include "passes/Schedule/Passes.h.inc"

static_assert(static_cast<int>(spmd::ActionKind::Step) ==
              static_cast<int>(cost::ActionKind::Step));

namespace {

class OrderMicrobatchesPass
    : public impl::OrderMicrobatchesPassBase<OrderMicrobatchesPass> {
public:
  using OrderMicrobatchesPassBase::OrderMicrobatchesPassBase;

  LogicalResult run(ModuleOp module) override {
    cost::Plan plan;
    if (failed(readPlanText(module, plan)))
      return failure();
    cost::Schedule schedule =
        cost::makeSchedule(plan.schedule, plan.pp, plan.microbatches());
    // Never trust the solver: the check shares no code with it.
    if (std::string wrong = cost::verify(schedule); !wrong.empty())
      return emitError(module.getLoc())
             << "the schedule of the plan is wrong: " << wrong;
    for (auto stage : module.getOps<spmd::StageOp>()) {
      if (stage.getIndex() >= schedule.stages)
        return stage.emitOpError()
               << "expected index to be below the plan's stages ("
               << schedule.stages << "), but got " << stage.getIndex();
      SmallVector<Attribute> actions;
      for (const cost::Action &action : schedule.actions[stage.getIndex()])
        actions.push_back(spmd::ActionAttr::get(
            &getContext(), static_cast<spmd::ActionKind>(action.kind),
            action.microbatch, action.slot, action.chunk));
      stage.setScheduleAttr(ArrayAttr::get(&getContext(), actions));
      stage.setSlots(schedule.slots[stage.getIndex()]);
    }
    setPhase(module, IrPhase::Scheduled);
    return success();
  }
};

} // namespace
} // namespace shardwright

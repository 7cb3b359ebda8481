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

/// The stage at the other end of a transfer; -1 of other actions.
int64_t peerOf(const cost::Plan &plan, int64_t stage,
               const cost::Action &action) {
  const cost::ChunkPlace place{stage, action.chunk};
  switch (action.kind) {
  case cost::ActionKind::SendForward:
  case cost::ActionKind::RecvBackward:
    return cost::placeBehind(plan.schedule, plan.pp, plan.chunks, place).rank;
  case cost::ActionKind::RecvForward:
  case cost::ActionKind::SendBackward:
    return cost::placeBefore(plan.schedule, plan.pp, plan.chunks, place).rank;
  case cost::ActionKind::Forward:
  case cost::ActionKind::BackwardData:
  case cost::ActionKind::BackwardWeight:
  case cost::ActionKind::Reduce:
  case cost::ActionKind::Step:
    break;
  }
  return -1;
}

class OrderMicrobatchesPass
    : public impl::OrderMicrobatchesPassBase<OrderMicrobatchesPass> {
public:
  using OrderMicrobatchesPassBase::OrderMicrobatchesPassBase;

  LogicalResult run(ModuleOp module) override {
    cost::Plan plan;
    if (failed(readPlanText(module, plan)))
      return failure();
    if (std::string wrong =
            cost::scheduleProblem(plan.schedule, plan.pp, plan.chunks,
                                  plan.microbatches(), plan.group);
        !wrong.empty())
      return emitError(module.getLoc()) << wrong;
    cost::Schedule schedule = cost::makeSchedule(
        plan.schedule, plan.pp, plan.microbatches(), plan.chunks, plan.group);
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
            action.microbatch, action.slot, action.chunk, action.takes,
            action.leaves, peerOf(plan, stage.getIndex(), action)));
      stage.setScheduleAttr(ArrayAttr::get(&getContext(), actions));
      stage.setSlots(ArrayRef(schedule.slots)
                         .slice(stage.getIndex() * plan.chunks, plan.chunks));
    }
    setPhase(module, IrPhase::Scheduled);
    return success();
  }
};

} // namespace
} // namespace shardwright

//===- ContextRules.cpp - Parts of a sequence -----------------------------===//
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>
#include <numeric>

namespace shardwright::cost {

void checkContextSequence(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (plan.cp == 1)
    return;
  // torchtitan 0.2.2, distributed/parallel_dims.py: seq_len_divisor.
  const bool joint = check.framework == Framework::TorchTitan;
  const int64_t split = plan.sp || joint ? plan.tp : 1;
  const int64_t chunks = checkedMul(2, plan.cp);
  const int64_t multiple =
      joint ? checkedMul(chunks, split)
            : std::lcm(chunks, checkedMul(plan.cp, split));
  const int64_t sequence = check.program.sequence;
  if (sequence % multiple == 0)
    return;
  check.fail("expected the sequence length (" + std::to_string(sequence) +
                 ") to be a multiple of " + std::to_string(multiple) +
                 " with cp = " + std::to_string(plan.cp) +
                 (split > 1 ? " and tp = " + std::to_string(split) : "") +
                 ", but got a rest of " + std::to_string(sequence % multiple),
             {"sequence = " + std::to_string(roundUp(sequence, multiple))});
}

namespace {

/// Where ranks are a multiple of the key/value heads, Ulysses of ALST repeats
/// those until each rank has one. Source: DeepSpeed 0.19.6, runtime/
/// sequence_parallel/ulysses_sp.py, kv_replication_factor. Transformer Engine
/// (attention's context_parallel.py) asks for a multiple, as the rule does.
bool repeatsHeads(const RuleCheck &check) {
  const Plan &plan = check.plan;
  return check.framework == Framework::DeepSpeed && plan.tp == 1 &&
         check.program.kvHeads > 0 && check.program.heads % plan.cp == 0 &&
         plan.cp % check.program.kvHeads == 0;
}

} // namespace

void checkContextHeads(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (plan.cp == 1 || plan.cpKind != CpKind::AllToAll ||
      check.program.kvHeads % checkedMul(plan.tp, plan.cp) == 0)
    return;
  std::vector<std::string> legal;
  if (check.program.kvHeads % plan.tp == 0)
    for (int64_t cp : divisors(check.program.kvHeads / plan.tp))
      legal.push_back("cp = " + std::to_string(cp));
  check.fail("expected the number of key/value heads (" +
                 std::to_string(check.program.kvHeads) +
                 ") to be a multiple of tp * cp under cp_kind a2a, but got tp "
                 "= " + std::to_string(plan.tp) +
                 ", cp = " + std::to_string(plan.cp) +
                 (repeatsHeads(check)
                      ? "; deepspeed repeats heads there, at a price that is "
                        "not known here"
                      : ""),
             std::move(legal));
}

void checkContextWindow(RuleCheck &check) {
  const Plan &plan = check.plan;
  if (plan.cp == 1 || plan.cpKind != CpKind::P2P)
    return;
  for (const Kind &kind : check.program.kinds)
    for (const Op &op : kind.variants.front().forward.ops)
      for (const auto &[what, width] :
           {std::pair("the sliding window", op.space.window),
            std::pair("the chunks", op.space.chunk)}) {
        if (op.space.kernel != KernelClass::Attention || width <= 0 ||
            width >= check.program.sequence)
          continue;
        check.fail("expected cp_kind all_gather or a2a with " +
                       std::string(what) + " of '" + kind.name + "' (" +
                       std::to_string(width) + " positions), but got p2p",
                   {"all_gather", "a2a"});
        return;
      }
}

} // namespace shardwright::cost

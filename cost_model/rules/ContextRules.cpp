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
  // Ulysses of DeepSpeed exchanges whole sequences: parts need no two ends
  // (0.19.6, runtime/sequence_parallel/ulysses_sp.py).
  const bool whole = check.framework == Framework::DeepSpeed;
  const int64_t chunks = whole ? plan.cp : checkedMul(2, plan.cp);
  const int64_t multiple =
      joint ? checkedMul(chunks, split)
            : std::lcm(chunks, checkedMul(plan.cp, split));
  const int64_t sequence = check.program.sequence;
  if (sequence % multiple == 0)
    return;
  std::vector<std::string> legal;
  for (int64_t near : {sequence / multiple * multiple,
                       roundUp(sequence, multiple)})
    if (near > 0)
      legal.push_back("sequence = " + std::to_string(near));
  check.fail("expected the sequence length (" + std::to_string(sequence) +
                 ") to be a multiple of " + std::to_string(multiple) +
                 " with cp = " + std::to_string(plan.cp) +
                 (split > 1 ? " and tp = " + std::to_string(split) : "") +
                 ", but got a rest of " + std::to_string(sequence % multiple),
             std::move(legal), "nearest legal");
}

namespace {

/// Whether as many ranks as tp * cp could share the key/value heads only by
/// holding each on several.
bool wantsRepeats(const RuleCheck &check) {
  const int64_t kvHeads = check.program.kvHeads;
  const int64_t ranks = checkedMul(check.plan.tp, check.plan.cp);
  return kvHeads > 0 && ranks > kvHeads && ranks % kvHeads == 0 &&
         check.program.heads % ranks == 0;
}

/// Ulysses of ALST repeats heads until each rank has one; its heads are those of
/// the whole model, so that tp is 1. Source: DeepSpeed 0.19.6, runtime/
/// sequence_parallel/ulysses_sp.py, kv_replication_factor. Transformer Engine
/// (AttnFuncWithCPAndQKVOA2A of attention's context_parallel.py) exchanges the
/// heads that a rank has, and torchtitan exchanges none.
bool repeatsHeads(const RuleCheck &check) {
  return wantsRepeats(check) &&
         (check.framework == Framework::Native ||
          (check.framework == Framework::DeepSpeed && check.plan.tp == 1));
}

/// Fails because of the key/value heads, naming values of cp near by.
void failHeads(RuleCheck &check, const std::string &wanted,
               const std::string &why) {
  const Plan &plan = check.plan;
  std::vector<int64_t> legal;
  if (check.program.kvHeads % plan.tp == 0)
    legal = divisors(check.program.kvHeads / plan.tp);
  check.failNear("expected the number of key/value heads (" +
                     std::to_string(check.program.kvHeads) + ") to be " +
                     wanted + " tp * cp under cp_kind a2a, but got tp = " +
                     std::to_string(plan.tp) +
                     ", cp = " + std::to_string(plan.cp) + why,
                 "cp", plan.cp, legal);
}

bool splitsHeads(const RuleCheck &check) {
  const Plan &plan = check.plan;
  return plan.cp == 1 || plan.cpKind != CpKind::AllToAll ||
         check.program.kvHeads % checkedMul(plan.tp, plan.cp) == 0;
}

} // namespace

void checkContextHeads(RuleCheck &check) {
  if (!splitsHeads(check) && !repeatsHeads(check))
    failHeads(check, "a multiple of", "");
}

void checkContextRepeats(RuleCheck &check) {
  if (!splitsHeads(check) && repeatsHeads(check))
    failHeads(check, "at least",
              "; DeepSpeed repeats heads before that exchange, which is valid "
              "but neither priced nor compiled here");
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

void checkWholeSequences(RuleCheck &check) {
  if (check.plan.cp == 1)
    return;
  const auto isWhole = [](const Factor &factor) {
    return factor.role == Role::Seq && factor.kind == FactorKind::Full;
  };
  for (const Kind &kind : check.program.kinds) // all variants have these ops
    for (const Op &op : kind.variants.front().forward.ops) {
      const std::vector<Factor> &factors = op.space.factors;
      if (isAttentionCore(op) ||
          std::none_of(factors.begin(), factors.end(), isWhole))
        continue;
      check.fail("expected cp = 1 with '" + op.name + "' of '" + kind.name +
                     "', which reads whole sequences, but got cp = " +
                     std::to_string(check.plan.cp),
                 {"cp = 1"});
      return;
    }
}

} // namespace shardwright::cost

#include "cost_model/program/SavedSet.h"

#include <cassert>

namespace shardwright::cost {

bool maySave(Recompute policy, std::string_view label) {
  if (label.empty())
    return false;
  switch (policy) {
  case Recompute::None: return true;
  case Recompute::Selective: return label != "core_attention";
  case Recompute::Full: return false;
  }
  return false;
}

SavedSet savedSet(const Function &forward, const std::vector<ValueId> &needed,
                  Recompute policy) {
  constexpr int argument = -1;
  std::vector<int> producer(forward.values.size(), argument);
  for (size_t op = 0; op < forward.ops.size(); ++op)
    for (ValueId result : forward.ops[op].results)
      producer[result] = static_cast<int>(op);

  std::vector<bool> wanted(forward.values.size(), false);
  for (ValueId value : needed) {
    assert(value >= 0 && static_cast<size_t>(value) < wanted.size() &&
           "a needed value belongs to the forward function");
    wanted[value] = true;
  }

  // Ops are in topological order, so one walk backwards settles every value
  // before its producer is looked at.
  const int opCount = static_cast<int>(forward.ops.size());
  std::vector<bool> redone(forward.ops.size(), false);
  for (int op = opCount; op-- > 0;) {
    const Op &candidate = forward.ops[op];
    if (maySave(policy, candidate.label))
      continue;
    for (ValueId result : candidate.results)
      redone[op] = redone[op] || wanted[result];
    if (redone[op])
      for (ValueId operand : candidate.operands)
        wanted[operand] = true;
  }

  SavedSet set;
  for (int op = 0; op < opCount; ++op) {
    if (redone[op]) {
      set.recomputed.push_back(op);
      continue;
    }
    for (ValueId result : forward.ops[op].results)
      if (wanted[result])
        set.saved.push_back(result);
  }
  return set;
}

} // namespace shardwright::cost

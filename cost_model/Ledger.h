//===- Ledger.h - Exact counts of what a rank does in one step --*- C++ -*-===//
//
// Three ledgers must agree as integers: predicted (here, from Program and
// Plan), counted (sw-count-ledger, from the partitioned IR) and measured (the
// runtime's trace). D9.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_LEDGER_H
#define SHARDWRIGHT_COST_MODEL_LEDGER_H

#include "cost_model/Assignment.h"
#include "cost_model/Schedule.h"

#include <map>
#include <string>
#include <tuple>

namespace shardwright::cost {

enum class Phase { Forward, DataGrad, WeightGrad, Reduce, Update };
std::string_view name(Phase phase); ///< forward, data_grad, weight_grad, reduce, update

/// `axis` is the mesh axis of the group ("tp", "dp", "pp"), joined by '+' for
/// several ("dp+tp"), or "world".
struct LedgerKey {
  Collective collective;
  std::string axis;
  Phase phase;
  auto operator<=>(const LedgerKey &) const = default;
};
struct LedgerEntry {
  int64_t calls = 0;
  Bytes payload; ///< bytes of this rank's input, summed over calls
  bool operator==(const LedgerEntry &) const = default;
};

/// Parts of the static arena, bytes of one rank (D10).
struct MemoryParts {
  Bytes parameters, gradients, optimizer;
  Bytes saved;     ///< activation slots
  Bytes p2p;       ///< stage borders
  Bytes comm;      ///< staging of collectives
  Bytes workspace; ///< temporaries of the largest function
  bool operator==(const MemoryParts &) const = default;
  Bytes total() const;
};

struct Ledger {
  std::map<LedgerKey, LedgerEntry> collectives;
  std::map<Phase, Flops> flops;
  MemoryParts memory;
  bool operator==(const Ledger &) const = default;
};

/// What one rank of `stage` does in one optimizer step.
Ledger predictLedger(const Program &program, const Plan &plan, int64_t stage);

/// JSON-free text, one line an entry, sorted; what tests diff.
std::string text(const Ledger &ledger);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_LEDGER_H

//===- CountLedger.h - Ledger of a partitioned module -----------*- C++ -*-===//
//
// The second of the three ledgers: counted from the IR alone. The types and
// ops of a module say what a rank does; the plan is read only for what no type
// holds (number of microbatches before there is a schedule, ZeRO stage, dtypes
// of gradients and optimizer state). Shares no code with the functions that
// predict: that is the point of it.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_PASSES_VERIFY_COUNTLEDGER_H
#define SHARDWRIGHT_PASSES_VERIFY_COUNTLEDGER_H

#include "cost_model/partition/Ledger.h"

#include "mlir/IR/BuiltinOps.h"

namespace shardwright {

/// Counts what one rank of stage `stage` does in one optimizer step. `module`
/// is in phase `partitioned`, `scheduled` or `allocated`; workspace is known
/// in the last alone and else 0. Emits an error and returns false if the
/// module has no such stage or an op says too little.
bool countLedger(mlir::ModuleOp module, int64_t stage, cost::Ledger &ledger);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_VERIFY_COUNTLEDGER_H

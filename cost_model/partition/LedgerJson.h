//===- LedgerJson.h - Ledgers as scripts read them --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_LEDGERJSON_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_LEDGERJSON_H

#include "cost_model/partition/Ledger.h"

#include <string>

namespace shardwright::cost {

/// A ledger as a JSON object:
///   {"collectives": [{"axis", "calls", "collective", "payload_bytes",
///                     "phase"}, ...] sorted as the ledger,
///    "flops": {"forward", "data_grad", "weight_grad"},
///    "memory": {"comm_bytes", ..., "total_bytes"}}
std::string ledgerJson(const Ledger &ledger);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_LEDGERJSON_H

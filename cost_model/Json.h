//===- Json.h - Files of the cost model -------------------------*- C++ -*-===//
//
// plan.json ("shardwright.plan/1") and program.json ("shardwright.program/1").
// Key sets are closed: unknown, missing and duplicate keys are errors, and all
// errors of a file are reported together, each as
// `file#/json/pointer: expected ..., but got ...`.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_JSON_H
#define SHARDWRIGHT_COST_MODEL_JSON_H

#include "cost_model/Failure.h"
#include "cost_model/Ledger.h"
#include "cost_model/Plan.h"
#include "cost_model/Program.h"
#include "cost_model/Sha256.h"

#include <string>
#include <string_view>

namespace shardwright::cost {

/// Reads a plan. Numbers are integers in range; that the plan is legal for a
/// program is for Rules.h to say. `file` is what messages call the text.
/// On false `plan` is as it was and `failure` has kind Input.
bool readPlan(std::string_view text, std::string_view file, Plan &plan,
              Failure &failure);
// canonicalText(const Plan &) is declared in Plan.h.

/// Reads what programJson wrote. Also checks that indices stay in their lists,
/// so that no other code has to.
bool readProgram(std::string_view text, std::string_view file, Program &program,
                 Failure &failure);

/// Canonical text of a program: sorted keys, same value, same bytes. Its sha256
/// identifies the model in a plan.
std::string programJson(const Program &program);

/// A ledger as a JSON object:
///   {"collectives": [{"axis", "calls", "collective", "payload_bytes",
///                     "phase"}, ...] sorted as the ledger,
///    "flops": {"forward", "data_grad", "weight_grad"},
///    "memory": {"comm_bytes", ..., "total_bytes"}}
std::string ledgerJson(const Ledger &ledger);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_JSON_H

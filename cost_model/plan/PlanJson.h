//===- PlanJson.h - plan.json ("shardwright.plan/1") ------------*- C++ -*-===//
//
// Key sets are closed: unknown, missing and duplicate keys are errors, and all
// errors of a file are reported together, each as
// `file#/json/pointer: expected ..., but got ...`.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PLAN_PLANJSON_H
#define SHARDWRIGHT_COST_MODEL_PLAN_PLANJSON_H

#include "cost_model/base/Failure.h"
#include "cost_model/plan/Plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Reads a plan. Numbers are integers in range; that the plan is legal for a
/// program is for Rules.h to say. `file` is what messages call the text.
/// On false `plan` is as it was and `failure` has kind Input; `readings`, if
/// asked for and the text is JSON, gets two plans that agree in what could be
/// read and differ in what could not, so that what rules say of both alike
/// (violationsOfAll) may be said beside the problems of the file.
bool readPlan(std::string_view text, std::string_view file, Plan &plan,
              Failure &failure, std::vector<Plan> *readings = nullptr);
// canonicalText(const Plan &) is declared in Plan.h.

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PLAN_PLANJSON_H

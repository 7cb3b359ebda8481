//===- Compiled.h - What of a plan is compiled yet --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_RULES_COMPILED_H
#define SHARDWRIGHT_COST_MODEL_RULES_COMPILED_H

#include "cost_model/plan/Plan.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// Something that is priced, and that `compile` refuses.
struct NotCompiled {
  std::string where; ///< JSON pointer into a plan file
  std::string what;  ///< "context parallelism"
};

/// All of it in `plan`; what of the model is not compiled only its IR knows, but
/// for experts (rule compiled_by_native). `compile` and that rule ask here.
std::vector<NotCompiled> notCompiled(const Plan &plan);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_RULES_COMPILED_H

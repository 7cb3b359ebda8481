//===- ParameterAddresses.h - Where parameters lie --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_SCHEDULE_PARAMETERADDRESSES_H
#define SHARDWRIGHT_PASSES_SCHEDULE_PARAMETERADDRESSES_H

#include "passes/Plan/PlannedModule.h"
#include "passes/Schedule/Workspace.h"

#include <map>
#include <string>

namespace shardwright {

/// Address of every parameter that the stages of a plan use: of one kind, from
/// the start of its layer block or, if shared, of the stage's shared block.
class ParameterAddresses {
public:
  explicit ParameterAddresses(const PlannedModule &planned);

  /// One function serves all stages, so a shared parameter must lie alike on
  /// every stage that owns it.
  bool isConsistent() const { return consistent; }

  /// Address of parameter `index` of `kind`, or of its gradient.
  Address of(const cost::Kind &kind, int64_t index, bool gradient) const;

private:
  const PlannedModule &planned;
  std::map<int, std::map<int, int64_t>> unshared; ///< elements, by kind
  std::map<std::string, int64_t> shared;          ///< elements
  bool consistent = true;
};

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_SCHEDULE_PARAMETERADDRESSES_H

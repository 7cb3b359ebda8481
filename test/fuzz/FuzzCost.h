//===- FuzzCost.h - Values that targets of the cost model share -*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_FUZZ_FUZZCOST_H
#define SHARDWRIGHT_TEST_FUZZ_FUZZCOST_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/hardware/Hardware.h"
#include "cost_model/hardware/Profile.h"
#include "cost_model/program/Program.h"
#include "cost_model/rules/Rules.h"
#include "test/fuzz/FuzzTarget.h"
#include "test/unit/cost_model/SmallPrograms.h"

#include <cmath>

namespace shardwright::fuzz {

inline cost::Program smallProgram() { return test::smallLlama(); }

inline cost::Hardware shippedCluster(std::string_view name) {
  cost::Hardware hardware;
  cost::Failure failure;
  require(
      cost::readHardware(cost::shippedHardware(name), name, hardware, failure),
      "a shipped cluster is right");
  return hardware;
}

inline cost::Profile shippedHabits(std::string_view name) {
  cost::Profile profile;
  cost::Failure failure;
  require(cost::readProfile(cost::shippedProfile(name), name, profile, failure),
          "a shipped profile is right");
  return profile;
}

/// Whether no rule is violated; those that are say so.
inline bool isLegal(const cost::Program &program, const cost::Plan &plan) {
  const std::vector<cost::Violation> violations =
      cost::checkPlan(program, plan, cost::ModelCheck::NameOnly);
  for (const cost::Violation &violation : violations)
    require(!violation.rule.empty() && !violation.message.empty(),
            "a violation has a rule and a message");
  return violations.empty();
}

inline void requireSane(const cost::Estimate &estimate) {
  for (const cost::Term &term : estimate.terms)
    require(!std::isnan(term.time.count()) && term.time.count() >= 0,
            "a term of time is a number >= 0");
  for (const cost::StageEstimate &stage : estimate.stages)
    require(stage.memory.total().count() >= 0, "memory is not negative");
}

} // namespace shardwright::fuzz

#endif // SHARDWRIGHT_TEST_FUZZ_FUZZCOST_H

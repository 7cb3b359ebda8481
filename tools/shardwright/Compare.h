//===- Compare.h - What two plans differ in ---------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMPARE_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMPARE_H

#include "cost_model/search/Search.h"

#include <string>
#include <vector>

namespace shardwright::tools {

/// A field that a person would name, and its value in words.
struct PlanField {
  std::string name, value;
};
/// Fields of a plan, always the same ones in the same order.
std::vector<PlanField> fieldsOf(const cost::Plan &plan);

/// Table of the fields in which `a` and `b` differ; empty text if in none.
std::string fieldsTable(const cost::Plan &a, const cost::Plan &b,
                        const std::string &nameOfA, const std::string &nameOfB);

/// Table of time terms of `a` and `b` (zero in both left out), the step, MFU
/// and memory, with what `b` takes more.
std::string termsTable(const cost::Estimate &a, const cost::Estimate &b,
                       const std::string &nameOfA, const std::string &nameOfB);

/// "+1.234 s", "-3.1 ms".
std::string signedSeconds(cost::Seconds difference);
/// "+4.1 %" of `of`.
std::string signedPercent(double fraction);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_COMPARE_H

//===- Explain.h - Where every figure of an estimate comes from -*- C++ -*-===//
//
// Each line is a figure with the formula that gives it and the inputs of that
// formula, so that a calculator (or eval) can check it.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_EXPLAIN_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_EXPLAIN_H

#include "cost_model/estimate/Estimate.h"

#include <string>
#include <vector>

namespace shardwright::cost {

struct ExplainedInput {
  std::string name; ///< as the formula has it
  double value = 0;
  std::string unit; ///< "s", "B", "B/s", "flop", "" for counts
};
struct ExplainedLine {
  std::string name;
  double value = 0;
  std::string unit;
  /// An expression over the names of the inputs with + - * / ( ) min max.
  std::string formula;
  std::vector<ExplainedInput> inputs;
};
/// Lines of one kind: "step", "terms", ...
struct ExplainedPart {
  std::string name, about;
  std::vector<ExplainedLine> lines;
};

/// One collective of the rank whose stage ends a step last, or a transfer.
struct ExplainedCollective {
  std::string collective, axis, phase;
  int64_t calls = 0;
  double payloadBytes = 0; ///< of a call, on average
  int64_t ranks = 1, nodes = 1, perNode = 1, sharing = 1;
  std::string algorithm, protocol; ///< of the average call
  double secondsPerCall = 0, seconds = 0;
  double nicBytesPerCall = 0; ///< that leave a node through one NIC
};

struct Explanation {
  std::vector<ExplainedPart> parts;
  /// Of all calls, as if nothing ran beside them; what shows of them is in the
  /// terms, and part "overlap" holds both side by side.
  std::vector<ExplainedCollective> collectives;
};

/// Explains estimate(program, hardware, profile, plan).
Explanation explain(const Program &program, const Hardware &hardware,
                    const Profile &profile, const Plan &plan);

/// For people: a line each, formulas with their inputs below.
std::string explanationText(const Explanation &explanation);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_EXPLAIN_H

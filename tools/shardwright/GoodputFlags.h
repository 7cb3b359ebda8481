//===- GoodputFlags.h - Months of running, as flags -------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_GOODPUTFLAGS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_GOODPUTFLAGS_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/estimate/Goodput.h"
#include "tools/shardwright/PlanJson.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace shardwright::tools {

/// The check of a flag that takes a finite number of at least 0: empty, or what is
/// wrong with `text`.
std::string checkAmount(const std::string &text);

/// What predict may say of a run of many steps. Negative numbers: not given.
struct GoodputFlags {
  bool wanted = false, asynchronous = false;
  std::string failures; ///< a number, or the name of a preset
  double tokens = -1, restart = -1, storage = -1, interval = -1, price = -1;

  void add(CLI::App &command);
  bool any() const;
};

/// What the run comes to, and where each input came from.
struct GoodputAnswer {
  cost::GoodputQuestion question;
  cost::Goodput result;
  std::vector<std::string> assumptions; ///< what was neither given nor in the
                                        ///< cluster file
  std::string failureSource;
};
bool answerGoodput(const GoodputFlags &flags, const cost::Program &program,
                   const cost::Hardware &hardware, const cost::Plan &plan,
                   const cost::Estimate &estimate, GoodputAnswer &answer,
                   cost::Failure &failure);
std::string goodputText(const GoodputAnswer &answer);
Json goodputJson(const GoodputAnswer &answer);

/// "17:0.9": rank 17 at 0.9 of the speed of its kind.
bool parseSlowRanks(const std::vector<std::string> &texts, int64_t ranks,
                    std::vector<cost::SlowRank> &slow, cost::Failure &failure);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_GOODPUTFLAGS_H

//===- PlanFlags.h - A plan spelled on the command line ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_PLANFLAGS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_PLANFLAGS_H

#include "cost_model/base/Failure.h"
#include "cost_model/plan/Plan.h"
#include "cost_model/rules/Framework.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"

#include <optional>
#include <string>
#include <vector>

namespace shardwright::tools {

/// The degrees of a plan as flags; 0 and "" mean not given.
struct PlanFlags {
  int64_t tp = 0, pp = 0, dp = 0, ep = 0, etp = 0;
  int64_t cp = 0, zeroRanks = 0;
  int64_t microBatch = 0, zero = -1, chunks = 0, group = 0;
  bool sp = false, offload = false, activations = false;
  std::string cpKind, recompute, schedule, layers;

  void add(CLI::App &command);
  bool any() const;
};

/// Sequences of a step if the user does not say: 16,384 tokens a rank, at least
/// one sequence. A pure function of the question, said on stderr.
int64_t defaultGlobalBatch(int64_t gpus, int64_t sequence);

/// Builds the plan that the flags spell: `base` gives names, dtypes and
/// sequence; `gpus` (0: not given) and `globalBatch` (0: default) the size of
/// the question. A degree that is not given follows: dp = gpus / (tp * pp); etp is
/// tp where `framework` cannot leave experts whole, and sp is on where tp > 1 is
/// not legal without.
bool planFromFlags(const PlanFlags &flags, const cost::Program &program,
                   const cost::Plan &base, int64_t gpus, int64_t clusterRanks,
                   int64_t globalBatch, cost::Plan &plan,
                   cost::Failure &failure,
                   std::optional<cost::Framework> framework = {});

/// Reads a plan file and refuses it if it names another model than the config
/// `model`; its digest is one of the rules (requireLegal).
bool loadPlan(const std::string &path, const std::string &model,
              cost::Plan &plan, cost::Failure &failure);
/// A plan made for another cluster is only worth a warning.
void warnOfCluster(const std::string &path, const cost::Plan &plan,
                   const Cluster &cluster, std::ostream &err);

/// Every rule that `plan` breaks, as one failure of `kind`; `what` names the
/// plan ("--tp 8 --pp 4", "plan.json").
bool requireLegal(const std::string &what, const cost::Program &program,
                  const cost::Plan &plan, cost::FailureKind kind,
                  cost::Failure &failure,
                  std::optional<cost::Framework> framework = {});

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_PLANFLAGS_H

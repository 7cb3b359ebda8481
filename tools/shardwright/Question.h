//===- Question.h - A model on a cluster, as flags --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_QUESTION_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_QUESTION_H

#include "cost_model/search/Search.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"

#include <optional>
#include <string>
#include <vector>

namespace shardwright::tools {

/// Flags that say on what machine and for what step a plan is wanted.
struct QuestionFlags {
  std::string cluster, profile = "native", dtype, memoryLimit, runsOn;
  std::string products, gradients;
  int64_t gpus = 0, globalBatch = 0, sequence = 0; ///< 0: default

  /// `clusterRequired`: a verb without a search may do without.
  void add(CLI::App &command, bool clusterRequired);
  /// Whose rules hold for a plan that is given: those of the framework that was
  /// asked for; else whatever can be priced.
  cost::Framework asked(cost::Framework framework) const {
    return runsOn.empty() ? cost::Framework::Native : framework;
  }
  /// The flags that do not say how large the machine and the step are.
  void addMachineless(CLI::App &command);
};

/// Flags that bound the search.
struct SearchFlags {
  std::vector<std::string> fix, max;
  int64_t top = 3;
  int threads = 0;         ///< 0: as many as the machine has cores
  double timeLimit = 0;    ///< seconds; 0: none
  bool everySplit = false; ///< list plans that differ only in split or recompute

  void add(CLI::App &command);
  /// Of verbs that list plans: how many, and whether near copies.
  void addListing(CLI::App &command);
};

/// The inputs of a question, read and checked.
struct Question {
  Model model;
  Cluster cluster;
  cost::Profile profile;
  cost::Framework framework = cost::Framework::Native; ///< that runs the plans
  cost::Plan base;        ///< names, digests, dtypes, sequence, global batch
  cost::Bytes memoryLimit; ///< usable bytes of a rank
  /// Types that a search may choose from; none: the base plan's.
  std::vector<cost::Narrow> products;
  std::vector<cost::DType> gradients;
};

/// Reads what `flags` name. The cluster keeps its size until `sizeQuestion`;
/// `sequence` (0: the flags') is that of a plan file.
bool readQuestion(const std::string &model, const QuestionFlags &flags,
                  int64_t sequence, Question &question, cost::Failure &failure);
/// Cuts the cluster to `gpus` (0: all of it).
bool sizeQuestion(Question &question, int64_t gpus, cost::Failure &failure);

/// Searches; refuses with No (and what would have to change) if nothing fits.
struct SearchAnswer {
  cost::SearchOptions options;
  cost::SearchResult result;
  /// If no plan fits: the smallest, and the least multiple of the GPUs (by
  /// doubling) on which a plan fits, with its best plan.
  std::optional<cost::RankedPlan> smallest;
  int64_t gpusThatFit = 0; ///< 0: none found
  std::optional<cost::RankedPlan> onMoreGpus;
};
bool answer(Question &question, const QuestionFlags &flags,
            const SearchFlags &search, Streams streams, SearchAnswer &answer,
            cost::Failure &failure);

/// Why there is no plan and what would have to change.
cost::Failure whyNothing(const Question &question, const SearchAnswer &answer);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_QUESTION_H

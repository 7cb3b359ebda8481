//===- Question.h - A model on a cluster, as flags --------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_QUESTION_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_QUESTION_H

#include "cost_model/search/Objective.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Constraints.h"
#include "tools/shardwright/GoodputFlags.h"
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
  /// Of a verb that takes ranges: the sizes to choose from; else empty.
  std::vector<int64_t> gpusChoices, batchChoices;

  /// `clusterRequired`: a verb without a search may do without. `ranges`: of
  /// --gpus and --global-batch, for a verb that chooses within them.
  void add(CLI::App &command, bool clusterRequired, bool ranges = false);
  /// Whose rules hold for a plan that is given: those of the framework that was
  /// asked for; else it only has to be priced.
  std::optional<cost::Framework> asked(cost::Framework framework) const {
    return runsOn.empty() ? std::nullopt : std::optional(framework);
  }
  /// The flags that do not say how large the machine and the step are.
  void addMachineless(CLI::App &command);
};

/// Flags that bound the search.
struct SearchFlags {
  ConstraintTexts constraints;
  int64_t top = 3;
  int threads = 0;         ///< 0: as many as the machine has cores
  double timeLimit = 0;    ///< seconds; 0: none
  bool everySplit = false; ///< list plans that differ only in split or recompute
  std::string objective = "time";
  std::vector<std::string> pareto; ///< empty, or two objectives
  GoodputFlags goodput;            ///< of the objectives that need them

  void add(CLI::App &command);
  /// What the best plan is best at.
  void addObjective(CLI::App &command);
  /// Of verbs that list plans: how many, and whether near copies.
  void addListing(CLI::App &command);
};

/// The inputs of a question, read and checked.
struct Question {
  Model model;
  Cluster cluster;
  cost::Profile profile;
  cost::Framework framework = cost::Framework::Native; ///< that runs the plans
  bool compiled = false; ///< plans that `compile` takes (--runs-on native)
  cost::Plan base;        ///< names, digests, dtypes, sequence, global batch
  cost::Bytes memoryLimit; ///< usable bytes of a rank
  /// Types that a search may choose from; none: the base plan's.
  std::vector<cost::Narrow> products;
  std::vector<cost::DType> gradients;

  /// By which a search checks plans: what native prices, or what another runs.
  std::optional<cost::Framework> rulesOfSearch() const {
    return framework == cost::Framework::Native && !compiled
               ? std::nullopt
               : std::optional(framework);
  }
};

/// Reads what `flags` name. The cluster keeps its size until `sizeQuestion`;
/// `sequence` (0: the flags') is that of a plan file.
bool readQuestion(const std::string &model, const QuestionFlags &flags,
                  int64_t sequence, Question &question, cost::Failure &failure);
/// Cuts the cluster to `gpus` (0: all of it).
bool sizeQuestion(Question &question, int64_t gpus, cost::Failure &failure);

/// The numbers of "8", "64..256" (every one), "64..256:64" (every 64th from the
/// first on); false, with what is wrong, for other texts, numbers outside
/// `least` to `most`, and more than `kMostSizes`.
inline constexpr int64_t kMostSizes = 4096;
bool parseSizes(const std::string &text, int64_t least, int64_t most,
                std::vector<int64_t> &sizes, std::string &problem);

/// What a search found. If no plan fits: the smallest, and more GPUs on which a
/// plan fits, with its best plan. Sizes are doubled until one does, then those
/// between it and the last that nodes make up: all of them in ascending order if
/// they are few, else by bisection and a few behind.
struct SearchAnswer {
  cost::Objective objective = cost::Objective::Time;
  /// Every size of job and batch that was asked for; `best` is the one that the
  /// best plan has, and the one that `question`, `options` and `result.rejected`
  /// are of.
  std::vector<cost::SizedQuestion> sizes;
  std::vector<cost::Hardware> clusters; ///< of the sizes
  std::vector<cost::ChosenPlan> plans;  ///< as result.plans
  size_t best = 0;
  cost::SearchOptions options;
  cost::SearchResult result; ///< plans and counters of all sizes together
  std::optional<cost::RankedPlan> smallest;
  bool stoppedSmallest = false; ///< before it was found
  int64_t gpusThatFit = 0; ///< 0: none found
  std::vector<int64_t> gpusTried; ///< in that order
  bool gpusAllTried = false;      ///< no fewer do than gpusThatFit
  std::optional<cost::RankedPlan> onMoreGpus;
  std::string constraints; ///< as ConstraintTexts::text
  ConstraintTexts asked;
  double openValue = 0;   ///< of the objective, if the search was stopped
  bool priced = false;    ///< money is that of the price; else GPU-hours
  std::string currency;   ///< of the price; may be empty
};
/// Searches; cuts `question` to the size of the best plan. False for questions
/// that cannot be asked; an answer without plans is an answer.
bool answer(Question &question, const QuestionFlags &flags,
            const SearchFlags &search, Streams streams, SearchAnswer &answer,
            cost::Failure &failure);

/// Why there is no plan and what would have to change.
cost::Failure whyNothing(const Question &question, const SearchAnswer &answer);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_QUESTION_H

//===- Search.h - The best plans of the family, exactly ---------*- C++ -*-===//
//
// Best-first branch and bound over every legal Candidate. It knows no cost:
// an Estimator answers for plans and for parts of plans. Nothing is sampled and
// nothing depends on a clock, so the same question has the same answer.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_SEARCH_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_SEARCH_H

#include "cost_model/estimate/Estimate.h"
#include "cost_model/rules/Rules.h"
#include "cost_model/search/Candidate.h"
#include "cost_model/search/StageBounds.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardwright::cost {

inline constexpr Seconds
    unlimitedTime(std::numeric_limits<double>::infinity());

/// A split, and what no point with it beats.
struct BoundedSplit {
  Split split;
  Seconds bound;
};

/// All that the search knows of a model on a machine.
class Estimator {
public:
  virtual ~Estimator() = default;
  /// The plan at a complete candidate. At a lesser depth the free fields take
  /// the values that `candidate` holds, layers split evenly.
  virtual Plan plan(const Candidate &candidate) const = 0;
  /// Rules that the plan breaks, of fields of `depth` (Mesh or Batch) or less.
  /// Without narrow `products` they do not depend on which divisor microBatch is;
  /// every completion of a part that is legal at Batch is legal.
  virtual std::vector<Violation> check(const Candidate &candidate,
                                       Depth depth) const = 0;
  /// The point of a complete part whose stages recompute as few layers as `rule`
  /// leaves them. Nothing if no plan of it stays below the limit.
  virtual std::optional<Candidate> settle(const Candidate &candidate,
                                          const FullRule &rule) const = 0;
  /// Memory of the fullest rank of a point.
  virtual Bytes memory(const Candidate &candidate) const = 0;
  /// Time and memory of a point.
  virtual Estimate estimate(const Candidate &candidate) const = 0;
  /// Its time alone; may be faster.
  virtual Seconds time(const Candidate &candidate) const {
    return estimate(candidate).stepTime;
  }
  /// No point of `candidate` beyond `depth` takes less time under `rule`. Above
  /// `enough` it may be a looser bound than it could.
  virtual Seconds lowerBound(const Candidate &candidate, Depth depth,
                             const FullRule &rule, Seconds enough) const = 0;
  /// The same of a candidate of Depth::Batch, cheaper and looser.
  virtual Seconds roughBound(const Candidate &candidate, Rough) const {
    return lowerBound(candidate, Depth::Mesh, {}, unlimitedTime);
  }
  /// False only if every completion of `candidate` beyond `depth` needs
  /// `limit` or more.
  virtual bool mayFit(const Candidate &candidate, Depth depth,
                      Bytes limit) const = 0;
  /// Those of `splits` whose bounds are not above `atMost`; `policy` is of
  /// Depth::Policy.
  virtual std::vector<BoundedSplit> within(const Candidate &policy,
                                           const std::vector<Split> &splits,
                                           const FullRule &rule,
                                           Seconds atMost) const;
  /// The same for another thread.
  virtual std::unique_ptr<Estimator> another() const = 0;
};

struct SearchOptions {
  int64_t gpus = 1;
  int64_t globalBatch = 1;  ///< sequences
  int64_t layers = 1;
  int64_t experts = 0; ///< of a layer; with them tp > 1 comes with sp
  int64_t expertFfn = 1; ///< what etp has to divide
  ExpertTensor expertTensor = ExpertTensor::Any; ///< how experts may be split
  std::vector<Recompute> policies = {Recompute::None};
  std::vector<int> zero = {0, 1}; ///< stages of ZeRO, ascending
  std::vector<int> zeroUnderPipeline = {0, 1};
  std::vector<ScheduleKind> schedules = {ScheduleKind::OneFOneB,
                                         ScheduleKind::GPipe};
  bool evenGroups = false; ///< of interleaved microbatches: evenGroup alone
  std::vector<CpKind> cpKinds;      ///< none: cp is 1
  bool contextUnderPipeline = true; ///< cp > 1 with pp > 1
  bool alike = false; ///< as FullRule's
  std::vector<int> copies;  ///< ZeRO stages whose shards may have copies (HSDP)
  std::vector<int> offload; ///< ZeRO stages whose optimizer the host may have
  std::vector<MeshOrder> orders = {MeshOrder::PpDp};
  /// Ranks of a node: what fills nodes inside of dp and pp has one order.
  int64_t nodeRanks = 1;
  std::vector<Narrow> products; ///< none: the base plan's
  std::vector<DType> gradients; ///< none: the base plan's
  Bytes memoryLimit;        ///< a plan fits if every stage staysBelow it
  int64_t top = 1;          ///< plans wanted
  /// List only the best of the plans that differ in nothing but recomputation
  /// and layers per stage: a runner-up then is another layout to a person too.
  bool distinct = false;
  Ranges ranges;            ///< of --fix, --max and --forbid
  /// Slower plans are not wanted: another question has better ones.
  Seconds cutoff = Seconds(std::numeric_limits<double>::infinity());
  int threads = 1;          ///< never changes the answer
  /// Asked between meshes and rounds; true ends the search with what is known by
  /// then. A search that has no plan by then goes down to one first, at once;
  /// one that is stopped as it begins has none.
  std::function<bool()> stop;
};

/// Orders plans: time, then memory, then canonical text.
struct RankedPlan {
  Candidate candidate;
  Plan plan;
  Estimate estimate;
  Bytes memory;
  std::string text; ///< canonical
  bool before(const RankedPlan &other) const;
};

/// Why no plan of a family (one mesh dp x tp x pp x cp) is among the best.
enum class Reject {
  Rule,   ///< breaks rules of the model or the batch
  Memory, ///< no plan of it fits
  Slower, ///< the best of it is slower
};
std::string_view name(Reject reject);

struct RejectedFamily {
  Reject reject;
  int64_t dp, tp, pp;
  int64_t plans = 0;                 ///< legal plans in it
  std::vector<Violation> violations; ///< of Rule
  /// Slower: no plan of it that fits is faster; `best` if one was priced.
  Seconds bound;
  std::optional<Candidate> best;
  std::optional<Seconds> bestTime;
  int64_t ep = 1, etp = 1, cp = 1;
};

struct SearchCounters {
  int64_t considered = 0; ///< legal plans that the answer speaks of
  int64_t pruned = 0;     ///< excluded by a bound on their time
  int64_t unfit = 0;      ///< excluded by their memory
  int64_t evaluated = 0;  ///< priced in full
  int64_t open = 0;       ///< not looked at when the search was stopped
  int64_t illegal = 0;    ///< beside those considered: break a rule
  int64_t uncounted = 0;  ///< meshes whose plans are not among those considered,
                          ///< as the search was stopped before it came to them
  bool proven = true;     ///< no plan of the family beats the answer
  bool operator==(const SearchCounters &) const = default;
};

struct SearchResult {
  std::vector<RankedPlan> plans; ///< best first, at most `top`
  std::vector<RejectedFamily> rejected; ///< by (tp, pp)
  SearchCounters counters;
  Seconds openBound; ///< unless proven: no plan that is open takes less
};

/// All that `framework` runs on `hardware`, but products and gradients, whose
/// types a question chooses. Orders differ only between nodes.
void allow(SearchOptions &options, Framework framework,
           const Hardware &hardware);

SearchResult search(const Estimator &estimator, const SearchOptions &options);

/// The legal plan whose fullest rank needs least, the first in the order of
/// enumeration among equals: how much is missing when nothing fits. Nothing if
/// no plan is legal, or if `stop` ends the search. `memoryLimit` and `top` do not
/// matter.
std::optional<RankedPlan> smallest(const Estimator &estimator,
                                   const SearchOptions &options);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_SEARCH_H

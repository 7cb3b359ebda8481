//===- ProgramEstimator.h - The cost model as the search sees it -*- C++ -*-===//
//
// Answers the search from Rules.h, Layout.h and Estimate.h. Layers are planned
// and priced once and remembered; nothing here is per rank.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_PROGRAMESTIMATOR_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_PROGRAMESTIMATOR_H

#include "cost_model/search/Search.h"

#include <memory>

namespace shardwright::cost {

/// Policies that every repeated layer of `program` has a variant for.
std::vector<Recompute> searchedPolicies(const Program &program);

/// What a search has to know of a model.
void setModel(SearchOptions &options, const Program &program);

/// One question: a program on a cluster under a profile. The arguments outlive
/// the estimator. Not for several threads at once: another() shares what it learns.
class ProgramEstimator : public Estimator {
public:
  /// `base` gives names, digests, dtypes, global batch and sequence of plans;
  /// no plan has another schedule than `schedules` (or 1F1B of one stage), or
  /// gradients of another type than `gradients` (or base's); with `offloads` an
  /// optimizer may live on the host.
  ProgramEstimator(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &base,
                   Framework framework = Framework::Native,
                   const std::vector<ScheduleKind> &schedules =
                       SearchOptions().schedules,
                   const std::vector<DType> &gradients = {},
                   bool offloads = false);
  /// The same of a search's space.
  ProgramEstimator(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &base,
                   Framework framework, const SearchOptions &options)
      : ProgramEstimator(program, hardware, profile, base, framework,
                         options.schedules, options.gradients,
                         !options.offload.empty()) {}
  ~ProgramEstimator() override;

  Plan plan(const Candidate &candidate) const override;
  std::vector<Violation> check(const Candidate &candidate,
                               Depth depth) const override;
  std::optional<Candidate> settle(const Candidate &candidate,
                                  const FullRule &rule) const override;
  Bytes memory(const Candidate &candidate) const override;
  Seconds time(const Candidate &candidate) const override;
  Estimate estimate(const Candidate &candidate) const override;
  Seconds lowerBound(const Candidate &candidate, Depth depth,
                     const FullRule &rule = {},
                     Seconds enough = unlimitedTime) const override;
  Seconds roughBound(const Candidate &candidate, Rough rough) const override;
  std::vector<BoundedSplit> within(const Candidate &policy,
                                   const std::vector<Split> &splits,
                                   const FullRule &rule,
                                   Seconds atMost) const override;
  std::unique_ptr<Estimator> another() const override;
  bool mayFit(const Candidate &candidate, Depth depth,
              Bytes limit) const override;

private:
  std::vector<StageEstimate> estimateOfStages(const Candidate &candidate) const;

  class State;
  explicit ProgramEstimator(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_PROGRAMESTIMATOR_H

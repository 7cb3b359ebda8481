//===- Evidence.cpp - How sure a prediction is ----------------------------===//
#include "cost_model/estimate/Evidence.h"
#include "cost_model/estimate/EvidenceTable.h"

#include <algorithm>

namespace shardwright::cost {

RunFamily familyOf(bool experts, bool narrow) {
  return experts  ? RunFamily::Experts
         : narrow ? RunFamily::Dense8
                  : RunFamily::Dense16;
}

std::string_view name(RunFamily family) {
  switch (family) {
  case RunFamily::Dense16:
    return "dense, 16 bits";
  case RunFamily::Dense8:
    return "dense, 8 bits or fewer";
  case RunFamily::Experts:
    return "experts";
  }
  return "";
}

int64_t evidenceCells() { return static_cast<int64_t>(std::size(kCells)); }

bool hasEvidence(std::string_view cluster, std::string_view profile,
                 RunFamily family) {
  return std::any_of(std::begin(kCells), std::end(kCells),
                     [&](const Cell &cell) {
                       return cell.cluster == cluster &&
                              cell.profile == profile && cell.family == family;
                     });
}

TimeInterval intervalOf(Seconds predicted, std::string_view cluster,
                        std::string_view profile, RunFamily family) {
  TimeInterval interval;
  interval.extrapolating = !hasEvidence(cluster, profile, family);
  const ErrorRange &range = kErrors[static_cast<size_t>(family)];
  const double width = interval.extrapolating ? kExtrapolatedWidth : 1;
  // measured = predicted / (1 + error)
  interval.high =
      Seconds(predicted.count() / std::max(0.1, 1 + width * range.p10));
  interval.low = Seconds(predicted.count() / (1 + width * range.p90));
  return interval;
}

double tiedWithin(std::string_view cluster, std::string_view profile,
                  RunFamily family) {
  return hasEvidence(cluster, profile, family) ? kPairs : kPairs * kPairs;
}

} // namespace shardwright::cost

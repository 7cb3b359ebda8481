//===- Candidate.h - Coordinates of the searched family ---------*- C++ -*-===//
//
// The family of plans that the search covers (D18), as plain numbers: a plan
// of it is a Candidate, a part of it a Candidate whose later fields are free.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_CANDIDATE_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_CANDIDATE_H

#include "cost_model/plan/Plan.h"
#include "cost_model/rules/Rules.h"

#include <algorithm>
#include <array>
#include <compare>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// A point of the family. Interior stages share the layers that the first and
/// the last leave as evenly as possible, the earlier ones taking one more.
struct Candidate {
  int64_t dp = 1, tp = 1, pp = 1;
  int64_t cp = 1, ep = 1, etp = 1;
  bool sp = false;
  CpKind cpKind = CpKind::P2P;
  MeshOrder order = MeshOrder::PpDp;
  std::optional<Narrow> products; ///< unless given the base plan's
  int64_t microBatch = 1;
  int zero = 0;
  int64_t zeroRanks = 0; ///< as Plan's
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t chunks = 1; ///< parts of the model that a pipeline rank runs in turn
  int64_t group = 0;  ///< as Plan's
  bool offload = false;           ///< the optimizer lives on the host
  std::optional<DType> gradients; ///< unless given the base plan's
  Recompute recompute = Recompute::None;
  /// Of a point under Recompute::Full: layers of each of Plan::stages that
  /// recompute, the first ones; empty for all of all. Of a part they are as few
  /// as FullRule leaves, none of any stage included.
  std::vector<int64_t> full = {};
  int64_t firstLayers = 0; ///< of the first of stageCount
  int64_t lastLayers = 0;  ///< of the last; of the only stage, the same
  auto operator<=>(const Candidate &) const = default;
};

/// How many fields of a Candidate are fixed; each depth adds to the one before.
enum class Depth {
  Mesh,     ///< dp, tp, pp, cp, ep, etp
  Batch,    ///< sp, cpKind, order, products, microBatch
  State,    ///< zero, zeroRanks, schedule, chunks, group, offload, gradients
  Policy,   ///< recompute
  Complete, ///< firstLayers, lastLayers
};

/// Fields that a question may fix or limit. Booleans count as 0 and 1, enums
/// by their number; a group is that of groupOf, ranks of ZeRO are those of
/// zeroDataRanks, or 0 where they are all; without context parallelism the kind
/// is noCpKind.
enum class Field {
  Dp, Tp, Pp, Ep, Etp, Sp, MicroBatch, Zero, Schedule, Recompute, FullLayers,
  FirstLayers, LastLayers, Chunks, Cp, CpKind, ZeroRanks, Offload, Order,
  Group,
};
inline constexpr int numFields = 20;
std::string_view name(Field field);

inline constexpr int64_t noCpKind = -1;

/// Closed interval of a field, less single values.
struct Range {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> without = {}; ///< ascending
  bool contains(int64_t value) const {
    return least <= value && value <= most &&
           !std::binary_search(without.begin(), without.end(), value);
  }
  /// Whether it says which values are wanted, not only which are not.
  bool bounded() const {
    return least != Range().least || most != Range().most;
  }
  bool operator==(const Range &) const = default;
};
using Ranges = std::array<Range, numFields>;

/// What decides how many layers of each stage recompute under Recompute::Full:
/// as few as stay below the limit. Stages hold memory of their own and no step
/// gets faster by recomputing more, so no other choice is faster (but for a trace
/// under zero-bubble schedules: SEARCH.md).
struct FullRule {
  Bytes limit = Bytes(std::numeric_limits<int64_t>::max()); ///< of a rank
  Range layers;      ///< Field::FullLayers; -1 is all of a stage
  bool none = true;  ///< a stage may recompute none
  /// All stages the same number, or all their layers where they have fewer: what
  /// frameworks with one setting for all stages do.
  bool alike = false;

  /// Whether a stage of `count` layers may recompute `n` of them. Where `layers`
  /// asks for more than there are, all are meant.
  bool allows(int64_t n, int64_t count) const;
  /// No stage recomputes fewer, if it has as many.
  int64_t floor() const;
};

/// Entries that the plan of `candidate` has in Plan::stages.
int64_t stageCount(const Candidate &candidate);

/// As even as can be, interior stages taking one more first: the ends also hold
/// the embedding and the head.
std::vector<int64_t> evenSplit(int64_t layers, int64_t stages);

/// Where the layers of each stage begin, of a candidate with several stages.
struct StageStarts {
  StageStarts(const Candidate &candidate, int64_t layers);
  int64_t stages, layers, first, last;
  int64_t each = 0;   ///< of an interior stage
  int64_t longer = 0; ///< stages 1 .. `longer` have one more
  /// Layers before those of `stage`, 0 .. stages.
  int64_t of(int64_t stage) const {
    if (stage == 0)
      return 0;
    if (stage + 1 >= stages)
      return stage + 1 == stages ? layers - last : layers;
    return first + (stage - 1) * each + std::min(stage - 1, longer);
  }
  int64_t count(int64_t stage) const { return of(stage + 1) - of(stage); }
};

/// Layers of each stage; sums to `layers`. With fewer layers than stages, or
/// firstLayers = 0, the even split.
std::vector<int64_t> layersPerStage(const Candidate &candidate, int64_t layers);

/// Whether one rank has the first and the last of several stages.
bool holdsBothEnds(const Candidate &candidate);

/// Splits of `layers` over `stages` stages with at least one layer each: all
/// (first, last) allowed by `ranges`, ascending. Empty if stages > layers.
struct Split {
  int64_t first, last;
  int64_t largest; ///< layers of the largest stage
  bool operator==(const Split &) const = default;
};
std::vector<Split> splits(int64_t layers, int64_t stages, const Ranges &ranges);
Candidate withSplit(const Candidate &policy, const Split &split);

/// Stages with `counts` layers each, the embedding before the first and the
/// head after the last. Under Full, unless `full` is empty, the first full[i]
/// layers of stage i recompute and the others save.
std::vector<Stage> stagesWith(const Program &program,
                              const std::vector<int64_t> &counts,
                              Recompute policy,
                              const std::vector<int64_t> &full = {});

/// Degrees, batch, ZeRO and schedule of `candidate`; mesh and stages stay.
void setFields(const Program &program, Plan &plan, const Candidate &candidate);
/// The same and the mesh; stages stay.
void setDegrees(const Program &program, Plan &plan,
                const Candidate &candidate);
/// The plan at `candidate`; `base` gives names, digests, dtypes, global batch
/// and sequence.
Plan planAt(const Program &program, const Plan &base,
            const Candidate &candidate);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_CANDIDATE_H

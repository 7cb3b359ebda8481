//===- Reshard.h - From the encoding a value has to those wanted -*- C++ -*-===//
//
// The one place that decides collectives inside a function. The cost model
// prices the list, sw-insert-reshards materializes it; neither decides again.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_RESHARD_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_RESHARD_H

#include "cost_model/plan/Plan.h"

#include <string>
#include <vector>

namespace shardwright::cost {

enum class Partial { None, Sum, Max };

/// How a value lies on the mesh: per dim the axes that shard it (outer to
/// inner) and the axes over which it is still a partial sum or maximum.
struct Encoding {
  std::vector<Axes> dims;
  Partial partial = Partial::None;
  Axes partialAxes; ///< ascending
  /// Axes over which rows (copies of tokens, on dim 0) lie with the owner of
  /// their expert instead of the owner of their token. As many rows a rank
  /// either way: routing is taken as balanced.
  Axes routed = {};
  bool operator==(const Encoding &) const = default;
};

enum class Collective {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Send,
  Recv,
  Slice, ///< local: keeps this rank's part; never in a ledger
};
std::string_view name(Collective collective);

/// One collective on one axis list. Values are numbered: 0 is the produced
/// value, i + 1 the result of step i.
struct ReshardStep {
  Collective collective;
  Axes axes;  ///< the group
  int dim = -1;            ///< dim gathered, scattered or sliced; of an
                           ///< all-to-all the one that is cut
  int source = 0;          ///< value number
  Encoding result;
};

struct ReshardPlan {
  std::vector<ReshardStep> steps;
  /// Per wanted encoding, the value number that has it.
  std::vector<int> served;
};

/// Partials are finished once, into the most sharded wanted encoding: a
/// reduce-scatter for every dim that this encoding shards further by partial
/// axes of a sum, then one all-reduce over the partial axes that are left
/// (a maximum is always all-reduced). Most sharded: most axes reduce-scattered,
/// ties by order of `wanted`. Every distinct wanted encoding is then served
/// once from the finished value, slices first (or, where another dim gives up the
/// same axes, an all-to-all between the two), then the all-to-all that changes
/// who owns rows, all-gathers last (D6). A wanted
/// encoding that keeps the same partial is served by the produced value itself.
/// No wanted encoding, no step.
/// Returns false, with `why` set, if the change needs a collective that does
/// not exist (a dim moves from one axis list to an unrelated one).
bool planReshards(const Encoding &produced, const std::vector<Encoding> &wanted,
                  ReshardPlan &plan, std::string &why);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_RESHARD_H

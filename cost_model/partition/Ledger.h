//===- Ledger.h - Exact counts of what a rank does in one step --*- C++ -*-===//
//
// Three ledgers must agree as integers: predicted (here, from Program and
// Plan), counted (sw-count-ledger, from the partitioned IR) and measured (the
// runtime's trace). D9. They share these rules and no code.
//
// M = microbatches per step; widths are those of the plan's dtypes; payload is
// the bytes of this rank's input. Entries of zero calls, and phases of zero
// flops, are absent.
//
// Phases forward, data_grad, weight_grad:
// - every reshard step of a function, but slices, counts once per layer of
//   every run of the rank's stages and per microbatch that passes them (M, or
//   M / 2 under dualpipe), on its mesh axes, with the bytes of the value that it
//   reads (this rank's part);
// - `send` and `recv` on "pp", one call for each microbatch and chunk, payload
//   the bytes of this rank's stream (compute dtype): forward send and data_grad
//   recv where a chunk has one behind it on another rank, forward recv and
//   data_grad send where it has one before it on another rank. A recv counts the
//   bytes that arrive.
// - `send` and `recv` on "cp" of every attention whose keys and values go round
//   (p2p): forward cp - 1 calls of this rank's part of them, data_grad cp calls,
//   of keys, values and their gradients, of twice (cp - 1) parts together.
// Phase reduce, per bucket of every layer's parameter block, and then per
// bucket of the shared block, in this order, in place in the gradients, payload
// bucket elements (padding included) * grad width:
// 1. all_reduce over the bucket's extra axes, if there are any;
// 2. all_reduce over "pp" between the pipeline ranks that own the block, if more
//    than one does: of a shared block, and under dualpipe of every block;
// 3. reduce_scatter over the bucket's shard axes (zero >= 1: its data axes, "dp"
//    or "dp+cp", or "edp" for experts; of HSDP the inner ones), if they have more than one
//    rank, then all_reduce over the rest of its data axes, if they have, of
//    payload / shards: all of them under zero 0.
// Under zero 2 and 3 the reduce_scatter comes first and of every microbatch, into
// shards that accumulate; 1, 2 and the all_reduce of 3 follow once, of payload /
// shards.
// Phase update:
// - zero 1 and 2 and more than one shard: per bucket all_gather over the shard
//   axes of this rank's updated parameters, payload elements / shards * param
//   width;
// - more than one rank: one all_reduce over "world" of two f64 values, the
//   square of the gradient norm and the loss: 16 bytes.
// Under zero 3 the same all_gather counts in forward and again in data_grad, of
// every microbatch, and not in update.
// Flops: flopsOf the local iteration space of every op of the three functions,
// per layer and microbatch; recomputed ops count in data_grad.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_LEDGER_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_LEDGER_H

#include "cost_model/partition/Assignment.h"
#include "cost_model/schedule/Schedule.h"

#include <map>
#include <string>
#include <tuple>

namespace shardwright::cost {

enum class Phase { Forward, DataGrad, WeightGrad, Reduce, Update };
std::string_view name(Phase phase); ///< forward, data_grad, weight_grad, reduce, update

/// `axis` is the mesh axis of the group ("tp", "dp", "cp", "pp"), joined by '+' for
/// several ("dp+cp"), or "world".
struct LedgerKey {
  Collective collective;
  std::string axis;
  Phase phase;
  auto operator<=>(const LedgerKey &) const = default;
};
struct LedgerEntry {
  int64_t calls = 0;
  Bytes payload; ///< bytes of this rank's input, summed over calls
  bool operator==(const LedgerEntry &) const = default;
};
/// Name of the group over `axes`: that of the degree which they make up ("dp",
/// "edp"), or else those of the axes, "dp+tp" in mesh order. A group that is
/// both a dense and an expert degree has the dense name, unless `expert`.
std::string axisName(const Plan &plan, const Axes &axes,
                     bool expert = false);

/// Parts of the static arena, bytes of one rank (D10); rules at memoryOf in
/// Layout.h.
struct MemoryParts {
  Bytes parameters, gradients, optimizer;
  Bytes saved;     ///< activation slots
  Bytes p2p;       ///< stage borders
  Bytes comm;      ///< staging of collectives
  Bytes workspace; ///< temporaries of the largest function
  bool operator==(const MemoryParts &) const = default;
  Bytes total() const;
};

struct Ledger {
  std::map<LedgerKey, LedgerEntry> collectives;
  std::map<Phase, Flops> flops;
  MemoryParts memory;
  bool operator==(const Ledger &) const = default;
};

/// What one rank of `stage`, a rank of the pipeline, does in one optimizer step.
/// The plan is legal
/// (Rules.h).
Ledger predictLedger(const Program &program, const Plan &plan, int64_t stage);
/// The collectives of it that are no layer's: what crosses the borders of
/// stages, gradients, parameters, the norm.
std::map<LedgerKey, LedgerEntry>
transfersBesideLayers(const Program &program, const Plan &plan, int64_t stage);
/// predictLedger of every stage, planning every kind once.
std::vector<Ledger> predictLedgers(const Program &program, const Plan &plan);

/// JSON-free text, one line an entry, sorted; what tests diff.
std::string text(const Ledger &ledger);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_LEDGER_H

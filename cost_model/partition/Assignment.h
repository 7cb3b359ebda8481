//===- Assignment.h - A plan expanded to segment x role -> axes -*- C++ -*-===//
//
// The rule table (D6) and what follows from it for every value of a function:
// encodings, reshards, local sizes. Search, ledger and passes all read it here.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PARTITION_ASSIGNMENT_H
#define SHARDWRIGHT_COST_MODEL_PARTITION_ASSIGNMENT_H

#include "cost_model/partition/Reshard.h"
#include "cost_model/plan/Plan.h"

namespace shardwright::cost {

/// The rule table:
///   stream:        batch:dp  seq:cp, tp if sp
///   attention:     batch:dp  seq:cp  heads:tp without its key/value replicas
///                  group:key/value replicas
///   mlp:           batch:dp  seq:cp  ffn:tp
///   router:        as stream; rows: as the tokens that they are copies of
///   experts:       experts:ep  ffn:etp  rows: as in router without etp
///   embed/head/loss: batch:dp  seq:cp  vocab:tp
///   update:        flat:dp, cp if zero >= 1
/// An axis of size 1 is never listed.
///
/// A query head is a pair (key/value head, group). Where tp exceeds the
/// key/value heads, its outer axes split them and its inner ones (kvReplicaAxes)
/// the group: a rank has one key/value head and some of the query heads that
/// share it, so what depends on query heads (q and output projection, scores) is
/// split tp ways, and what does not (k and v projection, their values) is held
/// and computed alike by the replicas. The gradients of k and v are sums over
/// their query heads, so partial over the replicas; they pass as partials
/// through everything linear into the weights' gradients, which the replicas sum
/// once a step.
Axes axesOf(const Plan &plan, Segment segment, Role role);

/// The same for a factor of an op. The core of attention differs from its
/// segment where cp > 1: all queries of a rank meet all keys, so that keys and
/// values are gathered (all_gather), or under a2a
///   heads:tp, cp   seq: whole
/// which an all-to-all brings about.
Axes factorAxes(const Plan &plan, const Op &op, Role role);
/// Axes of a dim of an operand or result. Those of the factor, but for keys and
/// values under p2p: they arrive and leave as they lie, over cp, and go round
/// inside the op (ringBytes), which meets them all.
Axes dimAxes(const Plan &plan, const Op &op, Role role);
/// Whether `op` is attention whose keys and values go round: p2p and cp > 1.
bool goesRound(const Plan &plan, const Op &op);

/// Vocabulary padded for a plan: a multiple of 128 * tp (Megatron). D14.
int64_t paddedVocab(int64_t vocab, int64_t tp);

/// Axes of data ranks and, inside, of the parts of a sequence.
Axes tokenAxes(const Plan &plan);

/// Global size of a dim or factor under the plan: Batch and Rows are multiplied
/// by dp * microBatch, Vocab its padded size, others stay.
int64_t plannedSize(const Plan &plan, Role role, int64_t size);

/// Product of the sizes of `axes`, of which a mesh has each once: it divides the
/// number of ranks.
inline int64_t degree(const Plan &plan, const Axes &axes) {
  int64_t product = 1;
  for (Axis axis : axes)
    product *= plan.mesh[axis].size;
  return product;
}

/// Encoding of the stream between kinds: [seq, batch, hidden] of Stream.
Encoding streamEncoding(const Plan &plan);
/// Axes over which rows of a value in `segment` lie with the owner of their
/// expert: ep in experts, none elsewhere.
Axes routedAxes(const Plan &plan, Segment segment);
/// Axes over whose ranks the gradient of a parameter of `segment` is summed and
/// its optimizer state may be sharded: edp for experts, dp and cp for all others.
Axes dataAxes(const Plan &plan, Segment segment);
/// Of them, those over which ZeRO shards: all, or the inner ones of HSDP.
Axes shardAxes(const Plan &plan, Segment segment);
/// Encoding of a parameter, from its segment and the roles of its dims.
Encoding parameterEncoding(const Plan &plan, const Parameter &parameter);

/// One op of a function under a plan.
struct PlannedOp {
  std::vector<Axes> factorAxes; ///< per factor of its space
  std::vector<Encoding> operands;            ///< wanted
  std::vector<Encoding> results;             ///< produced
  IterationSpace local;                      ///< with local factor sizes
};

/// Everything a plan decides about a function. Values: `encodings[v]` is the
/// encoding in which value v is produced (or arrives as an argument).
struct PlannedFunction {
  std::vector<Encoding> encodings;
  std::vector<PlannedOp> ops;
  /// Per value: its reshards, and for each of its uses (op operand order, then
  /// function results, in program order) the value number that serves it.
  struct ValuePlan {
    ReshardPlan reshards;
    struct Use {
      int op;      ///< index in Function::ops, or -1 for a function result
      int operand; ///< operand number, or index in Function::results
      int served;  ///< 0 the produced value, i + 1 the result of step i
    };
    std::vector<Use> uses;
    /// Per step: the index of the op that it stands before (ops.size(): after
    /// the last). All-reduce, reduce-scatter and slice, which shrink what is
    /// alive, stand right behind what they read; an all-gather stands right
    /// before the first use of its result.
    std::vector<int> before;
  };
  std::vector<ValuePlan> values;
  std::vector<ValueId> resharded; ///< values with reshards, ascending
  /// Encodings of the function's results, in order.
  std::vector<Encoding> results;
};

/// Encodings of saved and kept values are those their producing function gives
/// them, so plan forward first, then dataGrad, then weightGrad.
struct PlannedVariant {
  PlannedFunction forward, dataGrad, weightGrad;
};

/// Expands `plan` over the functions of a kind. Rules (D6, D7):
/// - an operand is wanted with the axes of its factors; a result is produced
///   with the axes of its factors, partial over axes on its Sum/Max factors;
/// - an operand that the op declares linear may arrive partial (sum) if producer
///   and op share the segment, no factor of the op is sharded by the partial
///   axes, and: the op is a Gemm (linear in each operand apart) and no other
///   operand is partial, or it is another op (linear in all its linear operands
///   together, as `add`) and all of them are partial over the same axes. The
///   result carries the partial;
/// - tokens and labels arrive sharded by batch and cp only;
/// - stream results and stream gradients are wanted in streamEncoding;
/// - a ParameterGrad result and the Loss stay partial;
/// - a Saved or Kept result is wanted as the value stands once its partial is
///   finished (the first reshard that clears it), and adds no collective other
///   than that finish; a Kept result is kept in the encoding in which the weight
///   gradient reads it, if the data gradient makes that version for itself
///   (under sp: a gathered gradient is not gathered twice), and stays partial if
///   nothing in the data gradient finishes it and the weight gradient does
///   nothing with it that is not linear in it alone (gradients of replicated
///   key/value heads); a Saved result, which is as large before an all-to-all as
///   behind it, in the encoding in which the data gradient reads it, if the
///   forward function makes it by one.
/// Returns false with `why` if planReshards fails.
bool planVariant(const Plan &plan, const Kind &kind, const KindVariant &variant,
                 PlannedVariant &planned, std::string &why);
/// The same of a plan that the caller vouches for: an illegal one is our bug,
/// which ends the process.
PlannedVariant plannedVariant(const Plan &plan, const Kind &kind,
                              const KindVariant &variant);

/// Makes `planned`, which planVariant gave for a plan that differs in microBatch
/// and the sizes of mesh axes larger than 1 alone, what it would give for `plan`:
/// encodings do not depend on sizes, local spaces do.
void resizeVariant(const Plan &plan, const KindVariant &variant,
                   PlannedVariant &planned);

/// Bytes of keys and values of one rank that `op`, for which goesRound, passes
/// on in each of its cp - 1 steps; an AttentionGrad passes their gradients, too.
Bytes ringBytes(const Plan &plan, const Function &function, const Op &op,
                const PlannedOp &planned);

/// Bytes of one rank's part of a value: planned global size / sharding degree
/// per dim, times the width of its dtype.
Bytes localBytes(const Plan &plan, const Value &value, const Encoding &encoding);
/// Local extents of a value, outer to inner.
std::vector<int64_t> localShape(const Plan &plan, const Value &value,
                                const Encoding &encoding);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PARTITION_ASSIGNMENT_H

//===- IterationSpace.h - What an op computes, once -------------*- C++ -*-===//
//
// An op states its iteration space once. Work, legal shardings, local shapes
// and needed collectives are derived from it, here and nowhere else.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ITERATIONSPACE_H
#define SHARDWRIGHT_COST_MODEL_ITERATIONSPACE_H

#include "cost_model/Units.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// What a factor of an iteration space means to a plan. A plan assigns mesh
/// axes to (segment, role) pairs; it never names an op.
enum class Role {
  Batch,    ///< `b` sequences of one microbatch over all data ranks
  Seq,      ///< `s` positions of a sequence
  KvSeq,    ///< `t` positions attended to
  Hidden,   ///< `h` model width; `i` too, where a matrix has it twice
  Heads,    ///< `n` key/value heads (a query head is a pair (n, g))
  Group,    ///< `g` query heads per key/value head
  HeadDim,  ///< `d` width of a head; `o`, `r` its parts without and with
            ///< rotary position
  Ffn,      ///< `f` feed-forward width, `m` that of one expert
  Vocab,    ///< `v` vocabulary
  Position, ///< `p` rows of a learned position table
  Flat,     ///< `e` elements of a flat parameter bucket
  Experts,  ///< `x` routed experts
  Choice,   ///< `k` experts that a token is sent to
  Rows,     ///< `c` token copies (tokens times choices) that experts work on
  Latent,   ///< `q`, `l` low-rank widths of latent attention
  ValueDim, ///< `w` width of a head's values, where it is not that of its keys
};

/// Part of a step that a plan shards alike.
enum class Segment {
  Stream,
  Attention,
  Mlp,
  Embed,
  Head,
  Loss,
  Update,
  Router,  ///< choice of experts, and tokens on their way to and from them
  Experts, ///< routed experts; their rows lie with the expert's owner
};

/// How a sharding of the factor may be executed.
enum class FactorKind {
  Parallel, ///< points are independent: sharding is local
  Sum,      ///< summed over: sharding leaves a partial sum
  Max,      ///< maximum over: sharding leaves a partial maximum
  Full,     ///< must stay whole on a rank (rows of a norm, head width)
};

/// Key of the efficiency tables. Closed: hardware files are keyed by it.
enum class KernelClass {
  Gemm,
  Attention,
  AttentionGrad,
  RowNorm,      ///< norms and their data gradients: a reduction along a row
  Elementwise,  ///< maps: residual adds, activations, rotary embedding
  ColumnSum,    ///< sums over tokens: bias and norm-weight gradients
  Gather,       ///< embedding lookup
  Scatter,      ///< embedding gradient
  CrossEntropy, ///< row statistics over the vocabulary and their gradient
  Optimizer,
  GroupedGemm, ///< products of each expert's rows with its own matrix
  Permute,     ///< rows copied into another order: dispatch, combine
};

/// Storage class of a value; a plan's dtypes give it a format.
enum class Precision { Param, Compute, Stat, Grad, Master, Index };

struct Factor {
  char letter;     ///< one letter one role, in the whole project
  Role role;
  FactorKind kind;
  int64_t size;    ///< number of points, global, >= 1
  bool operator==(const Factor &) const = default;
};

/// The role that `letter` stands for everywhere; false if it stands for none.
bool roleOfLetter(char letter, Role &role);
std::string_view name(Role role);
std::string_view name(Segment segment);
std::string_view name(KernelClass kernel);
std::string_view name(Precision precision);

/// Work of an op over an iteration space, with local or global sizes.
/// `flops` counts contractions (2 per multiply-add) and unmasked attention
/// pairs only; elementwise arithmetic is not counted (ledger convention).
struct Work {
  Flops flops;
  Bytes read;
  Bytes written;
};

/// Iteration space of one op. Dim maps give, per operand and result, the index
/// in `factors` of every dim, outer to inner.
struct IterationSpace {
  KernelClass kernel = KernelClass::Elementwise;
  std::vector<Factor> factors;
  std::vector<std::vector<int>> operands;
  std::vector<std::vector<int>> results;
  std::vector<Precision> resultPrecision; ///< one per result
  /// Per operand: the op is linear in it, so a partial sum may pass through.
  std::vector<bool> linear;
  /// Attention only: keys after the query are masked (pairs are counted
  /// without them).
  bool causal = false;
  /// Attention only: of the keys that are not masked the last `window` count;
  /// 0 if all do.
  int64_t window = 0;
  /// Attention only: queries and keys meet in runs of `chunk` positions, each
  /// as if it were alone; 0 if they are not cut.
  int64_t chunk = 0;

  /// Index of the factor with `letter`, or -1.
  int factorIndex(char letter) const;
  bool operator==(const IterationSpace &) const = default;
};

/// Unmasked (query, key) pairs of `s` queries and `t` keys: s*t, or for causal
/// (s == t) s*(s+1)/2. Within a window of w < t keys: w*(w+1)/2 + (s-w)*w if
/// causal, else s*w. In chunks of c < t positions: those of every chunk as if it
/// were alone, the last of which may be shorter. Fewer causal queries than keys
/// are an even share of the pairs of t queries (two of 2 cp chunks, one from
/// either end): s/t of them.
int64_t attentionPairs(int64_t s, int64_t t, bool causal, int64_t window,
                       int64_t chunk = 0);

/// Width of a head's keys and of its values (equal but in latent attention).
struct AttentionWidths {
  int64_t keys, values;
};
AttentionWidths attentionWidths(const IterationSpace &space);

/// Flops of `space` with its factor sizes taken as they stand (pass a space
/// with local sizes to get the work of one rank).
///   Gemm:          2 * product of all factors
///   GroupedGemm:   2 * product of all factors but the experts: a row meets
///                  the matrix of one expert
///   Attention:     2 * b*n*g * (keys + values) * pairs   (QK^T and PV)
///   AttentionGrad: 2 * b*n*g * (3 keys + 2 values) * pairs
///                  (QK^T again, dQ, dK; dP, dV)
///   others:        0
/// pairs = attentionPairs(s, t, causal, window, chunk); keys and values are the widths
/// of a head (both d in usual attention: 4 and 10 * b*n*g*d * pairs).
Flops flopsOf(const IterationSpace &space);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ITERATIONSPACE_H

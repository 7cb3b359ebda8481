//===- Plan.h - A parallelism plan, as the file says it ---------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_PLAN_PLAN_H
#define SHARDWRIGHT_COST_MODEL_PLAN_PLAN_H

#include "cost_model/plan/Axes.h"
#include "cost_model/program/Program.h"

#include <compare>
#include <map>
#include <string>
#include <vector>

namespace shardwright::cost {

enum class DType { F64, F32, BF16, F16, I32 };
std::string_view name(DType dtype);
int64_t byteWidth(DType dtype);

struct MeshAxis {
  std::string name; ///< "pp", "dp", "tp"
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

/// Pipeline schedules; their orders are at makeSchedule in Schedule.h.
enum class ScheduleKind {
  GPipe, OneFOneB, ///< "gpipe", "1f1b"
  Interleaved,     ///< "interleaved": 1F1B over chunks dealt out in turn
  ZbH1, Zb2p,      ///< "zb-h1", "zb-2p": zero bubble; weight gradients apart
  ZbV,             ///< "zb-v": zero bubble over two chunks in a V
  DualPipe,        ///< "dualpipe": microbatches enter at both ends
  DualPipeV,       ///< "dualpipe-v": its half, two chunks in a V
};
inline constexpr ScheduleKind scheduleKinds[] = {
    ScheduleKind::GPipe,    ScheduleKind::OneFOneB, ScheduleKind::Interleaved,
    ScheduleKind::ZbH1,     ScheduleKind::Zb2p,     ScheduleKind::ZbV,
    ScheduleKind::DualPipe, ScheduleKind::DualPipeV};
std::string_view name(ScheduleKind kind);
/// Whether BackwardWeight is an action of its own, apart from BackwardData.
bool splitsBackward(ScheduleKind kind);
/// Chunks of a rank: exactly 1 or 2, or, where `most` is larger, 2 to `most`.
struct ChunkRange {
  int64_t least, most;
};
ChunkRange chunksOf(ScheduleKind kind);
/// Why `kind` cannot run so many chunks and microbatches over `pp` ranks; empty
/// if it can. The whole of it, with g = `group`, or pp for 0:
///   chunks in chunksOf(kind); more than one chunk: pp > 1;
///   interleaved: pp <= g <= microbatches, and of microbatches % g nothing or at
///   least pp is left; others have no group;
///   dualpipe: pp and microbatches even, microbatches >= 2 pp;
///   dualpipe-v: microbatches >= 2 pp.
std::string scheduleProblem(ScheduleKind kind, int64_t pp, int64_t chunks,
                            int64_t microbatches, int64_t group = 0);
/// The least group of microbatches, of at least `from`, that interleaved chunks
/// over `pp` ranks can run in a row; 0 if there is none.
int64_t leastGroup(int64_t pp, int64_t microbatches, int64_t from = 0);
/// The two such groups next below `size` and the two next above, ascending.
std::vector<int64_t> groupsNear(int64_t pp, int64_t microbatches, int64_t size);
/// The one that torch.distributed.pipelining takes: as many groups as there are
/// pp microbatches, all alike; 0 if they are not.
int64_t evenGroup(int64_t pp, int64_t microbatches);

/// How queries of one part of a sequence meet the keys of the others (cp > 1);
/// named as Megatron Core's cp_comm_type. Every rank holds two of 2 cp chunks,
/// one from either end, so that causal work is even.
enum class CpKind {
  P2P,       ///< "p2p": keys and values go round a ring (ring attention)
  AllGather, ///< "all_gather": of keys and values (Llama 3)
  AllToAll,  ///< "a2a": heads for positions and back (DeepSpeed Ulysses)
};
inline constexpr CpKind cpKinds[] = {CpKind::P2P, CpKind::AllGather,
                                     CpKind::AllToAll};
std::string_view name(CpKind kind);

/// Order of the dense mesh, outer to inner; cp and tp are inside of both.
enum class MeshOrder {
  PpDp, ///< pp, dp, cp, tp: neighbours of a pipeline are farthest apart
  DpPp, ///< dp, pp, cp, tp: data ranks are
};

/// `count` consecutive layers of one kind under one recompute policy.
struct StageRun {
  std::string kind;
  int64_t count = 0;
  Recompute recompute = Recompute::None;
  bool operator==(const StageRun &) const = default;
};
struct Stage {
  std::vector<StageRun> runs;
  bool operator==(const Stage &) const = default;
};

/// Products of layers in fewer bits than `compute`, by how they are scaled.
enum class Narrow {
  None,     ///< "none": in `compute`
  Fp8,      ///< "fp8": one factor a tensor
  Mxfp8,    ///< "mxfp8": a factor for 32 values (Blackwell)
  Fp8Block, ///< "fp8_block": a factor a block of 128 x 128
  Fp4Block, ///< "fp4_block"
};
inline constexpr Narrow narrows[] = {Narrow::None, Narrow::Fp8, Narrow::Mxfp8,
                                     Narrow::Fp8Block, Narrow::Fp4Block};
std::string_view name(Narrow narrow);

struct DTypes {
  DType param = DType::BF16, compute = DType::BF16, reduce = DType::F32,
        grad = DType::F32, master = DType::F32;
  Narrow products = Narrow::None; ///< in files "products", if not None
  bool operator==(const DTypes &) const = default;
  DType of(Precision precision) const; ///< Stat is F32 (F64 if compute is F64)
};

/// The value of a plan.json, schema "shardwright.plan/1". Every degree is
/// >= 1. Mesh is outer to inner; rank = row-major index over the mesh.
struct Plan {
  std::string modelName, modelSha256;
  std::string clusterName, clusterSha256;
  std::vector<MeshAxis> mesh; ///< outer to inner, as setMesh fills it
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  bool sp = false;
  /// Neighbouring tensor ranks that hold the same key/value heads, each with
  /// other query heads of their groups: kvReplicasOf where tp exceeds the
  /// key/value heads, else 1.
  int64_t kvReplicas = 1;
  int zero = 0; ///< ZeRO stage: 1 shards state, 2 gradients, 3 parameters too
  /// Neighbouring data ranks over which ZeRO shards, and over cp inside of
  /// them; the others hold copies (HSDP). 0: all of them.
  int64_t zeroRanks = 0;
  CpKind cpKind = CpKind::P2P; ///< in files "none" while cp = 1
  MeshOrder order = MeshOrder::PpDp; ///< in files the order of mesh
  /// Master weights and moments live in the host's memory, which updates them;
  /// in files "offload": "optimizer".
  bool offloadOptimizer = false;
  /// What layers save waits in the host's memory for their backward pass; in
  /// files "offload": "activations", or "both".
  bool offloadActivations = false;
  int64_t globalBatch = 1; ///< sequences per step over the whole job
  int64_t microBatch = 1;  ///< sequences per rank and microbatch
  int64_t sequence = 0;    ///< tokens per sequence
  ScheduleKind schedule = ScheduleKind::OneFOneB;
  int64_t chunks = 1; ///< parts of the model that a rank runs in turn
  /// Of interleaved chunks: microbatches that one runs in a row before the next
  /// takes over, but the last group may be smaller; 0: pp.
  int64_t group = 0;
  /// In the order in which a microbatch passes them: pp * chunks entries where a
  /// rank runs several stages (interleaved, zb-v, dualpipe-v), else pp. The
  /// chunks of dualpipe are two of the pp stages, each on two ranks. stageAt
  /// says which rank runs which.
  std::vector<Stage> stages;
  DTypes dtypes;
  bool operator==(const Plan &) const = default;

  int64_t ranks() const { return dp * tp * pp * cp; }
  int64_t microbatches() const { return globalBatch / (dp * microBatch); }
};

/// Data ranks over which ZeRO shards: zeroRanks or all; 1 without ZeRO. cp inside
/// of them shards, too (zeroDegree). What `zero_ranks` means everywhere.
int64_t zeroDataRanks(const Plan &plan);

/// Microbatches that a chunk of an interleaved plan runs in a row; 0 of others.
int64_t groupOf(const Plan &plan);
/// Plan::group for a group of which people say the size: pp is not said of an
/// interleaved plan, and what other schedules do not have is kept to be refused.
int64_t groupField(ScheduleKind kind, int64_t pp, int64_t size);

/// Entries that Plan::stages has to have.
int64_t stageCount(ScheduleKind kind, int64_t pp, int64_t chunks);
inline int64_t stageCount(const Plan &plan) {
  return stageCount(plan.schedule, plan.pp, plan.chunks);
}

/// A chunk of a pipeline rank.
struct ChunkPlace {
  int64_t rank, chunk;
  bool operator==(const ChunkPlace &) const = default;
};
/// Index in Plan::stages of what `place` runs: interleaved chunk * pp + rank;
/// in a V rank, then 2 pp - 1 - rank; dualpipe rank, then pp - 1 - rank; rank.
int64_t stageAt(ScheduleKind kind, int64_t pp, ChunkPlace place);
/// Where the stream of `place` goes, and where it comes from; rank -1 at the
/// ends. Under dualpipe a microbatch keeps its chunk, and so its direction.
ChunkPlace placeBehind(ScheduleKind kind, int64_t pp, int64_t chunks,
                       ChunkPlace place);
ChunkPlace placeBefore(ScheduleKind kind, int64_t pp, int64_t chunks,
                       ChunkPlace place);
/// Indices in plan.stages of the chunks of pipeline rank `rank`, in order.
std::vector<int64_t> stagesOfRank(const Plan &plan, int64_t rank);
/// Calls visit(run, chunk) for every run of pipeline rank `rank`.
template <typename Visit>
void forEachRun(const Plan &plan, int64_t rank, Visit visit) {
  for (int64_t chunk = 0; chunk < plan.chunks; ++chunk)
    for (const StageRun &run :
         plan.stages[static_cast<size_t>(
                         stageAt(plan.schedule, plan.pp, {rank, chunk}))]
             .runs)
      visit(run, chunk);
}
/// Whether a forward runs beside a backward: dualpipe, dualpipe-v.
bool runsBeside(ScheduleKind kind);
/// Ranks of a pipeline that hold a stage: two under dualpipe, else one.
int64_t stageOwners(ScheduleKind kind);
/// Microbatches that pass a chunk in a step: all, or half under dualpipe.
int64_t chunkMicrobatches(ScheduleKind kind, int64_t microbatches);

/// Fills mesh from the degrees: pp, then the common refinement of the dense
/// order (dp, cp, tp) and the expert order (edp, ep, etp), outer to inner; under
/// MeshOrder::DpPp pp stands behind what dp is made of. A degree that is one
/// axis has its own name; of several axes the outermost is "dp0". HSDP splits
/// dp, too: "dp0" over copies, "dp1" over shards; and kvReplicas tp: "tp0" over
/// key/value heads, "tp1" over their replicas. Without any of them: [pp, dp,
/// tp]. cp of 1 has no axis.
void setMesh(Plan &plan);
/// The same as a value. Degrees that do not nest: the dense order alone.
std::vector<MeshAxis> meshOf(const Plan &plan);
/// Whether the boundaries of the two orders, of zeroRanks and of kvReplicas
/// divide one another in a chain.
bool degreesNest(const Plan &plan);

/// Largest degrees and microbatch of a plan: a product of four degrees, and
/// copies of tokens, are numbers of 63 bits.
inline constexpr int64_t maxDegree = 1 << 15, maxDataRanks = 1 << 17,
                         maxMicroBatch = 1 << 20;

/// A degree of the plan; Edp is dp * cp * tp / (ep * etp).
enum class Degree { Pp, Dp, Cp, Tp, Edp, Ep, Etp };
std::string_view name(Degree degree);
/// Mesh axes that make up a degree, outer to inner, those of size 1 left out.
Axes axesOfDegree(const Plan &plan, Degree degree);
/// Tensor ranks for each key/value head of `program`, where tp is a multiple of
/// them; else 1 (rule kv_heads_divisible_by_tp speaks of the rest).
int64_t kvReplicasOf(const Program &program, int64_t tp);
/// Of the axes of tp those over replicas of key/value heads: the inner ones.
Axes kvReplicaAxes(const Plan &plan);

/// Ranks between neighbours of a pipeline.
int64_t pipelineStride(const Plan &plan);

/// Index of the axis named `axis` in plan.mesh; asserts that it exists (dp and
/// tp are several axes under expert parallelism: see axesOfDegree).
Axis axisNamed(const Plan &plan, std::string_view axis);
/// Coordinates of `rank` on the mesh, outer to inner.
std::vector<int64_t> coordinates(const Plan &plan, int64_t rank);

/// `count` stages (stageCount) with layers split as evenly as possible (D18: interior floor/ceil,
/// the first (layers % count) interior stages take one more), embedding on the
/// first and head on the last, every layer under `policy`, the last
/// `layers - fullLayers` of a stage under None when policy is Full and
/// fullLayers >= 0.
std::vector<Stage> evenStages(const Program &program, int64_t count,
                              Recompute policy, int64_t fullLayers = -1);

/// Canonical text: plan.json with sorted keys and two-space indent, the order
/// in which equal plans tie. Same value, same bytes.
std::string canonicalText(const Plan &plan);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PLAN_PLAN_H

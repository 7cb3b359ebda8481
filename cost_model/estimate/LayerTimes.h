//===- LayerTimes.h - What the time of a layer is made of -------*- C++ -*-===//
//
// Between LayerProfile, which makes a LayerProfile of it, and EstimateCache,
// which remembers its parts.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_LAYERTIMES_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_LAYERTIMES_H

#include "cost_model/estimate/Estimate.h"

namespace shardwright::cost {

/// Times of one function; collectives by what may run beside them.
struct FunctionTime {
  Seconds compute;
  Seconds products;  ///< the part of compute that is matrix products
  Seconds finishes;  ///< all-reduces and reduce-scatters
  Seconds gathers;
  Seconds exchanges; ///< all-to-alls of rows; nothing runs beside them
  Seconds contexts;  ///< what shows of keys, values and heads over cp
  double issued = 0; ///< operators, of the host
  /// What of a layer with experts comes after the counts of their rows: the work
  /// on rows and their exchange; and its operators.
  Seconds behindCounts;
  double issuedBehindCounts = 0;
  void add(const FunctionTime &other);
};
struct VariantTime {
  FunctionTime forward, dataGrad, weightGrad;
  FunctionTime again; ///< of forward, what the profile runs again backward
  void add(const VariantTime &other);
};

/// Equal collectives that a function issues, as they were priced: those of the
/// plan's program but for what the profile does without, and those that its
/// framework has beside them. A part of a ring is a Send.
struct LayerMove {
  Collective collective;
  Axes axes; ///< of the group
  bool ofExperts = false; ///< axes are those of the mesh of experts
  double calls = 1;
  Bytes payload; ///< of this rank's input, of a call
  Seconds time;  ///< of a call, as if nothing ran beside it
};
/// By the functions of VariantTime.
struct VariantMoves {
  std::vector<LayerMove> forward, dataGrad, weightGrad, again;
};

/// Attention with what cp moves for it, and ops that see whole sequences (the
/// load of experts by sequence); ops of experts and of their router; all other
/// ops; all other collectives. Ops depend on how many tokens a rank has, not on
/// how many sequences and which parts of them these are, nor on where other ranks
/// are; and only those of experts depend on where experts live.
enum class LayerPart { Core, Ops, Experts, Moves };
inline constexpr LayerPart layerParts[] = {LayerPart::Ops, LayerPart::Experts,
                                           LayerPart::Moves, LayerPart::Core};
/// The part of an op of `function`: not Moves.
LayerPart partOf(const Function &function, const Op &op);

/// What of a function no plan changes; by value, but parts by op.
struct FunctionFacts {
  std::vector<int> producer; ///< op, or -1
  std::vector<int> uses;     ///< by ops
  std::vector<bool> returned;
  std::vector<LayerPart> parts;
  int64_t choices = 1; ///< copies of a token that its rows are
};
struct VariantFacts {
  FunctionFacts forward, dataGrad, weightGrad;
};
VariantFacts factsOf(const KindVariant &variant);

/// A variant with its facts, under a plan.
struct TimedVariant {
  const Plan &plan;
  const KindVariant &variant;
  const VariantFacts &facts;
  const PlannedVariant &planned;
};
/// `moves`, if not null, gets the collectives of `part`.
VariantTime timesOf(const TimedVariant &timed, const Hardware &hardware,
                    const Profile &profile, LayerPart part,
                    VariantMoves *moves = nullptr);

/// No plan that differs only in where experts live takes less for their ops.
VariantTime leastExpertTimes(const TimedVariant &timed,
                             const Hardware &hardware, const Profile &profile);

/// Whether recomputation under `policy` runs all of the forward pass again, as
/// Recompute::None has it.
inline bool redoesAll(const Profile &profile, Recompute policy) {
  return profile.recomputeWholeLayer && policy == Recompute::Full;
}
/// Whether under `policy` the profile runs again what its labels name.
inline bool redoesLabels(Recompute policy) {
  return policy != Recompute::Full;
}

/// A layer of `kind` under `policy`, whose variant takes `own`, and its variant
/// for Recompute::None `without`.
LayerProfile profileLayer(const Plan &plan, const Kind &kind, Recompute policy,
                          const VariantTime &own, const VariantTime &without,
                          const Hardware &hardware, const Profile &profile);

/// Collectives of such a layer for one microbatch, those that recomputation runs
/// again among them, by the phases of a ledger.
std::vector<std::pair<Phase, LayerMove>>
layerMoves(const Plan &plan, const Kind &kind, Recompute policy,
           const Hardware &hardware, const Profile &profile);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_LAYERTIMES_H

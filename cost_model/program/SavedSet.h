//===- SavedSet.h - What the backward pass finds, what it redoes -*- C++ -*-===//
//
// A recompute policy is the set of op labels whose results may be saved (D3).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PROGRAM_SAVEDSET_H
#define SHARDWRIGHT_COST_MODEL_PROGRAM_SAVEDSET_H

#include "cost_model/program/Program.h"

#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Whether results of ops labelled `label` may be saved: under None those of
/// every labelled op, under Selective all but "core_attention", under Full
/// none. Ops without label are always recomputed.
bool maySave(Recompute policy, std::string_view label);

struct SavedSet {
  /// Values to save, in program order (producing op, then result number).
  /// Never an argument of the function: those outlive the forward pass.
  std::vector<ValueId> saved;
  /// Indices of the forward ops to clone into the data gradient, ascending, so
  /// in an order in which they can run.
  std::vector<int> recomputed;
};

/// What to save so that the backward pass has every value of `needed` (any
/// order, repetitions allowed). A needed value is an argument, or saved, or the
/// result of a recomputed op whose operands are needed in turn; a value is
/// saved whenever it may be. Only ops and arguments of `forward` are read.
SavedSet savedSet(const Function &forward, const std::vector<ValueId> &needed,
                  Recompute policy);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PROGRAM_SAVEDSET_H

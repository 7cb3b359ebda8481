//===- Workspace.h - Where the values of functions lie ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_SCHEDULE_WORKSPACE_H
#define SHARDWRIGHT_PASSES_SCHEDULE_WORKSPACE_H

#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Rt/IR/RtDialect.h"

#include "llvm/ADT/DenseMap.h"

namespace shardwright {

/// Bytes of a tensor of static shape.
int64_t bytesOf(mlir::Type type);

struct Address {
  rt::Base base;
  int64_t offset;
  bool operator==(const Address &) const = default;
};
using AddressMap = llvm::DenseMap<mlir::Value, Address>;

/// Packs the temporaries of functions that run one after the other and hand on
/// kept values (a forward function alone, or data and weight gradient), and
/// adds the address of every value that had none to `addresses`. On entry that
/// map holds the arguments, but kept ones, and all that is returned, but kept
/// values. Returns the bytes of workspace. Rules:
/// - a value is alive from the op that makes it to the last op that reads it,
///   inclusive; a kept value to its last reader in a later function, and at
///   least to the end of its own;
/// - an all-reduce works in the buffer of what it reads, unless that is an
///   argument, or returned, or read again later; all members of such a chain
///   lie where one of them has to lie;
/// - the ops of one fusion group are one point in time.
int64_t placeValues(llvm::ArrayRef<model::KindOp> functions,
                    AddressMap &addresses);

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_SCHEDULE_WORKSPACE_H

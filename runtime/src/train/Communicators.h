//===- Communicators.h - Groups that a rank communicates in -----*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_COMMUNICATORS_H
#define SHARDWRIGHT_RUNTIME_TRAIN_COMMUNICATORS_H

#include "runtime/src/train/Stage.h"

namespace shardwright::runtime {

/// Ranks of the group that a ledger names by its axes ("dp+tp"), as `stage`'s
/// rank sees it; of transfers this rank and the others that it sends to or
/// receives from.
std::vector<int> groupOf(const Stage &stage, const std::string &axes,
                         const std::string &collective);

struct Communicator {
  std::vector<int> members;
  bool isPair = false; ///< of one direction of send and recv
  bool isAllToAll = false;
};

/// Every group and directed pair of ranks that exchange tensors of a step, as
/// the prediction in the program says; by the axes of the mesh if it carries
/// none. The norm goes over the host and is not among them.
std::vector<Communicator> communicatorsOf(const Stage &stage);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_COMMUNICATORS_H

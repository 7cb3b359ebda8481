//===- Queue.h - Parts of the family that wait for their turn ---*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_SEARCH_QUEUE_H
#define SHARDWRIGHT_COST_MODEL_SEARCH_QUEUE_H

#include "cost_model/search/Family.h"

#include <deque>
#include <optional>
#include <vector>

namespace shardwright::cost {

struct Node {
  double bound;
  Part part;
  size_t family; ///< index of its mesh, or of the first of its group
  /// Roots wait under rough bounds first; under Experts a batch stands for those
  /// of all meshes of its group.
  std::optional<Rough> rough = std::nullopt;
  /// Of a policy: whether its own bound is known, and not its state's alone.
  bool bounded = true;
  /// How many of its splits were looked at, all whose own bound is less than
  /// settledBelow.
  int64_t settled = 0;
  double settledBelow = 0;
  int64_t leaves = 0; ///< of a group: complete candidates under it
};

/// Complete candidates under a node that were not looked at.
inline int64_t left(const Family &family, const Node &node) {
  return node.rough == Rough::Experts ? node.leaves
                                      : family.leaves(node.part) - node.settled;
}

/// Nodes by bound, the smallest first; of equals the deeper, then by the
/// candidate's order. Nodes are large and stay where they are: the heap holds
/// their places. Of hundreds of thousands: four children a node, which lie side
/// by side, make it half as deep as two.
class NodeQueue {
public:
  bool empty() const { return heap.empty(); }
  const Node &top() const { return nodes[heap.front().place]; }
  Node take();
  void push(Node node);
  /// Thousands of nodes in order: the first ones, and every few of the others.
  std::vector<const Node *> some() const;
  /// Of an empty queue.
  void fill(const std::vector<Node> &all);

private:
  struct Entry {
    double bound;
    size_t place;
  };
  bool isBefore(const Entry &a, const Entry &b) const {
    if (a.bound != b.bound)
      return a.bound < b.bound;
    const Part &one = nodes[a.place].part, &other = nodes[b.place].part;
    if (one.depth != other.depth)
      return one.depth > other.depth;
    return one.candidate < other.candidate;
  }
  /// Puts `entry` where `hole` is or below it.
  void sink(size_t hole, Entry entry);
  std::deque<Node> nodes; ///< hundreds of thousands: never moved as it grows
  std::vector<size_t> unused; ///< places
  std::vector<Entry> heap;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_SEARCH_QUEUE_H

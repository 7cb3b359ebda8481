#include "cost_model/search/Queue.h"

#include <algorithm>

namespace shardwright::cost {

constexpr size_t kChildren = 4;

void NodeQueue::sink(size_t hole, Entry entry) {
  for (;;) {
    const size_t first = kChildren * hole + 1;
    if (first >= heap.size())
      break;
    size_t least = first;
    const size_t end = std::min(first + kChildren, heap.size());
    for (size_t child = first + 1; child < end; ++child)
      if (isBefore(heap[child], heap[least]))
        least = child;
    if (!isBefore(heap[least], entry))
      break;
    heap[hole] = heap[least];
    hole = least;
  }
  heap[hole] = entry;
}

Node NodeQueue::take() {
  const size_t place = heap.front().place;
  const Entry last = heap.back();
  heap.pop_back();
  if (!heap.empty())
    sink(0, last);
  unused.push_back(place);
  return std::move(nodes[place]);
}

void NodeQueue::push(Node node) {
  const double bound = node.bound;
  size_t place = nodes.size();
  if (unused.empty()) {
    nodes.push_back(std::move(node));
  } else {
    place = unused.back();
    unused.pop_back();
    nodes[place] = std::move(node);
  }
  const Entry entry{bound, place};
  size_t hole = heap.size();
  heap.push_back(entry);
  while (hole > 0) {
    const size_t parent = (hole - 1) / kChildren;
    if (!isBefore(entry, heap[parent]))
      break;
    heap[hole] = heap[parent];
    hole = parent;
  }
  heap[hole] = entry;
}

std::vector<const Node *> NodeQueue::inOrder() const {
  std::vector<Entry> entries = heap;
  std::sort(entries.begin(), entries.end(),
            [&](const Entry &a, const Entry &b) { return isBefore(a, b); });
  std::vector<const Node *> all;
  for (const Entry &entry : entries)
    all.push_back(&nodes[entry.place]);
  return all;
}

void NodeQueue::fill(const std::vector<Node> &all) {
  nodes.assign(all.begin(), all.end());
  heap.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    heap.push_back({nodes[i].bound, i});
  for (size_t i = heap.size(); i-- > 0;)
    sink(i, heap[i]);
}

} // namespace shardwright::cost

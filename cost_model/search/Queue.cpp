#include "cost_model/search/Queue.h"

#include <algorithm>

namespace shardwright::cost {

constexpr size_t kChildren = 4;
constexpr size_t kSome = 4096;

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

std::vector<const Node *> NodeQueue::some() const {
  const auto before = [&](const Entry &a, const Entry &b) {
    return isBefore(a, b);
  };
  std::vector<Entry> entries = heap;
  const size_t first = std::min(kSome / 2, entries.size());
  const auto rest = entries.begin() + static_cast<std::ptrdiff_t>(first);
  std::nth_element(entries.begin(), rest, entries.end(), before);
  const size_t step =
      std::max<size_t>(1, (entries.size() - first) / (kSome - first));
  size_t kept = first;
  for (size_t i = first; i < entries.size(); i += step)
    entries[kept++] = entries[i];
  entries.resize(kept);
  std::sort(entries.begin(), entries.end(), before);
  std::vector<const Node *> nodesOf;
  for (const Entry &entry : entries)
    nodesOf.push_back(&nodes[entry.place]);
  return nodesOf;
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

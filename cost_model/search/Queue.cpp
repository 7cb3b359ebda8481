#include "cost_model/search/Queue.h"

#include <algorithm>

namespace shardwright::cost {

Node NodeQueue::take() {
  std::pop_heap(heap.begin(), heap.end(), later());
  const size_t place = heap.back().place;
  heap.pop_back();
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
  heap.push_back({bound, place});
  std::push_heap(heap.begin(), heap.end(), later());
}

std::vector<const Node *> NodeQueue::inOrder() const {
  std::vector<Entry> entries = heap;
  std::sort_heap(entries.begin(), entries.end(), later());
  std::vector<const Node *> all;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
    all.push_back(&nodes[entry->place]);
  return all;
}

void NodeQueue::fill(const std::vector<Node> &all) {
  nodes.assign(all.begin(), all.end());
  heap.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    heap.push_back({nodes[i].bound, i});
  std::make_heap(heap.begin(), heap.end(), later());
}

} // namespace shardwright::cost

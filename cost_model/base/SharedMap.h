//===- SharedMap.h - What several threads compute once ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_SHAREDMAP_H
#define SHARDWRIGHT_COST_MODEL_BASE_SHAREDMAP_H

#include <array>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwright::cost {

template <size_t N> struct WordsHash {
  uint64_t operator()(const std::array<int64_t, N> &key) const {
    uint64_t hash = 1469598103934665603u; // FNV-1a by words
    for (int64_t word : key)
      hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u;
    return hash ^ hash >> 29;
  }
};

/// Values that are functions of their keys, made when first asked for. Two
/// threads may make the same value at once; one of them is kept, and as both are
/// equal nothing depends on which. References stay valid. Hundreds of thousands of
/// small values are asked for millions of times: a look touches a slot and a node,
/// and what needs no destructor is let go with its memory.
template <size_t N, typename Value> class SharedMap {
public:
  using Key = std::array<int64_t, N>;

  SharedMap() = default;
  SharedMap(const SharedMap &) = delete;
  SharedMap &operator=(const SharedMap &) = delete;
  ~SharedMap() {
    if constexpr (!std::is_trivially_destructible_v<Value>)
      for (Part &part : parts)
        for (const Slot &slot : part.slots)
          if (slot.node)
            std::destroy_at(slot.node);
  }

  template <typename Make> const Value &of(const Key &key, Make make) {
    const uint64_t hash = WordsHash<N>()(key);
    Part &part = parts[hash >> 20 & (numParts - 1)];
    {
      const std::lock_guard<std::mutex> guard(part.mutex);
      if (const Node *node = part.find(hash, key))
        return node->value;
    }
    Value value = make(); // not under the lock: it may take long, or ask again
    const std::lock_guard<std::mutex> guard(part.mutex);
    if (const Node *node = part.find(hash, key))
      return node->value;
    return part.add(hash, key, std::move(value)).value;
  }

private:
  static constexpr size_t numParts = 16;
  struct Node {
    Key key;
    Value value;
  };
  struct Slot {
    uint64_t hash = 0;
    Node *node = nullptr;
  };
  /// Open addressing with linear probing, at most half full.
  struct Part {
    std::mutex mutex;
    std::pmr::monotonic_buffer_resource memory; ///< nothing leaves a map
    std::vector<Slot> slots = std::vector<Slot>(16); ///< a power of two
    size_t count = 0;

    size_t place(uint64_t hash, const Key *key) const {
      const size_t mask = slots.size() - 1;
      size_t at = hash >> 24 & mask; // the bits below name the part
      while (slots[at].node && !(key && slots[at].hash == hash &&
                                 slots[at].node->key == *key))
        at = (at + 1) & mask;
      return at;
    }
    const Node *find(uint64_t hash, const Key &key) const {
      return slots[place(hash, &key)].node;
    }
    const Node &add(uint64_t hash, const Key &key, Value value) {
      if (2 * (count + 1) > slots.size()) {
        std::vector<Slot> old(2 * slots.size());
        old.swap(slots);
        for (const Slot &slot : old)
          if (slot.node)
            slots[place(slot.hash, nullptr)] = slot;
      }
      // Braces: Clang before 16 makes no aggregate in parentheses.
      Node *node = new (memory.allocate(sizeof(Node), alignof(Node)))
          Node{key, std::move(value)};
      slots[place(hash, nullptr)] = {hash, node};
      ++count;
      return *node;
    }
  };
  std::array<Part, numParts> parts;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_SHAREDMAP_H

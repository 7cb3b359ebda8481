//===- SharedMap.h - What several threads compute once ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_BASE_SHAREDMAP_H
#define SHARDWRIGHT_COST_MODEL_BASE_SHAREDMAP_H

#include <array>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <unordered_map>

namespace shardwright::cost {

template <size_t N> struct WordsHash {
  size_t operator()(const std::array<int64_t, N> &key) const {
    uint64_t hash = 1469598103934665603u; // FNV-1a by words
    for (int64_t word : key)
      hash = (hash ^ static_cast<uint64_t>(word)) * 1099511628211u;
    return hash ^ hash >> 29;
  }
};

/// Values that are functions of their keys, made when first asked for. Two
/// threads may make the same value at once; one of them is kept, and as both are
/// equal nothing depends on which. References stay valid.
template <size_t N, typename Value> class SharedMap {
public:
  using Key = std::array<int64_t, N>;

  template <typename Make> const Value &of(const Key &key, Make make) {
    const Hashed hashed{WordsHash<N>()(key), key};
    Part &part = parts[hashed.hash >> 20 & (numParts - 1)];
    {
      const std::lock_guard<std::mutex> guard(part.mutex);
      auto found = part.values.find(hashed);
      if (found != part.values.end())
        return found->second;
    }
    Value value = make(); // not under the lock: it may take long, or ask again
    const std::lock_guard<std::mutex> guard(part.mutex);
    return part.values.try_emplace(hashed, std::move(value)).first->second;
  }

private:
  static constexpr size_t numParts = 16;
  struct Hashed {
    size_t hash;
    Key key;
    bool operator==(const Hashed &) const = default;
  };
  struct HashOf {
    size_t operator()(const Hashed &hashed) const noexcept {
      return hashed.hash;
    }
  };
  struct Part {
    std::mutex mutex;
    std::pmr::monotonic_buffer_resource memory; ///< nothing leaves a map
    std::pmr::unordered_map<Hashed, Value, HashOf> values{&memory};
  };
  std::array<Part, numParts> parts;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_BASE_SHAREDMAP_H

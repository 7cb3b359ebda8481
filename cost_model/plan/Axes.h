//===- Axes.h - A few mesh axes in place ------------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_PLAN_AXES_H
#define SHARDWRIGHT_COST_MODEL_PLAN_AXES_H

#include <algorithm>
#include <array>
#include <cassert>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace shardwright::cost {

/// Index of an axis in Plan::mesh.
using Axis = uint8_t;

/// Most axes of a mesh: dp, cp and tp, which the boundaries of ep, etp, shards
/// and replicas cut in at most seven pieces, and pp, with room to spare.
inline constexpr size_t maxAxes = 15;

/// Axes of a mesh, each at most once, outer to inner. Like a vector, but without
/// memory of its own: what a plan decides of a layer is made of thousands.
class Axes {
public:
  using value_type = Axis;
  using iterator = Axis *;
  using const_iterator = const Axis *;

  Axes() = default;
  Axes(std::initializer_list<Axis> axes) : Axes(axes.begin(), axes.end()) {}
  Axes(const_iterator first, const_iterator last) {
    for (; first != last; ++first)
      push_back(*first);
  }

  iterator begin() { return items.data(); }
  iterator end() { return items.data() + count; }
  const_iterator begin() const { return items.data(); }
  const_iterator end() const { return items.data() + count; }
  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  Axis operator[](size_t i) const { return items[i]; }
  Axis front() const { return items[0]; }
  Axis back() const { return items[count - 1u]; }

  void push_back(Axis axis) {
    assert(count < maxAxes && "an axis is listed once");
    items[count++] = axis;
  }
  void erase(const_iterator first, const_iterator last) {
    Axis *to = items.data() + (first - items.data());
    count = static_cast<uint8_t>(std::copy(last, const_iterator(end()), to) - items.data());
  }
  void erase(const_iterator at) { erase(at, at + 1); }
  void erase(Axis axis) { erase(std::remove(begin(), end(), axis), end()); }
  void clear() { count = 0; }
  /// To fewer.
  void resize(size_t size) {
    assert(size <= count && "axes are not made up");
    count = static_cast<uint8_t>(size);
  }

  bool operator==(const Axes &other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
  auto operator<=>(const Axes &other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(),
                                                  other.end());
  }

private:
  std::array<Axis, maxAxes> items{};
  uint8_t count = 0;
};
static_assert(sizeof(Axes) == 16);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PLAN_AXES_H

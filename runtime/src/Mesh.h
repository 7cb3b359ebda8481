//===- Mesh.h - Named axes and the ranks on them ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_MESH_H
#define SHARDWRIGHT_RUNTIME_MESH_H

#include <cstdint>
#include <string>
#include <vector>

namespace shardwright::runtime {

/// Axes outer to inner; the rank is the row-major index over them. Sets of axes
/// are bit masks: bit i is axis i.
class Mesh {
public:
  struct Axis {
    std::string name;
    int64_t size;
  };

  Mesh() = default;
  explicit Mesh(std::vector<Axis> axes) : axes(std::move(axes)) {}

  const std::vector<Axis> &getAxes() const { return axes; }
  int64_t ranks() const { return degree(all()); }
  uint32_t all() const { return (uint32_t(1) << axes.size()) - 1; }
  /// Product of the sizes of the axes in `mask`.
  int64_t degree(uint32_t mask) const;
  /// Index of `rank` along the axes in `mask`, row-major over them.
  int64_t coordinate(int64_t rank, uint32_t mask) const;
  /// Ranks that differ from `rank` on the axes in `mask` only, in the order of
  /// their coordinate.
  std::vector<int> members(int64_t rank, uint32_t mask) const;
  /// Names of the axes larger than one joined by '+': "dp+tp".
  std::string name(uint32_t mask) const;
  /// "pp=2 x dp=1 x tp=4".
  std::string text() const;

private:
  std::vector<Axis> axes;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_MESH_H

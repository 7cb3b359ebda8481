//===- Mesh.cpp - Named axes and the ranks on them ------------------------===//
#include "runtime/src/Mesh.h"

namespace shardwright::runtime {

int64_t Mesh::degree(uint32_t mask) const {
  int64_t product = 1;
  for (size_t i = 0; i < axes.size(); ++i)
    if (mask >> i & 1)
      product *= axes[i].size;
  return product;
}

int64_t Mesh::coordinate(int64_t rank, uint32_t mask) const {
  int64_t index = 0, stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    int64_t along = rank % axes[i].size;
    rank /= axes[i].size;
    if (mask >> i & 1) {
      index += along * stride;
      stride *= axes[i].size;
    }
  }
  return index;
}

std::vector<int> Mesh::members(int64_t rank, uint32_t mask) const {
  std::vector<int> result;
  const uint32_t others = all() & ~mask;
  const int64_t mine = coordinate(rank, others);
  // Row-major rank order restricted to a group is its coordinate order.
  for (int64_t r = 0; r < ranks(); ++r)
    if (coordinate(r, others) == mine)
      result.push_back(static_cast<int>(r));
  return result;
}

std::string Mesh::name(uint32_t mask) const {
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(mask >> i & 1) || axes[i].size == 1)
      continue;
    if (!text.empty())
      text += '+';
    text += axes[i].name;
  }
  return text;
}

std::string Mesh::text() const {
  std::string text;
  for (const Axis &axis : axes) {
    if (!text.empty())
      text += " x ";
    text += axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

} // namespace shardwright::runtime

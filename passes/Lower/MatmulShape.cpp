//===- MatmulShape.cpp - A contraction as one matrix product --------------===//
#include "passes/Lower/MatmulShape.h"

#include <map>

namespace shardwright {

namespace {
struct Spec {
  std::string lhs, rhs, result;
  std::map<char, int64_t> sizes;

  /// Letters of `from` that are wanted, in the order of `from`.
  template <typename Wanted>
  static std::string select(const std::string &from, Wanted wanted) {
    std::string letters;
    for (char letter : from)
      if (wanted(letter))
        letters += letter;
    return letters;
  }
  int64_t product(const std::string &letters) const {
    int64_t size = 1;
    for (char letter : letters)
      size *= sizes.at(letter);
    return size;
  }
};
} // namespace

static bool has(const std::string &letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// Splits the spec and drops letters of extent 1, which move nothing.
static bool parse(std::string_view text, std::span<const int64_t> lhs,
                  std::span<const int64_t> rhs, Spec &spec) {
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string_view::npos || arrow == std::string_view::npos ||
      comma != lhs.size() || arrow - comma - 1 != rhs.size())
    return false;
  const std::string_view left = text.substr(0, comma),
                         right = text.substr(comma + 1, arrow - comma - 1),
                         result = text.substr(arrow + 2);
  for (size_t i = 0; i < lhs.size(); ++i)
    spec.sizes[left[i]] = lhs[i];
  for (size_t i = 0; i < rhs.size(); ++i)
    spec.sizes[right[i]] = rhs[i];
  auto large = [&](char letter) {
    auto found = spec.sizes.find(letter);
    return found == spec.sizes.end() || found->second != 1;
  };
  spec.lhs = Spec::select(std::string(left), large);
  spec.rhs = Spec::select(std::string(right), large);
  spec.result = Spec::select(std::string(result), large);
  return true;
}

bool matmulShape(std::string_view text, std::span<const int64_t> lhs,
                 std::span<const int64_t> rhs, MatmulShape &shape,
                 std::string &why) {
  Spec spec;
  if (!parse(text, lhs, rhs, spec)) {
    why = "expected a spec with one letter per dim of the operands";
    return false;
  }
  for (char letter : spec.result)
    if (has(spec.lhs, letter) == has(spec.rhs, letter)) {
      why = std::string("expected each letter of the result in one operand, "
                        "but '") +
            letter + "' is in " + (has(spec.lhs, letter) ? "both" : "none");
      return false;
    }
  const std::string own = Spec::select(
      spec.result, [&](char letter) { return has(spec.lhs, letter); });
  const std::string other = Spec::select(
      spec.result, [&](char letter) { return has(spec.rhs, letter); });
  const std::string summed = Spec::select(
      spec.lhs, [&](char letter) { return !has(spec.result, letter); });

  // Which operand comes first in the result is `a`.
  MatmulShape found;
  found.swapped = spec.result != own + other;
  if (found.swapped && spec.result != other + own) {
    why = "expected the result '" + spec.result + "' to be '" + own + other +
          "' or '" + other + own + "'";
    return false;
  }
  const std::string &rows = found.swapped ? other : own;
  const std::string &columns = found.swapped ? own : other;
  const std::string &a = found.swapped ? spec.rhs : spec.lhs;
  const std::string &b = found.swapped ? spec.lhs : spec.rhs;
  // A block may be empty, then both orders are the same.
  found.transposeA = a != rows + summed;
  found.transposeB = b != summed + columns;
  if ((found.transposeA && a != summed + rows) ||
      (found.transposeB && b != columns + summed)) {
    why = "expected the operands to hold '" + own + "', '" + summed +
          "' and '" + other + "' each in one block, but got '" + spec.lhs +
          "' and '" + spec.rhs + "'";
    return false;
  }
  found.m = spec.product(rows);
  found.n = spec.product(columns);
  found.k = spec.product(summed);
  shape = found;
  return true;
}

} // namespace shardwright

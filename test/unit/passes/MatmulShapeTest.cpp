//===- MatmulShapeTest.cpp - Contractions as matrix products --------------===//
//
// The reference walks the whole iteration space of the contraction; the shape
// under test is executed as sw_rt_matmul documents it. Both must agree on every
// arrangement of letters that is accepted, and what is refused must be what
// moves data.
//
//===----------------------------------------------------------------------===//
#include "passes/Lower/MatmulShape.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <vector>

using namespace shardwright;

namespace {

using Sizes = std::map<char, int64_t>;
const Sizes kSizes = {{'s', 2}, {'b', 3}, {'n', 4}, {'d', 5}, {'h', 6},
                      {'f', 7}};

std::vector<int64_t> shapeOf(const std::string &letters, const Sizes &sizes) {
  std::vector<int64_t> shape;
  for (char letter : letters)
    shape.push_back(sizes.at(letter));
  return shape;
}

int64_t elements(const std::string &letters, const Sizes &sizes) {
  int64_t count = 1;
  for (char letter : letters)
    count *= sizes.at(letter);
  return count;
}

/// Integers, so that any order of summation gives the same.
std::vector<double> values(int64_t count, int64_t seed) {
  std::vector<double> result(count);
  for (int64_t i = 0; i < count; ++i)
    result[i] = static_cast<double>((i * 7919 + seed * 104729) % 23 - 11);
  return result;
}

int64_t offset(const std::string &letters, const Sizes &sizes,
               const std::map<char, int64_t> &point) {
  int64_t index = 0;
  for (char letter : letters)
    index = index * sizes.at(letter) + point.at(letter);
  return index;
}

std::vector<double> einsum(const std::string &lhs, const std::string &rhs,
                           const std::string &result, const Sizes &sizes) {
  const auto a = values(elements(lhs, sizes), 1);
  const auto b = values(elements(rhs, sizes), 2);
  std::vector<double> c(elements(result, sizes));
  std::string all = lhs;
  for (char letter : rhs)
    if (all.find(letter) == std::string::npos)
      all += letter;
  for (int64_t i = 0; i < elements(all, sizes); ++i) {
    std::map<char, int64_t> point;
    int64_t rest = i;
    for (char letter : all) {
      point[letter] = rest % sizes.at(letter);
      rest /= sizes.at(letter);
    }
    c[offset(result, sizes, point)] +=
        a[offset(lhs, sizes, point)] * b[offset(rhs, sizes, point)];
  }
  return c;
}

std::vector<double> matmul(const MatmulShape &shape, const std::string &lhs,
                           const std::string &rhs, const Sizes &sizes) {
  auto a = values(elements(lhs, sizes), 1);
  auto b = values(elements(rhs, sizes), 2);
  if (shape.swapped)
    std::swap(a, b);
  std::vector<double> c(shape.m * shape.n);
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j)
      for (int64_t k = 0; k < shape.k; ++k)
        c[i * shape.n + j] +=
            a[shape.transposeA ? k * shape.m + i : i * shape.k + k] *
            b[shape.transposeB ? j * shape.k + k : k * shape.n + j];
  return c;
}

/// Accepted, and then equal to the reference.
bool accepts(const std::string &lhs, const std::string &rhs,
             const std::string &result, const Sizes &sizes = kSizes) {
  MatmulShape shape;
  std::string why;
  const std::string spec = lhs + "," + rhs + "->" + result;
  INFO(spec);
  const bool accepted = matmulShape(spec, shapeOf(lhs, sizes),
                                    shapeOf(rhs, sizes), shape, why);
  if (accepted)
    CHECK(matmul(shape, lhs, rhs, sizes) == einsum(lhs, rhs, result, sizes));
  else
    CHECK_FALSE(why.empty());
  return accepted;
}

std::vector<std::string> permutations(std::string letters) {
  std::sort(letters.begin(), letters.end());
  std::vector<std::string> result;
  do
    result.push_back(letters);
  while (std::next_permutation(letters.begin(), letters.end()));
  return result;
}

bool adjacent(const std::string &letters, const std::string &block) {
  return letters.find(block) != std::string::npos;
}

} // namespace

TEST_CASE("every arrangement of a contraction is right or refused") {
  // Own letters sb and nd, contracted h. A matrix product is exactly what keeps
  // the blocks sb and nd together in one order everywhere, for some order.
  int accepted = 0;
  for (const std::string &lhs : permutations("sbh"))
    for (const std::string &rhs : permutations("ndh"))
      for (const std::string &result : permutations("sbnd")) {
        bool expected = false;
        for (const char *rows : {"sb", "bs"})
          for (const char *columns : {"nd", "dn"})
            expected |= adjacent(lhs, rows) && adjacent(rhs, columns) &&
                        adjacent(result, rows) && adjacent(result, columns);
        CHECK(accepts(lhs, rhs, result) == expected);
        accepted += expected;
      }
  CHECK(accepted == 4 * 2 * 2 * 2); // orders of sb and nd; places of three
}

TEST_CASE("the contracted letters may be several, in one order") {
  CHECK(accepts("sbnd", "hnd", "sbh"));
  CHECK(accepts("sbnd", "ndh", "sbh"));
  CHECK(accepts("sbnd", "sbh", "ndh")); // gradient of a weight
  CHECK_FALSE(accepts("sbnd", "hdn", "sbh"));
  CHECK_FALSE(accepts("nsbd", "hnd", "sbh"));
}

TEST_CASE("letters of extent 1 may stand anywhere") {
  Sizes sizes = kSizes;
  sizes['b'] = 1;
  CHECK(accepts("bsh", "fh", "sfb", sizes));
  sizes['s'] = 1;
  CHECK(accepts("bsh", "fh", "sfb", sizes)); // a matrix times a vector
  sizes['h'] = 1;
  CHECK(accepts("sbh", "hf", "sbf", sizes));
}

TEST_CASE("what is no contraction of two tensors is refused") {
  CHECK_FALSE(accepts("sbh", "sh", "sb")); // s is in both and in the result
  MatmulShape shape;
  std::string why;
  const std::vector<int64_t> two = {2, 3};
  CHECK_FALSE(matmulShape("sb", two, two, shape, why));
  CHECK_FALSE(matmulShape("sb,bh", two, two, shape, why));
  CHECK_FALSE(matmulShape("sbh,hf->sbf", two, two, shape, why));
}

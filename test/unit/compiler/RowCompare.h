//===- RowCompare.h - Row programs against plain loops ----------*- C++ -*-===//
//
// The references are plain f64 loops over the formulas of RowProgram.h. f64
// kernels must agree to 1e-12 of the largest element (sums are reassociated,
// libmvec is good to 4 ulp), f32 kernels to 1e-5, what is stored as bf16 to 2^-8.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_ROWCOMPARE_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_ROWCOMPARE_H

#include "RowRun.h"

#include <functional>

namespace shardwright::codegen {

/// Awkward sizes: one element, less than a vector, vectors with a remainder,
/// row counts that are no multiple of the four rows that sums take together.
struct Size {
  int64_t outer, inner, width;
};
/// The last: many blocks of a GPU, sums over rows in parts.
inline constexpr Size kSizes[] = {
    {1, 1, 1}, {3, 2, 7}, {5, 3, 65}, {2, 4, 132}, {67, 2, 300}};
inline constexpr Element kElements[] = {Element::F64, Element::F32};

/// Runs `body(element, size, rows)` for every size in f64 and f32.
template <typename Body> void forSizes(Body body) {
  for (Element element : kElements)
    for (Size size : kSizes)
      body(element, size, size.outer * size.inner);
}

/// Drawn numbers that are exact in f32.
std::vector<double> randoms(size_t count, unsigned seed, double low = -2,
                            double high = 2);

/// A program of one op whose buffers are its operands, then its results.
RowRun oneOp(Element element, Size size, RowOp op,
             const std::vector<int64_t> &bufferElements);

/// To bf16, ties to even, by the value: the spacing of numbers of x's exponent.
double toBf16(double x);

/// Runs the program, its units in ranges, and its device code, and compares
/// every buffer with what `reference` makes of the inputs. If it is in f32, with
/// all buffers in bf16 too.
void compare(const RowRun &run,
             const std::function<void(Buffers &)> &reference);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_ROWCOMPARE_H

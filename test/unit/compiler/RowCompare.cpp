//===- RowCompare.cpp - Row programs against plain loops ------------------===//
#include "RowCompare.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <random>

namespace shardwright::codegen {

std::vector<double> randoms(size_t count, unsigned seed, double low, double high) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> result(count);
  for (double &value : result)
    value = static_cast<float>(draw(engine)); // exact in f32 and f64
  return result;
}

RowRun oneOp(Element element, Size size, RowOp op,
             const std::vector<int64_t> &bufferElements) {
  RowRun run;
  run.program = {"kernel", element, size.outer, size.inner,
                 static_cast<int>(bufferElements.size()),
                 {}};
  op.width = size.width;
  run.program.ops.push_back(op);
  for (size_t i = 0; i < bufferElements.size(); ++i)
    run.buffers.push_back(
        randoms(bufferElements[i], static_cast<unsigned>(i + 1)));
  return run;
}

/// Compares every buffer with what a reference made of the inputs. What is
/// stored as bf16 was rounded once or, in a group of ops, some times.
static void compareBuffers(const RowRun &run, const Buffers &expected,
                    const Buffers &actual) {
  for (size_t b = 0; b < expected.size(); ++b) {
    if (run.labels.count(static_cast<int>(b)))
      continue;
    const bool isNarrow =
        run.program.stored(static_cast<int>(b)) == Element::BF16;
    const double tolerance = isNarrow ? 0x1p-8
                             : run.program.element == Element::F64 ? 1e-12
                                                                   : 1e-5;
    double largest = 1e-3;
    for (double value : expected[b])
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    REQUIRE(actual[b].size() == expected[b].size());
    size_t worst = 0, unequal = 0;
    double distance = 0;
    for (size_t i = 0; i < expected[b].size(); ++i) {
      const double here = std::isfinite(expected[b][i])
                              ? std::fabs(actual[b][i] - expected[b][i])
                          : actual[b][i] == expected[b][i] ? 0
                                                           : INFINITY;
      unequal += !(here <= tolerance * largest); // NaN too
      if (!(here <= distance)) {
        worst = i;
        distance = here;
      }
    }
    INFO("buffer " << b << " of outer " << run.program.outer << " inner "
                   << run.program.inner << " width "
                   << run.program.ops[0].width << ": worst at " << worst
                   << ", " << actual[b][worst] << " for "
                   << expected[b][worst]);
    REQUIRE(unequal == 0);
  }
}

static void compareAll(const RowRun &run,
                       const std::function<void(Buffers &)> &reference) {
  Buffers expected = run.buffers;
  reference(expected);
  for (const RowResult &result : runAll(run)) {
    INFO(result.how);
    compareBuffers(run, expected, result.buffers);
  }
}

double toBf16(double x) {
  if (x == 0 || !std::isfinite(x))
    return x;
  const double spacing = std::ldexp(1, std::ilogb(x) - 7);
  return std::nearbyint(x / spacing) * spacing;
}

void compare(const RowRun &run,
             const std::function<void(Buffers &)> &reference) {
  compareAll(run, reference);
  if (run.program.element != Element::F32 || !run.program.storage.empty())
    return;
  RowRun narrow = run;
  narrow.program.storage.assign(run.program.buffers, Element::BF16);
  for (std::vector<double> &buffer : narrow.buffers)
    for (double &value : buffer)
      value = toBf16(value);
  compareAll(narrow, reference);
}

} // namespace shardwright::codegen

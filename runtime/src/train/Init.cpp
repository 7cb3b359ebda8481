//===- Init.cpp - Initial parameters --------------------------------------===//
#include "runtime/src/train/Init.h"
#include "runtime/src/train/Philox.h"

#include <cstring>

namespace shardwright::runtime {
namespace {

enum InitKind : int32_t { Zeros = 0, Ones = 1, Normal = 2 };

template <typename T>
void fill(const Stage &stage, uint64_t seed, T *parameters) {
  std::memset(parameters, 0,
              static_cast<size_t>(stage.tables.arena.elements) * sizeof(T));
  stage.forEachParameter([&](const ParameterView &view) {
    if (view.parameter->init == Zeros)
      return;
    T *target = parameters + view.blockElements + view.parameter->offset;
    const NamedRandom random(seed, view.name());
    stage.forEachLine(view, {0, view.localElements()},
                      [&](const Stage::Line &line) {
                        for (int64_t i = 0; i < line.count; ++i) {
                          const uint64_t hf =
                              static_cast<uint64_t>(line.hf + i * line.stride);
                          target[line.local + i] =
                              view.parameter->init == Ones
                                  ? T(1)
                                  : static_cast<T>(view.parameter->init_scale *
                                                   random.normal(hf));
                        }
                      });
  });
}

} // namespace

void initParameters(const Stage &stage, uint64_t seed, sw_rt_dtype dtype,
                    void *parameters) {
  if (dtype == SW_RT_F64)
    fill(stage, seed, static_cast<double *>(parameters));
  else
    fill(stage, seed, static_cast<float *>(parameters));
}

} // namespace shardwright::runtime

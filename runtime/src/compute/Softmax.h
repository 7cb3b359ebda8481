//===- Softmax.h - Row arithmetic of tiled attention ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_SOFTMAX_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_SOFTMAX_H

#include <cstdint>

namespace shardwright::runtime {

/// One row of a tile of scores, of which the first `valid` of `width` columns
/// count: folds it into the running maximum and sum and replaces it by
/// exp(score - maximum), zeros past `valid`. Returns the factor by which what
/// was summed before must be multiplied.
float softmaxRow(float *row, int64_t valid, int64_t width, float &maximum,
                 float &sum);
double softmaxRow(double *row, int64_t valid, int64_t width, double &maximum,
                  double &sum);

/// One row of a tile in the backward pass: on entry `scores` holds scores and
/// `dp` the products of dO and V; on return scores = exp(score - lse) and
/// dp = scores * (dp - delta), zeros past `valid`.
void softmaxGradRow(float *scores, float *dp, int64_t valid, int64_t width,
                    float lse, float delta);
void softmaxGradRow(double *scores, double *dp, int64_t valid, int64_t width,
                    double lse, double delta);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_SOFTMAX_H

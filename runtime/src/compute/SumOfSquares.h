//===- SumOfSquares.h - Squared norm of a range -----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_SUMOFSQUARES_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_SUMOFSQUARES_H

#include "runtime/src/compute/WorkerPool.h"

namespace shardwright::runtime {

/// In double. The order of additions depends on `count` alone. 16 bits: bf16.
double sumOfSquares(WorkerPool &pool, const float *values, int64_t count);
double sumOfSquares(WorkerPool &pool, const double *values, int64_t count);
double sumOfSquares(WorkerPool &pool, const uint16_t *values, int64_t count);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_SUMOFSQUARES_H

//===- RowRun.h - Runs a row program in this process ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COMPILER_ROWRUN_H
#define SHARDWRIGHT_TEST_UNIT_COMPILER_ROWRUN_H

#include "compiler/Codegen/RowProgram.h"

#include <map>
#include <string>
#include <vector>

namespace shardwright::codegen {

using Buffers = std::vector<std::vector<double>>;

struct RowRun {
  RowProgram program;
  Buffers buffers; ///< contents before; empty where `labels` has the number
  std::map<int, std::vector<int32_t>> labels;
  int64_t positionOrigin = 0, columnOrigin = 0;
};

/// A way of running a program, and what it gave.
struct RowResult {
  const char *how;
  Buffers buffers;
};
/// Runs a program in every way that this test has: on the host whole and in
/// ranges, and its device code, which must give the same bits with threads in
/// any order; or on a GPU (test/device). None if there is no way.
std::vector<RowResult> runAll(const RowRun &run);
/// As runAll, of the AdamW update of buffers master, m, v, grad, param.
std::vector<RowResult> runUpdates(const UpdateTypes &types,
                                  const Buffers &buffers,
                                  const std::vector<double> &scalars);

/// Compiles the program as executables are compiled (O3, object file), links
/// it into this process and runs it. Returns the buffers afterwards, converted
/// to double; throws if memory around a buffer was touched.
Buffers execute(const RowRun &run);

/// As execute, but in ranges of `grain` units, the last one first.
Buffers executeInRanges(const RowRun &run, int64_t grain);

/// Text of the optimized LLVM IR of a program.
std::string optimizedText(const RowProgram &program);

/// AdamW update of buffers master, m, v, grad, param.
Buffers executeUpdate(const UpdateTypes &types, const Buffers &buffers,
                      const std::vector<double> &scalars);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_TEST_UNIT_COMPILER_ROWRUN_H

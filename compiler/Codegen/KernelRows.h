//===- KernelRows.h - rt.kernel to a row program ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_KERNELROWS_H
#define SHARDWRIGHT_COMPILER_CODEGEN_KERNELROWS_H

#include "compiler/Codegen/RowProgram.h"

#include "dialects/Rt/IR/RtOps.h"

namespace shardwright::codegen {

/// A coordinate of this rank times `extent`: where a factor starts here.
struct Origin {
  mlir::ArrayAttr axes; ///< null: 0
  int64_t extent = 0;
};

struct KernelRows {
  RowProgram program;
  Origin position; ///< of the rows
  Origin column;   ///< of the logits
};

/// Reads a kernel: buffers are its arguments, then its results. Emits an error
/// at the op that has no row form.
mlir::FailureOr<KernelRows> readKernel(rt::KernelOp kernel);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_KERNELROWS_H

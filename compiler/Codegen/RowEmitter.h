//===- RowEmitter.h - Row programs to LLVM IR -------------------*- C++ -*-===//
//
// Map, reduce along the row, map. The formulas of the ops (Row*.cpp) are
// written once over RowTarget; HostRows.cpp makes functions of the host of
// them, DeviceRows.cpp kernels of a GPU. Everything may be contracted to fused
// multiply-adds.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_ROWEMITTER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_ROWEMITTER_H

#include "compiler/Codegen/RowProgram.h"

#include "llvm/IR/Module.h"

namespace shardwright::codegen {

/// Adds to `module` the function
///   void name(ptr buffer0, ..., i64 position_origin, i64 column_origin)
/// Buffers must not overlap. Position of row `row` is position_origin +
/// row / inner; column c of a row of logits is column_origin + c of the whole.
llvm::Function *emitRowProgram(const RowProgram &program, llvm::Module &module);

/// Parts of a program that are independent: positions, or columns of a sum over
/// rows. The grain depends on shapes alone, so bits do not depend on the number
/// of threads.
struct RowUnits {
  int64_t extent = 0; ///< 0: the program is not to be cut
  int64_t grain = 0;  ///< units that are worth a thread
  bool areWorthThreads() const { return extent > grain; }
};
RowUnits rowUnits(const RowProgram &program);

/// Adds to `module` an sw_rt_range of shardwright_rt.h that does units
/// [first, last) of the program. `arguments` points to what emitRowProgram's
/// function takes.
llvm::Function *emitRowRange(const RowProgram &program, llvm::Module &module);

/// Adds the AdamW update of a bucket, as sw_rt_update of
/// shardwright_program.h.
llvm::Function *emitUpdate(const UpdateTypes &types, const std::string &name,
                           llvm::Module &module);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_ROWEMITTER_H

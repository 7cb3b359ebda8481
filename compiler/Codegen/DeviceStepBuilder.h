//===- DeviceStepBuilder.h - One kernel entry under construction -*- C++ -*-==//
//
// Private to compiler/Codegen/Device*.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_DEVICESTEPBUILDER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_DEVICESTEPBUILDER_H

#include "compiler/Codegen/DeviceRows.h"
#include "compiler/Codegen/DeviceTarget.h"
#include "compiler/Codegen/RowContext.h"

namespace shardwright::codegen {

/// `name` as a PTX identifier.
std::string entryName(llvm::StringRef name);

/// Adds an entry with an empty block to `module`, for blocks of `threads`.
/// Addresses among its parameters do not overlap.
llvm::Function *addEntry(llvm::Module &module, const std::string &name,
                         llvm::ArrayRef<llvm::Type *> parameters,
                         int64_t threads);

/// A step of a program: its function, and what its body is emitted with.
/// finish() ends it.
class DeviceStepBuilder {
public:
  DeviceStepBuilder(const RowProgram &program, DeviceKernel &kernel,
                    llvm::Module &module, int64_t grid, int64_t threads);
  void finish();

private:
  const RowProgram &program;
  llvm::Function *function;

public:
  llvm::IRBuilder<> b;
  DeviceTarget target;
  RowContext context;
  /// Scratch memory, of the arithmetic type.
  Place scratch() {
    return {function->getArg(program.buffers), program.element};
  }
};

/// The steps of op `op`, which sums over rows.
void emitDeviceSum(const RowProgram &program, const RowOp &op,
                   DeviceKernel &kernel, llvm::Module &module);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_DEVICESTEPBUILDER_H

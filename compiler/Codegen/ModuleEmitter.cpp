//===- ModuleEmitter.cpp - A lowered module to LLVM IR --------------------===//
#include "compiler/Codegen/ModuleEmitter.h"

#include "compiler/Codegen/FunctionEmitter.h"
#include "compiler/Codegen/RowEmitter.h"

namespace shardwright::codegen {

static Element elementOf(int32_t dtype) {
  switch (dtype) {
  case SW_RT_F64:
    return Element::F64;
  case SW_RT_BF16:
    return Element::BF16;
  default:
    assert(dtype == SW_RT_F32 && "the driver refuses other dtypes");
    return Element::F32;
  }
}

mlir::LogicalResult emitModule(mlir::ModuleOp source, llvm::Module &target) {
  mlir::FailureOr<ProgramTable> table = readProgramTable(source);
  auto mesh = source->getAttrOfType<plan::MeshAttr>(plan::kMeshAttr);
  if (mlir::failed(table))
    return mlir::failure();
  if (!mesh)
    return source.emitOpError("expected 'plan.mesh'");

  EmittedKernels kernels;
  for (auto kernel : source.getOps<rt::KernelOp>()) {
    mlir::FailureOr<KernelRows> rows = readKernel(kernel);
    if (mlir::failed(rows))
      return mlir::failure();
    const RowProgram &program = rows->program;
    const RowUnits units = rowUnits(program);
    kernels[kernel.getSymName().str()] = {
        units.areWorthThreads() ? emitRowRange(program, target)
                                : emitRowProgram(program, target),
        units, static_cast<size_t>(program.buffers), rows->position,
        rows->column};
  }
  for (auto function : source.getOps<rt::FuncOp>())
    if (mlir::failed(
            FunctionEmitter(function, mesh, kernels, target).run()))
      return mlir::failure();
  const sw_rt_program &rest = table->rest;
  emitUpdate({elementOf(rest.master_dtype), elementOf(rest.grad_dtype),
              elementOf(rest.param_dtype)},
             table->update, target);
  emitProgramTables(*table, target);
  return mlir::success();
}

} // namespace shardwright::codegen

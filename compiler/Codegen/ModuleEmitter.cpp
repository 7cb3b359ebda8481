//===- ModuleEmitter.cpp - A lowered module to LLVM IR --------------------===//
#include "compiler/Codegen/ModuleEmitter.h"

#include "compiler/Codegen/AttentionShapes.h"
#include "compiler/Codegen/FunctionEmitter.h"
#include "compiler/Codegen/Object.h"
#include "compiler/Codegen/RowEmitter.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"

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

namespace {

/// What a module computes by generated code.
struct Generated {
  std::vector<KernelRows> kernels;
  ProgramTable table;
  UpdateTypes updateTypes;
};

} // namespace

static mlir::FailureOr<Generated> readGenerated(mlir::ModuleOp source) {
  Generated result;
  mlir::FailureOr<ProgramTable> table = readProgramTable(source);
  if (mlir::failed(table))
    return mlir::failure();
  result.table = std::move(*table);
  const sw_rt_program &rest = result.table.rest;
  result.updateTypes = {elementOf(rest.master_dtype),
                        elementOf(rest.grad_dtype),
                        elementOf(rest.param_dtype)};
  for (auto kernel : source.getOps<rt::KernelOp>()) {
    mlir::FailureOr<KernelRows> rows = readKernel(kernel);
    if (mlir::failed(rows))
      return mlir::failure();
    result.kernels.push_back(std::move(*rows));
  }
  return result;
}

/// Adds the entries of kernels and update; describes them in `table`.
static void emitEntries(const Generated &generated, llvm::Module &device,
                        DeviceCodeTable &table) {
  table.kernels.clear();
  for (const KernelRows &rows : generated.kernels)
    table.kernels.push_back(emitDeviceKernel(rows.program, device));
  table.update = emitDeviceUpdate(generated.updateTypes,
                                  generated.table.update, device);
}

mlir::FailureOr<DeviceCodeTable> emitDeviceEntries(mlir::ModuleOp source,
                                                   llvm::Module &device) {
  mlir::FailureOr<Generated> generated = readGenerated(source);
  if (mlir::failed(generated))
    return mlir::failure();
  DeviceCodeTable table;
  emitEntries(*generated, device, table);
  return table;
}

/// PTX for one GPU; describes it in `table`.
static bool emitPtx(const Generated &generated, const GpuArch &arch,
                    DeviceCodeTable &table, std::string &ptx,
                    cost::Failure &failure) {
  auto machine = makeGpuMachine(arch, failure);
  if (!machine)
    return false;
  llvm::LLVMContext context;
  llvm::Module device("shardwright", context);
  setTarget(device, *machine);
  emitEntries(generated, device, table);
  std::string invalid;
  llvm::raw_string_ostream stream(invalid);
  if (llvm::verifyModule(device, &stream)) {
    cost::refuse(failure, cost::Diag::internal_error,
                 "invalid device code: " + invalid);
    return false;
  }
  optimizeDevice(device, *machine);
  return emitPtx(device, *machine, ptx, failure);
}

mlir::FailureOr<std::string> emitDevicePtx(mlir::ModuleOp source,
                                           const GpuArch &arch,
                                           cost::Failure &failure) {
  mlir::FailureOr<Generated> generated = readGenerated(source);
  DeviceCodeTable table;
  std::string ptx;
  if (mlir::failed(generated) ||
      !emitPtx(*generated, arch, table, ptx, failure))
    return mlir::failure();
  return ptx;
}

static void emitHostKernels(const Generated &generated, llvm::Module &target,
                            EmittedKernels &kernels) {
  for (const KernelRows &rows : generated.kernels) {
    const RowProgram &program = rows.program;
    const RowUnits units = rowUnits(program);
    EmittedKernel &kernel = kernels[program.name];
    kernel.function = units.areWorthThreads() ? emitRowRange(program, target)
                                              : emitRowProgram(program, target);
    kernel.units = units;
  }
}

mlir::LogicalResult emitModule(mlir::ModuleOp source, llvm::Module &target,
                               llvm::ArrayRef<GpuArch> archs,
                               cost::Failure &failure) {
  mlir::FailureOr<Generated> generated = readGenerated(source);
  auto mesh = source->getAttrOfType<plan::MeshAttr>(plan::kMeshAttr);
  if (mlir::failed(generated))
    return mlir::failure();
  if (!mesh)
    return source.emitOpError("expected 'plan.mesh'");

  ProgramTable &table = generated->table;
  EmittedKernels kernels;
  if (archs.empty()) {
    emitHostKernels(*generated, target, kernels);
    emitUpdate(generated->updateTypes, table.update, target);
  } else {
    DeviceCodeTable device;
    for (const GpuArch &arch : archs) {
      DeviceImage &image = device.images.emplace_back();
      image.capability = arch.capability;
      if (!emitPtx(*generated, arch, device, image.ptx, failure))
        return mlir::failure();
    }
    device.attentions = emitAttentionUses(source, mesh, target);
    EmittedDeviceCode emitted = emitDeviceTables(device, target);
    for (auto [rows, address] : llvm::zip(generated->kernels, emitted.kernels))
      kernels[rows.program.name].device = address;
    table.deviceCode = emitted.code;
    table.update.clear();
  }
  for (const KernelRows &rows : generated->kernels) {
    EmittedKernel &kernel = kernels[rows.program.name];
    kernel.buffers = static_cast<size_t>(rows.program.buffers);
    kernel.position = rows.position;
    kernel.column = rows.column;
  }
  for (auto function : source.getOps<rt::FuncOp>())
    if (mlir::failed(FunctionEmitter(function, mesh, kernels, target).run()))
      return mlir::failure();
  emitProgramTables(table, target);
  return mlir::success();
}

} // namespace shardwright::codegen

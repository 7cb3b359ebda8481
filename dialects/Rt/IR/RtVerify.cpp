//===- RtVerify.cpp - Verifiers of the rt dialect -------------------------===//
#include "dialects/Rt/IR/RtOps.h"

using namespace mlir;
using namespace shardwright;
using namespace shardwright::rt;

LogicalResult AddrAttr::verify(llvm::function_ref<InFlightDiagnostic()> error,
                               rt::Base, int64_t offset) {
  if (offset < 0) // addr_c1
    return error() << "expected the offset to be at least 0, but got "
                   << offset;
  return success();
}

LogicalResult MatmulOp::verify() {
  for (int64_t size : {getM(), getN(), getK()})
    if (size < 1) // rt_matmul_c1
      return emitOpError() << "expected sizes to be at least 1, but got "
                           << size;
  return success();
}

static LogicalResult verifyAttention(Operation *op, ArrayRef<int64_t> shape) {
  if (shape.size() != 6) // rt_attention_c1
    return op->emitOpError()
           << "expected shape to be [s, t, b, n, g, d], but got "
           << shape.size() << " sizes";
  for (int64_t size : shape)
    if (size < 1) // rt_attention_c2
      return op->emitOpError()
             << "expected sizes to be at least 1, but got " << size;
  return success();
}
LogicalResult AttentionFwdOp::verify() {
  return verifyAttention(*this, getShape());
}
LogicalResult AttentionBwdOp::verify() {
  return verifyAttention(*this, getShape());
}

static LogicalResult verifyCollective(Operation *op, ArrayAttr axes,
                                      int64_t count) {
  if (axes.empty()) // rt_collective_c1
    return op->emitOpError() << "expected at least one axis, but got none";
  if (count < 1) // rt_collective_c2
    return op->emitOpError()
           << "expected count to be at least 1, but got " << count;
  return success();
}
LogicalResult AllReduceOp::verify() {
  return verifyCollective(*this, getAxes(), getCount());
}
LogicalResult AllGatherOp::verify() {
  return verifyCollective(*this, getAxes(), getCount());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyCollective(*this, getAxes(), getCount());
}

LogicalResult SliceOp::verify() {
  if (getPartBytes() < 1 || getStrideBytes() < getPartBytes()) // slice_c1
    return emitOpError() << "expected 1 <= part <= stride (" << getStrideBytes()
                         << "), but got " << getPartBytes();
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel) // launch_c1
    return emitOpError() << "expected '@" << getKernel()
                         << "' to be a kernel of the module, but found none";
  FunctionType type = kernel.getFunctionType();
  if (getInputs().size() != type.getNumInputs() ||
      getOutputs().size() != type.getNumResults()) // launch_c2
    return emitOpError() << "expected " << type.getNumInputs() << " inputs and "
                         << type.getNumResults() << " outputs as '@"
                         << getKernel() << "' has, but got "
                         << getInputs().size() << " and "
                         << getOutputs().size();
  return success();
}

LogicalResult YieldOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (TypeRange(getOperandTypes()) !=
      TypeRange(kernel.getFunctionType().getResults())) // yield_c1
    return emitOpError() << "expected operands to have the result types of '@"
                         << kernel.getSymName() << "'";
  return success();
}

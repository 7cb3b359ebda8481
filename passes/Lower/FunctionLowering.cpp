//===- FunctionLowering.cpp - One kind to runtime calls -------------------===//
#include "passes/Lower/FunctionLowering.h"

#include "passes/Schedule/Passes.h"

using namespace mlir;

namespace shardwright {

using spmd::kAddressAttr;

LogicalResult FunctionLowering::collectAddresses() {
  for (auto [index, argument] : llvm::enumerate(kind.getArguments())) {
    auto place = kind.getArgAttrOfType<rt::AddrAttr>(index, kAddressAttr);
    if (!place)
      return kind.emitOpError()
             << "expected '" << kAddressAttr << "' on argument " << index;
    addresses[argument] = place;
  }
  for (Operation &op : kind.getBody().front().without_terminator()) {
    auto places = op.getAttrOfType<ArrayAttr>(kAddressAttr);
    if (!places || places.size() != op.getNumResults())
      return op.emitOpError() << "expected '" << kAddressAttr << "' with "
                              << op.getNumResults() << " addresses";
    for (auto [value, place] : llvm::zip(op.getResults(), places))
      addresses[value] = cast<rt::AddrAttr>(place);
  }
  return success();
}

bool FunctionLowering::accumulates(rt::AddrAttr address) {
  switch (address.getBase()) {
  case rt::Base::Grads:
  case rt::Base::SharedGrads:
  case rt::Base::Loss:
    return true;
  case rt::Base::Params:
  case rt::Base::SharedParams:
  case rt::Base::StreamIn:
  case rt::Base::StreamOut:
  case rt::Base::GradIn:
  case rt::Base::GradOut:
  case rt::Base::Saved:
  case rt::Base::Workspace:
  case rt::Base::Tokens:
  case rt::Base::Labels:
    return false;
  }
  return false;
}

LogicalResult FunctionLowering::overwrites(Operation *op) {
  for (Value result : op->getResults())
    if (accumulates(address(result)))
      return op->emitOpError()
             << "expected a result that is overwritten, but its address "
             << address(result) << " is accumulated";
  return success();
}

LogicalResult FunctionLowering::run(OpBuilder &moduleBuilder) {
  if (failed(collectAddresses()))
    return failure();
  auto function = rt::FuncOp::create(moduleBuilder, kind.getLoc(),
                                     kind.getSymNameAttr());
  builder.setInsertionPointToStart(&function.getBody().emplaceBlock());

  Block &body = kind.getBody().front();
  for (auto it = body.begin(); it != body.end();) {
    Operation *op = &*it++;
    if (!isRowOp(op)) {
      if (failed(lower(op)))
        return failure();
      continue;
    }
    SmallVector<Operation *> group = {op};
    Attribute number = op->getAttr(kFusionGroupAttr);
    while (number && it != body.end() && isRowOp(&*it) &&
           it->getAttr(kFusionGroupAttr) == number)
      group.push_back(&*it++);
    if (failed(lowerKernel(group)))
      return failure();
  }
  return success();
}

LogicalResult FunctionLowering::lower(Operation *op) {
  if (auto contract = dyn_cast<model::ContractOp>(op))
    return lowerContract(contract);
  if (auto attention = dyn_cast<model::AttentionOp>(op))
    return lowerAttention(attention);
  if (auto attention = dyn_cast<model::AttentionGradOp>(op))
    return lowerAttentionGrad(attention);
  if (auto embedding = dyn_cast<model::EmbeddingOp>(op))
    return lowerEmbedding(embedding);
  if (auto embedding = dyn_cast<model::EmbeddingGradOp>(op))
    return lowerEmbeddingGrad(embedding);
  if (auto reduce = dyn_cast<spmd::AllReduceOp>(op))
    return lowerAllReduce(reduce);
  if (auto gather = dyn_cast<spmd::AllGatherOp>(op))
    return lowerAllGather(gather);
  if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
    return lowerReduceScatter(scatter);
  if (auto slice = dyn_cast<spmd::SliceOp>(op))
    return lowerSlice(slice);
  if (auto terminator = dyn_cast<model::ReturnOp>(op))
    return lowerReturn(terminator);
  return op->emitOpError("is not lowered to any function of the runtime");
}

LogicalResult FunctionLowering::lowerKernel(ArrayRef<Operation *> group) {
  SmallVector<Value> inputs, outputs;
  SmallVector<Attribute> inputAddresses, outputAddresses;
  SmallVector<bool> accumulate;
  for (Operation *op : group) {
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(inputs, operand) &&
          !llvm::is_contained(outputs, operand)) {
        inputs.push_back(operand);
        inputAddresses.push_back(address(operand));
      }
    for (Value result : op->getResults()) {
      outputs.push_back(result);
      outputAddresses.push_back(address(result));
      accumulate.push_back(accumulates(address(result)));
    }
  }
  FlatSymbolRefAttr kernel = kernels.get(group, inputs, outputs, accumulate);
  rt::LaunchOp::create(builder, group.front()->getLoc(), kernel,
                       builder.getArrayAttr(inputAddresses),
                       builder.getArrayAttr(outputAddresses));
  return success();
}

static int64_t byteSize(RankedTensorType type) {
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

LogicalResult FunctionLowering::lowerReturn(model::ReturnOp op) {
  for (auto [index, value] : llvm::enumerate(op.getOperands())) {
    auto wanted = kind.getResultAttrOfType<rt::AddrAttr>(index, kAddressAttr);
    if (!wanted)
      return kind.emitOpError()
             << "expected '" << kAddressAttr << "' on result " << index;
    if (wanted == address(value))
      continue;
    if (accumulates(wanted))
      return op.emitOpError()
             << "expected result " << index << " to be computed at " << wanted
             << ", where it is accumulated, but it is at " << address(value);
    const int64_t bytes = byteSize(cast<RankedTensorType>(value.getType()));
    rt::SliceOp::create(builder, op.getLoc(), address(value), wanted,
                        builder.getArrayAttr({}), 1, bytes, bytes);
  }
  return success();
}

} // namespace shardwright

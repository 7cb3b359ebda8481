//===- AttentionShapes.cpp - Shapes of attention calls --------------------===//
#include "compiler/Codegen/AttentionShapes.h"

#include "llvm/IR/IRBuilder.h"

#include <algorithm>

using namespace llvm;

namespace shardwright::codegen {

sw_rt_dtype dtypeCode(mlir::Type type) {
  if (type.isF64())
    return SW_RT_F64;
  if (type.isBF16())
    return SW_RT_BF16;
  if (type.isF16())
    return SW_RT_F16;
  if (type.isInteger(32))
    return SW_RT_I32;
  return SW_RT_F32;
}

uint32_t axesMask(plan::MeshAttr mesh, mlir::ArrayAttr axes) {
  uint32_t bits = 0;
  if (axes)
    for (auto axis : axes.getAsRange<mlir::StringAttr>()) {
      const int64_t index = mesh.indexOf(axis.getValue());
      assert(index >= 0 && "an axis that the mesh does not have");
      bits |= uint32_t{1} << index;
    }
  return bits;
}

template <typename OpTy>
static GlobalVariable *emitShape(OpTy op, plan::MeshAttr mesh, Module &module) {
  IRBuilder<> builder(module.getContext());
  SmallVector<Constant *> fields;
  auto real = [&](std::optional<APFloat> value) {
    fields.push_back(ConstantFP::get(builder.getDoubleTy(),
                                     value ? value->convertToDouble() : 0.0));
  };
  for (int64_t size : op.getShape())
    fields.push_back(builder.getInt64(size));
  real(op.getScale());
  fields.push_back(builder.getInt32(op.getCausal()));
  fields.push_back(builder.getInt32(axesMask(mesh, op.getHeadAxesAttr())));
  fields.push_back(builder.getInt64(op.getWindow().value_or(0)));
  real(op.getSoftcap());
  real(op.getAlibi());
  fields.push_back(builder.getInt64(op.getAlibiHeads().value_or(0)));
  Constant *value = ConstantStruct::getAnon(fields);
  [[maybe_unused]] const StructLayout *layout =
      module.getDataLayout().getStructLayout(
          cast<StructType>(value->getType()));
  assert(layout->getSizeInBytes() == sizeof(sw_rt_attention_shape) &&
         layout->getElementOffset(6) ==
             offsetof(sw_rt_attention_shape, scale) &&
         layout->getElementOffset(7) ==
             offsetof(sw_rt_attention_shape, causal) &&
         layout->getElementOffset(8) ==
             offsetof(sw_rt_attention_shape, head_axes) &&
         layout->getElementOffset(12) ==
             offsetof(sw_rt_attention_shape, alibi_heads) &&
         "sw_rt_attention_shape has another layout");
  auto *global =
      new GlobalVariable(module, value->getType(), /*isConstant=*/true,
                         GlobalValue::PrivateLinkage, value, "attention");
  global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  return global;
}

Constant *emitAttentionShape(rt::AttentionFwdOp op, plan::MeshAttr mesh,
                             Module &module) {
  return emitShape(op, mesh, module);
}

Constant *emitAttentionShape(rt::AttentionBwdOp op, plan::MeshAttr mesh,
                             Module &module) {
  return emitShape(op, mesh, module);
}

std::vector<AttentionUse> emitAttentionUses(mlir::ModuleOp source,
                                            plan::MeshAttr mesh,
                                            Module &module) {
  std::vector<AttentionUse> uses;
  auto add = [&](auto op, bool isBackward) {
    const AttentionUse use{emitShape(op, mesh, module),
                           dtypeCode(op.getDtype()), isBackward};
    const bool isKnown = llvm::any_of(uses, [&](const AttentionUse &other) {
      return other.isBackward == isBackward && other.dtype == use.dtype &&
             other.shape->getInitializer() == use.shape->getInitializer();
    });
    if (isKnown)
      use.shape->eraseFromParent();
    else
      uses.push_back(use);
  };
  source.walk([&](mlir::Operation *op) {
    if (auto forward = mlir::dyn_cast<rt::AttentionFwdOp>(op))
      add(forward, false);
    if (auto backward = mlir::dyn_cast<rt::AttentionBwdOp>(op))
      add(backward, true);
  });
  return uses;
}

} // namespace shardwright::codegen

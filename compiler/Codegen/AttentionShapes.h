//===- AttentionShapes.h - Shapes of attention calls ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_ATTENTIONSHAPES_H
#define SHARDWRIGHT_COMPILER_CODEGEN_ATTENTIONSHAPES_H

#include "compiler/Codegen/DeviceTables.h"

#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtOps.h"

namespace shardwright::codegen {

sw_rt_dtype dtypeCode(mlir::Type type);
/// Bit i for axis i of the mesh.
uint32_t axesMask(plan::MeshAttr mesh, mlir::ArrayAttr axes);

/// Address of a constant sw_rt_attention_shape.
llvm::Constant *emitAttentionShape(rt::AttentionFwdOp op, plan::MeshAttr mesh,
                                   llvm::Module &module);
llvm::Constant *emitAttentionShape(rt::AttentionBwdOp op, plan::MeshAttr mesh,
                                   llvm::Module &module);

/// Every attention call of a module of phase `lowered`, each once, in the order
/// of its text.
std::vector<AttentionUse> emitAttentionUses(mlir::ModuleOp source,
                                            plan::MeshAttr mesh,
                                            llvm::Module &module);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_ATTENTIONSHAPES_H

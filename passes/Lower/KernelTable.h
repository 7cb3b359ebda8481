//===- KernelTable.h - Generated kernels of a module ------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_LOWER_KERNELTABLE_H
#define SHARDWRIGHT_PASSES_LOWER_KERNELTABLE_H

#include "dialects/Rt/IR/RtOps.h"

#include <map>
#include <string>

namespace shardwright {

/// On a result of an `rt.kernel`: it is added to what is at its address.
constexpr llvm::StringLiteral kAccumulateAttr("rt.accumulate");

/// Whether `op` is lowered to (a part of) a generated kernel.
bool isRowOp(mlir::Operation *op);

/// Kernels by their text, so that equal ones exist once.
class KernelTable {
public:
  explicit KernelTable(mlir::OpBuilder builder) : builder(builder) {}

  /// The kernel that runs `group` on `inputs` and gives `outputs`, of which
  /// those flagged are accumulated.
  mlir::FlatSymbolRefAttr get(llvm::ArrayRef<mlir::Operation *> group,
                              llvm::ArrayRef<mlir::Value> inputs,
                              llvm::ArrayRef<mlir::Value> outputs,
                              llvm::ArrayRef<bool> accumulate);

private:
  mlir::OpBuilder builder; ///< in the module, before its functions
  std::map<std::string, std::string> nameByText;
  std::map<std::string, int> uses; ///< kernels per stem of a name
};

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_LOWER_KERNELTABLE_H

//===- KindBuilder.h - One kind of layer, op by op --------------*- C++ -*-===//
//
// Hides locations, types and bookkeeping of parameters, so that BuildModel.cpp
// reads like the model's definition.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_KINDBUILDER_H
#define SHARDWRIGHT_COMPILER_IMPORT_KINDBUILDER_H

#include "compiler/Import/HfConfig.h"
#include "dialects/Model/IR/ModelOps.h"

#include "llvm/ADT/DenseMap.h"

namespace shardwright {

/// A parameter before it has a place: what Hugging Face calls it, how its
/// elements lie there, and how it starts.
struct ParameterSpec {
  std::string symbol; ///< after "kind.", as in "q_proj"
  std::string hfName;
  std::string letters;
  model::Segment segment;
  std::vector<int64_t> hfShape;
  std::vector<int64_t> hfStrides; ///< empty: row-major over `letters`
  int64_t hfOffset = 0;
  model::Init init = model::Init::Normal;
  double initScale = 0;
  std::string shared;
  std::string key; ///< of the config that the location names
};

class KindBuilder {
public:
  /// Starts @name at the end of `module`. `extents` gives every letter's size.
  KindBuilder(mlir::ModuleOp module, const ModelSpec &spec,
              const llvm::DenseMap<char, int64_t> &extents,
              llvm::StringRef name);

  /// Arguments, in order; parameters are numbered by their order.
  mlir::Value streamIn();
  mlir::Value tokens();
  mlir::Value labels();
  mlir::Value parameter(const ParameterSpec &parameter);

  /// Ops from here on carry this segment and the location of this key.
  void section(model::Segment newSegment, const std::string &key);

  mlir::Value contract(mlir::Value lhs, mlir::Value rhs, llvm::StringRef spec,
                       llvm::StringRef label);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs, llvm::StringRef letters,
                  llvm::StringRef label);
  mlir::Value biasAdd(mlir::Value input, mlir::Value bias,
                      llvm::StringRef letters, llvm::StringRef biasLetters,
                      llvm::StringRef label);
  mlir::Value rmsNorm(mlir::Value input, mlir::Value weight,
                      llvm::StringRef letters, llvm::StringRef label);
  /// Along `columns`, which ranks may have parts of.
  mlir::Value splitRmsNorm(mlir::Value input, mlir::Value weight,
                           llvm::StringRef letters, llvm::StringRef columns,
                           llvm::StringRef label);
  mlir::Value layerNorm(mlir::Value input, mlir::Value weight, mlir::Value bias,
                        llvm::StringRef letters, llvm::StringRef label);
  mlir::Value rope(mlir::Value input, const Rope &rope, llvm::StringRef letters,
                   llvm::StringRef label);
  mlir::Value attention(mlir::Value q, mlir::Value k, mlir::Value v,
                        const LayerKind &layer, llvm::StringRef label);
  /// By the position, beyond `layer.scaleFloor` (model.scale_positions).
  mlir::Value scalePositions(mlir::Value input, const LayerKind &layer,
                             llvm::StringRef letters, llvm::StringRef label);
  /// act(gate) * up, and act(input); silu stands only in a gate, relu only
  /// outside of one.
  mlir::Value gated(mlir::Value gate, mlir::Value up, Activation activation,
                    llvm::StringRef label);
  mlir::Value activate(mlir::Value input, Activation activation,
                       llvm::StringRef label);
  mlir::Value scale(mlir::Value input, double factor, llvm::StringRef letters,
                    llvm::StringRef label);
  mlir::Value softcap(mlir::Value input, double cap, llvm::StringRef letters,
                      llvm::StringRef label);
  mlir::Value clip(mlir::Value input, double limit, llvm::StringRef letters,
                   llvm::StringRef label);
  /// A constant: no label, as it is cheaper to make again than to save.
  mlir::Value fill(double value, llvm::StringRef letters);
  /// `letters` of the result: its last is the width of the table.
  mlir::Value embedding(mlir::Value ids, mlir::Value table,
                        llvm::StringRef letters, llvm::StringRef label);
  mlir::Value addPositions(mlir::Value input, mlir::Value table, int64_t offset,
                           llvm::StringRef label);
  mlir::Value crossEntropy(mlir::Value logits, mlir::Value labels);

  /// Ends the kind with one result, or several of a kind.
  void finish(llvm::ArrayRef<mlir::Value> results, model::ResultKind kind);

  /// For ops that have no function here.
  template <typename Op, typename... Arguments>
  Op make(Arguments &&...arguments) {
    return Op::create(builder, location, std::forward<Arguments>(arguments)...);
  }
  mlir::OpBuilder &attributes() { return builder; }
  mlir::RankedTensorType type(llvm::StringRef letters, bool index = false);
  mlir::StringAttr string(const llvm::Twine &text);
  model::SegmentAttr segment();

private:
  mlir::Value argument(mlir::Type type, model::ArgKind kind, int64_t index,
                       mlir::Location location);
  mlir::Location locationOf(const std::string &key);

  const ModelSpec &spec;
  const llvm::DenseMap<char, int64_t> &extents;
  mlir::OpBuilder builder;
  mlir::OpBuilder declarations; ///< of parameters, before the kind
  model::KindOp kind;
  mlir::Location location;
  model::Segment current = model::Segment::Stream;
  std::vector<model::ArgAttr> arguments;
  int64_t parameters = 0;
};

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_KINDBUILDER_H

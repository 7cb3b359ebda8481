//===- ModelBuilder.h - Definitions of the model families -------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_MODELBUILDER_H
#define SHARDWRIGHT_COMPILER_IMPORT_MODELBUILDER_H

#include "compiler/Import/KindBuilder.h"

namespace shardwright {

/// Builds the kinds of a model as Hugging Face's code of its family computes
/// them; one file per family. Norms and residual sums belong to the stream; so
/// does a bias that follows a row-split product: it is added once, after the
/// partial sums are finished.
class ModelBuilder {
public:
  ModelBuilder(const ModelSpec &spec, int64_t sequence, mlir::ModuleOp module);

  /// @embed, @dense and @head with their parameters.
  void build();

private:
  void buildLlamaEmbed();
  void buildLlamaDense();
  void buildGpt2Embed();
  void buildGpt2Dense();
  void buildHead();

  bool llama() const { return spec.family == ModelFamily::Llama; }

  // Keys of the config, by family, that locations name.
  const char *hiddenKey() const;
  const char *headsKey() const;
  const char *ffnKey() const;
  const char *normKey() const;

  /// A parameter drawn from a normal distribution.
  ParameterSpec matrix(const char *symbol, const std::string &hfName,
                       const char *letters, model::Segment segment,
                       std::vector<int64_t> hfShape, const char *key) const;
  /// A parameter of one dim in Hugging Face's layout: all zeros or ones.
  ParameterSpec vector(const char *symbol, const std::string &hfName,
                       const char *letters, model::Segment segment,
                       model::Init init, const char *key) const;
  /// Token embedding, or the head's weights (the same tensor if tied).
  ParameterSpec table(const char *symbol, model::Segment segment,
                      bool head) const;

  const ModelSpec &spec;
  mlir::ModuleOp module;
  int64_t hidden, headDim;
  int64_t width;   ///< of all query heads
  int64_t kvWidth; ///< of all key (or value) heads
  llvm::DenseMap<char, int64_t> extents;
};

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_MODELBUILDER_H

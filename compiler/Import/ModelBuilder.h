//===- ModelBuilder.h - The layers of a decoder -----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_MODELBUILDER_H
#define SHARDWRIGHT_COMPILER_IMPORT_MODELBUILDER_H

#include "compiler/Import/KindBuilder.h"

namespace shardwright {

/// Builds the kinds of a model as Hugging Face's code of its family computes
/// them. Norms and residual sums belong to the stream; so does a bias that
/// follows a row-split product: it is added once, after the partial sums are
/// finished.
class ModelBuilder {
public:
  ModelBuilder(const ModelSpec &spec, int64_t sequence, mlir::ModuleOp module);

  /// @embed, the kinds of layers and @head, with their parameters.
  void build();

private:
  struct Norm {
    mlir::Value weight, bias;
  };
  struct Product {
    mlir::Value weight, bias; ///< no bias: null
  };
  /// Where a part of the fused or separate q, k, v lies.
  struct Part {
    std::string name;
    std::vector<int64_t> rowStrides; ///< of (n, g, d) or (n, d), in rows
    int64_t firstRow, rows;
  };
  struct Attention {
    Product q, k, v, o;
    Norm qNorm, kNorm;
  };
  struct Mlp {
    Product gate, up, down;
  };

  void buildEmbed();
  void buildLayer(const LayerKind &layer);
  void buildHead();

  Part partOf(char which) const;
  Product projection(KindBuilder &kind, char which, const char *symbol,
                     const char *letters);
  mlir::Value projection(KindBuilder &kind, const std::string &name,
                         const char *symbol, const char *letters);
  Attention attentionParameters(KindBuilder &kind);
  Mlp mlpParameters(KindBuilder &kind);
  /// Parameters of the norm `name`; none if it is empty.
  Norm normParameters(KindBuilder &kind, const std::string &symbol,
                      const std::string &name);
  mlir::Value applyNorm(KindBuilder &kind, mlir::Value x, const Norm &norm,
                        const std::string &name, const std::string &label);
  /// Norms that stand before the rotation.
  void normQueriesAndKeys(KindBuilder &kind, const Attention &a, mlir::Value &q,
                          mlir::Value &k);
  mlir::Value attention(KindBuilder &kind, mlir::Value h, const Attention &a,
                        const LayerKind &layer);
  mlir::Value mlp(KindBuilder &kind, mlir::Value h, const Mlp &m);

  // ExpertBuilder.cpp. Each makes its parameters where it uses them.
  mlir::Value latentAttention(KindBuilder &kind, mlir::Value h,
                              const LayerKind &layer);
  mlir::Value sinkAttention(KindBuilder &kind, mlir::Value q, mlir::Value k,
                            mlir::Value v, int64_t window);
  mlir::Value experts(KindBuilder &kind, mlir::Value h);
  /// Loss of the token after next, from the stream `x` that leaves the layers.
  mlir::Value laterLoss(KindBuilder &kind, mlir::Value x, mlir::Value labels,
                        mlir::Value headWeights);
  /// A layer without its stream's ends.
  mlir::Value layerBody(KindBuilder &kind, const LayerKind &layer,
                        mlir::Value x);
  bool latent() const { return spec.latent.kvRank > 0; }
  /// Sizes of letters in `layer`.
  llvm::DenseMap<char, int64_t> extentsOf(const LayerKind &layer) const;

  /// A matrix `letters`, of `rows` x `columns` as (out, in).
  ParameterSpec matrix(const std::string &symbol, const std::string &hfName,
                       const char *letters, model::Segment segment,
                       std::vector<int64_t> hfShape,
                       const std::string &key) const;
  /// A parameter of one dim in the checkpoint: all zeros or ones.
  ParameterSpec vector(const std::string &symbol, const std::string &hfName,
                       const char *letters, model::Segment segment,
                       model::Init init, const std::string &key) const;
  mlir::Value zeros(KindBuilder &kind, bool present, const char *symbol,
                    const std::string &hfName, const char *letters,
                    model::Segment segment, const std::string &key);
  /// Token embedding, or the head's weights (the same tensor if tied).
  ParameterSpec table(const char *symbol, model::Segment segment,
                      bool head) const;
  double residualScale() const;

  const ModelSpec &spec;
  mlir::ModuleOp module;
  int64_t hidden, headDim, groups;
  int64_t width;   ///< of all query heads
  int64_t kvWidth; ///< of all key (or value) heads
  llvm::DenseMap<char, int64_t> extents;
};

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_MODELBUILDER_H

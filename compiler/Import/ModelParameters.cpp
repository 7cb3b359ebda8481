//===- ModelParameters.cpp - Weights of a model, as a checkpoint has them -===//
#include "compiler/Import/ModelBuilder.h"

#include <cmath>

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

double ModelBuilder::residualScale() const {
  return spec.scaledResidualInit
             ? spec.initializerRange / std::sqrt(2.0 * spec.layers)
             : spec.initializerRange;
}

ParameterSpec ModelBuilder::matrix(const std::string &symbol,
                                   const std::string &hfName,
                                   const char *letters, Segment segment,
                                   std::vector<int64_t> hfShape,
                                   const std::string &key) const {
  ParameterSpec result;
  result.symbol = symbol;
  result.hfName = hfName;
  result.letters = letters;
  result.segment = segment;
  result.hfShape = std::move(hfShape);
  result.initScale = spec.initializerRange;
  result.key = key;
  return result;
}

ParameterSpec ModelBuilder::vector(const std::string &symbol,
                                   const std::string &hfName,
                                   const char *letters, Segment segment,
                                   Init init, const std::string &key) const {
  int64_t elements = 1;
  for (const char *letter = letters; *letter; ++letter)
    elements *= extents.lookup(*letter);
  ParameterSpec result =
      matrix(symbol, hfName, letters, segment, {elements}, key);
  result.init = init;
  result.initScale = 0;
  return result;
}

Value ModelBuilder::zeros(KindBuilder &kind, bool present, const char *symbol,
                          const std::string &hfName, const char *letters,
                          Segment segment, const std::string &key) {
  if (!present)
    return {};
  return kind.parameter(
      vector(symbol, hfName + ".bias", letters, segment, Init::Zeros, key));
}

ParameterSpec ModelBuilder::table(const char *symbol, Segment segment,
                                  bool head) const {
  const bool narrow = spec.embeddingWidth > 0;
  ParameterSpec result = matrix(
      symbol, head && !spec.tied ? spec.names.head : spec.names.embedding,
      narrow ? "vi" : "vh", segment,
      {spec.vocab, narrow ? spec.embeddingWidth : hidden}, spec.keys.vocab);
  if (spec.tied || (!head && spec.mtpLayers > 0))
    result.shared = spec.names.embedding;
  return result;
}

ModelBuilder::Norm ModelBuilder::normParameters(KindBuilder &kind,
                                                const std::string &symbol,
                                                const std::string &name) {
  Norm norm;
  if (name.empty() || spec.norm == NormKind::LayerPlain)
    return norm;
  const Init init =
      spec.norm == NormKind::RmsUnitOffset ? Init::Zeros : Init::Ones;
  norm.weight = kind.parameter(vector(symbol, name + ".weight", "h",
                                      Segment::Stream, init, spec.keys.norm));
  if (spec.norm == NormKind::Layer)
    norm.bias =
        kind.parameter(vector(symbol + "_bias", name + ".bias", "h",
                              Segment::Stream, Init::Zeros, spec.keys.norm));
  return norm;
}

/// A matrix `letters` between the stream and a narrower embedding: computed
/// where a token lies, so that what is gathered or summed is narrow.
Value ModelBuilder::projection(KindBuilder &kind, const std::string &name,
                               const char *symbol, const char *letters) {
  if (name.empty())
    return {};
  return kind.parameter(
      matrix(symbol, name + ".weight", letters, Segment::Stream,
             {extents.lookup(letters[0]), extents.lookup(letters[1])},
             spec.keys.hidden));
}

/// Rows of the checkpoint's matrix (its output features) that are q, k or v.
ModelBuilder::Part ModelBuilder::partOf(char which) const {
  const TensorNames &names = spec.names;
  const bool query = which == 'q';
  auto strides = [&](int64_t perKvHead) {
    return query ? std::vector<int64_t>{perKvHead, headDim, 1}
                 : std::vector<int64_t>{perKvHead, 1};
  };
  const int64_t own = query ? groups * headDim : headDim;
  switch (spec.qkv) {
  case QkvLayout::Separate:
    return {query          ? names.q
            : which == 'k' ? names.k
                           : names.v,
            strides(own), 0, query ? width : kvWidth};
  case QkvLayout::SideBySide:
    return {names.qkv, strides(own),
            query          ? 0
            : which == 'k' ? width
                           : width + kvWidth,
            width + 2 * kvWidth};
  case QkvLayout::PerKvHead: {
    const int64_t together = (groups + 2) * headDim;
    return {names.qkv, strides(together),
            query          ? 0
            : which == 'k' ? groups * headDim
                           : (groups + 1) * headDim,
            spec.kvHeads * together};
  }
  }
  return {};
}

ModelBuilder::Product ModelBuilder::projection(KindBuilder &kind, char which,
                                               const char *symbol,
                                               const char *letters) {
  const std::string &key = which == 'q' ? spec.keys.heads : spec.keys.kvHeads;
  const Part part = partOf(which);
  const int64_t row = spec.transposed ? 1 : hidden;
  ParameterSpec weight =
      matrix(std::string(symbol) + "_proj", part.name + ".weight", letters,
             Segment::Attention,
             spec.transposed ? std::vector<int64_t>{hidden, part.rows}
                             : std::vector<int64_t>{part.rows, hidden},
             key);
  for (int64_t stride : part.rowStrides)
    weight.hfStrides.push_back(stride * row);
  weight.hfStrides.push_back(spec.transposed ? part.rows : 1);
  weight.hfOffset = part.firstRow * row;
  Product product;
  product.weight = kind.parameter(weight);
  if (!spec.qkvBias)
    return product;
  const std::string biasLetters(letters, part.rowStrides.size());
  ParameterSpec bias = vector(
      std::string(symbol) + "_bias", part.name + ".bias", biasLetters.c_str(),
      Segment::Attention, Init::Zeros, spec.keys.attentionBias);
  bias.hfShape = {part.rows};
  bias.hfStrides = part.rowStrides;
  bias.hfOffset = part.firstRow;
  product.bias = kind.parameter(bias);
  return product;
}

ModelBuilder::Attention ModelBuilder::attentionParameters(KindBuilder &kind) {
  Attention a;
  const TensorNames &names = spec.names;
  a.q = projection(kind, 'q', "q", "ngdh");
  a.k = projection(kind, 'k', "k", "ndh");
  a.v = projection(kind, 'v', "v", "ndh");
  const Init init =
      spec.norm == NormKind::RmsUnitOffset ? Init::Zeros : Init::Ones;
  auto norm = [&](const char *symbol, const std::string &name,
                  const char *letters) {
    return Norm{
        kind.parameter(vector(symbol, name + ".weight", letters,
                              Segment::Attention, init, spec.keys.norm)),
        {}};
  };
  switch (spec.qkNorm) {
  case QkNorm::None:
  case QkNorm::Turned:
    break;
  case QkNorm::Layer:
    a.qNorm = norm("q_norm", names.qNorm, "d");
    a.kNorm = norm("k_norm", names.kNorm, "d");
    a.qNorm.bias = zeros(kind, true, "q_norm_bias", names.qNorm, "d",
                         Segment::Attention, spec.keys.norm);
    a.kNorm.bias = zeros(kind, true, "k_norm_bias", names.kNorm, "d",
                         Segment::Attention, spec.keys.norm);
    break;
  case QkNorm::PerHead:
    a.qNorm = norm("q_norm", names.qNorm, "d");
    a.kNorm = norm("k_norm", names.kNorm, "d");
    break;
  case QkNorm::Whole:
    a.qNorm = norm("q_norm", names.qNorm, "ngd");
    a.kNorm = norm("k_norm", names.kNorm, "nd");
    break;
  }
  ParameterSpec o =
      matrix("o_proj", names.o + ".weight", "hngd", Segment::Attention,
             spec.transposed ? std::vector<int64_t>{width, hidden}
                             : std::vector<int64_t>{hidden, width},
             spec.keys.heads);
  if (spec.transposed)
    o.hfStrides = {1, groups * headDim * hidden, headDim * hidden, hidden};
  o.initScale = residualScale();
  a.o.weight = kind.parameter(o);
  a.o.bias = zeros(kind, spec.outputBias, "o_bias", names.o, "h",
                   Segment::Stream, spec.keys.attentionBias);
  return a;
}

ModelBuilder::Mlp ModelBuilder::mlpParameters(KindBuilder &kind) {
  Mlp m;
  const TensorNames &names = spec.names;
  const bool fused = spec.gated && !names.gateUp.empty();
  const int64_t rows = fused ? 2 * spec.ffn : spec.ffn;
  auto into = [&](const std::string &symbol, const std::string &name,
                  int64_t firstRow) {
    ParameterSpec weight =
        matrix(symbol, name + ".weight", "fh", Segment::Mlp,
               spec.transposed ? std::vector<int64_t>{hidden, rows}
                               : std::vector<int64_t>{rows, hidden},
               spec.keys.ffn);
    if (spec.transposed)
      weight.hfStrides = {1, rows};
    weight.hfOffset = firstRow * (spec.transposed ? 1 : hidden);
    Product product;
    product.weight = kind.parameter(weight);
    if (!spec.upBias)
      return product;
    ParameterSpec bias = vector(symbol + "_bias", name + ".bias", "f",
                                Segment::Mlp, Init::Zeros, spec.keys.mlpBias);
    bias.hfShape = {rows};
    bias.hfOffset = firstRow;
    product.bias = kind.parameter(bias);
    return product;
  };
  if (spec.gated)
    m.gate = into("gate", fused ? names.gateUp : names.gate, 0);
  m.up = into("up", fused ? names.gateUp : names.up, fused ? spec.ffn : 0);
  ParameterSpec down =
      matrix("down", names.down + ".weight", "hf", Segment::Mlp,
             spec.transposed ? std::vector<int64_t>{spec.ffn, hidden}
                             : std::vector<int64_t>{hidden, spec.ffn},
             spec.keys.ffn);
  if (spec.transposed)
    down.hfStrides = {1, hidden};
  down.initScale = residualScale();
  m.down.weight = kind.parameter(down);
  m.down.bias = zeros(kind, spec.downBias, "down_bias", names.down, "h",
                      Segment::Stream, spec.keys.mlpBias);
  return m;
}

} // namespace shardwright

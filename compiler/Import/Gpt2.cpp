//===- Gpt2.cpp - GPT2LMHeadModel, op by op ------------------------------===//
#include "compiler/Import/ModelBuilder.h"

#include <cmath>

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

void ModelBuilder::buildGpt2Embed() {
  KindBuilder kind(module, spec, extents, "embed");
  kind.section(Segment::Embed, "vocab_size");
  Value ids = kind.tokens();
  Value weights = kind.parameter(table("table", Segment::Embed, false));
  Value positions = kind.parameter(
      matrix("positions", "transformer.wpe.weight", "ph", Segment::Stream,
             {spec.positions, hidden}, "n_positions"));
  Value x = kind.embedding(ids, weights, "embedding");
  kind.section(Segment::Stream, "n_positions");
  kind.finish(kind.addPositions(x, positions, "positions"),
              ResultKind::StreamOut);
}

void ModelBuilder::buildGpt2Dense() {
  KindBuilder kind(module, spec, extents, "dense");
  kind.section(Segment::Stream, hiddenKey());
  const std::string layer = "transformer.h.{}.";
  // Conv1D keeps its matrix as (in, out). Projections back into the stream
  // start smaller: GPT-2 scales them by 1/sqrt(residual branches).
  const double residualScale =
      spec.initializerRange / std::sqrt(2.0 * spec.layers);
  auto conv = [&](const char *symbol, const std::string &hfName,
                  const char *letters, Segment segment, int64_t in, int64_t out,
                  std::vector<int64_t> strides, int64_t offset, double scale,
                  const char *key) {
    ParameterSpec parameter =
        matrix(symbol, hfName + ".weight", letters, segment, {in, out}, key);
    parameter.hfStrides = std::move(strides);
    parameter.hfOffset = offset;
    parameter.initScale = scale;
    return kind.parameter(parameter);
  };
  auto zeros = [&](const char *symbol, const std::string &hfName,
                   const char *letters, Segment segment, const char *key) {
    return kind.parameter(
        vector(symbol, hfName + ".bias", letters, segment, Init::Zeros, key));
  };
  auto ones = [&](const char *symbol, const std::string &hfName) {
    return kind.parameter(vector(symbol, hfName + ".weight", "h",
                                 Segment::Stream, Init::Ones, normKey()));
  };
  // q, k and v are one tensor, side by side.
  const int64_t fused = width + 2 * kvWidth, groups = extents.lookup('g');
  const int64_t kOffset = width, vOffset = width + kvWidth;
  auto part = [&](const char *symbol, const char *letters,
                  std::vector<int64_t> strides, int64_t offset) {
    return conv(symbol, layer + "attn.c_attn", letters, Segment::Attention,
                hidden, fused, std::move(strides), offset,
                spec.initializerRange, headsKey());
  };
  auto partBias = [&](const char *symbol, const char *letters, int64_t offset) {
    ParameterSpec parameter =
        vector(symbol, layer + "attn.c_attn.bias", letters, Segment::Attention,
               Init::Zeros, headsKey());
    parameter.hfShape = {fused};
    parameter.hfOffset = offset;
    return kind.parameter(parameter);
  };

  Value x = kind.streamIn();
  Value attnNorm = ones("attn_norm", layer + "ln_1");
  Value attnNormBias =
      zeros("attn_norm_bias", layer + "ln_1", "h", Segment::Stream, normKey());
  Value wq = part("q_proj", "ngdh", {groups * headDim, headDim, 1, fused}, 0);
  Value bq = partBias("q_bias", "ngd", 0);
  Value wk = part("k_proj", "ndh", {headDim, 1, fused}, kOffset);
  Value bk = partBias("k_bias", "nd", kOffset);
  Value wv = part("v_proj", "ndh", {headDim, 1, fused}, vOffset);
  Value bv = partBias("v_bias", "nd", vOffset);
  Value wo =
      conv("o_proj", layer + "attn.c_proj", "hngd", Segment::Attention, width,
           hidden, {1, groups * headDim * hidden, headDim * hidden, hidden}, 0,
           residualScale, headsKey());
  Value bo =
      zeros("o_bias", layer + "attn.c_proj", "h", Segment::Stream, hiddenKey());
  Value mlpNorm = ones("mlp_norm", layer + "ln_2");
  Value mlpNormBias =
      zeros("mlp_norm_bias", layer + "ln_2", "h", Segment::Stream, normKey());
  Value wu = conv("up", layer + "mlp.c_fc", "fh", Segment::Mlp, hidden,
                  spec.ffn, {1, spec.ffn}, 0, spec.initializerRange, ffnKey());
  Value bu = zeros("up_bias", layer + "mlp.c_fc", "f", Segment::Mlp, ffnKey());
  Value wd = conv("down", layer + "mlp.c_proj", "hf", Segment::Mlp, spec.ffn,
                  hidden, {1, hidden}, 0, residualScale, ffnKey());
  Value bd = zeros("down_bias", layer + "mlp.c_proj", "h", Segment::Stream,
                   hiddenKey());

  kind.section(Segment::Stream, normKey());
  Value h = kind.layerNorm(x, attnNorm, attnNormBias, "attn_norm");
  kind.section(Segment::Attention, headsKey());
  Value q = kind.contract(h, wq, "sbh,ngdh->sbngd", "q_proj");
  q = kind.biasAdd(q, bq, "sbngd", "ngd", "q_bias");
  Value k = kind.contract(h, wk, "sbh,ndh->sbnd", "k_proj");
  k = kind.biasAdd(k, bk, "sbnd", "nd", "k_bias");
  Value v = kind.contract(h, wv, "sbh,ndh->sbnd", "v_proj");
  v = kind.biasAdd(v, bv, "sbnd", "nd", "v_bias");
  Value o = kind.attention(q, k, v, "core_attention");
  Value a = kind.contract(o, wo, "sbngd,hngd->sbh", "o_proj");
  kind.section(Segment::Stream, hiddenKey());
  a = kind.biasAdd(a, bo, "sbh", "h", "o_bias");
  Value r = kind.add(x, a, "sbh", "attn_residual");

  kind.section(Segment::Stream, normKey());
  h = kind.layerNorm(r, mlpNorm, mlpNormBias, "mlp_norm");
  kind.section(Segment::Mlp, ffnKey());
  Value up = kind.contract(h, wu, "sbh,fh->sbf", "up");
  up = kind.biasAdd(up, bu, "sbf", "f", "up_bias");
  Value act = kind.gelu(up, "act");
  Value down = kind.contract(act, wd, "sbf,hf->sbh", "down");
  kind.section(Segment::Stream, hiddenKey());
  down = kind.biasAdd(down, bd, "sbh", "h", "down_bias");
  kind.finish(kind.add(r, down, "sbh", "mlp_residual"), ResultKind::StreamOut);
}

} // namespace shardwright

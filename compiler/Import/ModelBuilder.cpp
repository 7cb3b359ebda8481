//===- ModelBuilder.cpp - Kinds of layers, embedding and head -------------===//
#include "compiler/Import/ModelBuilder.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

ModelBuilder::ModelBuilder(const ModelSpec &spec, int64_t sequence,
                           ModuleOp module)
    : spec(spec), module(module), hidden(spec.hidden), headDim(spec.headDim),
      groups(spec.heads / spec.kvHeads), width(spec.heads * spec.headDim),
      kvWidth(spec.kvHeads * spec.headDim) {
  extents = {{'b', 1},
             {'s', sequence},
             {'h', spec.hidden},
             {'n', spec.kvHeads},
             {'g', groups},
             {'d', spec.headDim},
             {'f', spec.ffn},
             {'v', spec.vocab},
             {'p', spec.positions + spec.positionOffset},
             {'i', spec.embeddingWidth > 0 ? spec.embeddingWidth : spec.hidden}};
}

void ModelBuilder::build() {
  buildEmbed();
  for (const LayerKind &layer : spec.kinds)
    buildLayer(layer);
  buildHead();
}

void ModelBuilder::buildEmbed() {
  KindBuilder kind(module, spec, extents, "embed");
  kind.section(Segment::Embed, spec.keys.vocab);
  Value ids = kind.tokens();
  Value weights = kind.parameter(table("table", Segment::Embed, false));
  Value positions;
  if (spec.learnsPositions())
    positions = kind.parameter(matrix(
        "positions", spec.names.positions, "ph", Segment::Stream,
        {spec.positions + spec.positionOffset, hidden}, spec.keys.positions));
  const std::string &normName = spec.names.embeddingNorm;
  Norm norm = normParameters(kind, "embedding_norm", normName);
  Value project = projection(kind, spec.names.projectIn, "project_in", "hi");
  Value x = kind.embedding(ids, weights, project ? "sbi" : "sbh", "embedding");
  if (project) {
    kind.section(Segment::Stream, spec.keys.hidden);
    x = kind.contract(x, project, "sbi,hi->sbh", "project_in");
  }
  if (spec.embeddingScale != 1.0) {
    kind.section(Segment::Stream, spec.keys.hidden);
    x = kind.scale(x, spec.embeddingScale, "sbh", "embedding_scale");
  }
  if (positions) {
    kind.section(Segment::Stream, spec.keys.positions);
    x = kind.addPositions(x, positions, spec.positionOffset, "positions");
  }
  if (!normName.empty())
    x = applyNorm(kind, x, norm, normName, "embedding_norm");
  kind.finish(x, ResultKind::StreamOut);
}

Value ModelBuilder::applyNorm(KindBuilder &kind, Value x, const Norm &norm,
                              const std::string &name,
                              const std::string &label) {
  if (name.empty())
    return x;
  kind.section(Segment::Stream, spec.keys.norm);
  switch (spec.norm) {
  case NormKind::Rms:
  case NormKind::RmsUnitOffset:
    return kind.rmsNorm(x, norm.weight, "sbh", label);
  case NormKind::Layer:
    return kind.layerNorm(x, norm.weight, norm.bias, "sbh", label);
  case NormKind::LayerWeight:
    return kind.layerNorm(x, norm.weight, kind.fill(0.0, "h"), "sbh", label);
  case NormKind::LayerPlain:
    return kind.layerNorm(x, kind.fill(1.0, "h"), kind.fill(0.0, "h"), "sbh",
                          label);
  }
  return x;
}

void ModelBuilder::normQueriesAndKeys(KindBuilder &kind, const Attention &a,
                                      Value &q, Value &k) {
  kind.section(Segment::Attention, spec.keys.norm);
  switch (spec.qkNorm) {
  case QkNorm::None:
  case QkNorm::Turned:
    return;
  case QkNorm::PerHead:
    q = kind.rmsNorm(q, a.qNorm.weight, "sbngd", "q_norm");
    k = kind.rmsNorm(k, a.kNorm.weight, "sbnd", "k_norm");
    return;
  case QkNorm::Layer:
    q = kind.layerNorm(q, a.qNorm.weight, a.qNorm.bias, "sbngd", "q_norm");
    k = kind.layerNorm(k, a.kNorm.weight, a.kNorm.bias, "sbnd", "k_norm");
    return;
  case QkNorm::Whole:
    q = kind.splitRmsNorm(q, a.qNorm.weight, "sbngd", "ngd", "q_norm");
    k = kind.splitRmsNorm(k, a.kNorm.weight, "sbnd", "nd", "k_norm");
    return;
  }
}

Value ModelBuilder::attention(KindBuilder &kind, Value h, const Attention &a,
                              const LayerKind &layer) {
  const ConfigKeys &keys = spec.keys;
  kind.section(Segment::Attention, keys.heads);
  Value q = kind.contract(h, a.q.weight, "sbh,ngdh->sbngd", "q_proj");
  Value k = kind.contract(h, a.k.weight, "sbh,ndh->sbnd", "k_proj");
  Value v = kind.contract(h, a.v.weight, "sbh,ndh->sbnd", "v_proj");
  if (spec.qkvBias) {
    q = kind.biasAdd(q, a.q.bias, "sbngd", "ngd", "q_bias");
    k = kind.biasAdd(k, a.k.bias, "sbnd", "nd", "k_bias");
    v = kind.biasAdd(v, a.v.bias, "sbnd", "nd", "v_bias");
  }
  if (spec.qkvClip > 0) {
    q = kind.clip(q, spec.qkvClip, "sbngd", "q_clip");
    k = kind.clip(k, spec.qkvClip, "sbnd", "k_clip");
    v = kind.clip(v, spec.qkvClip, "sbnd", "v_clip");
  }
  normQueriesAndKeys(kind, a, q, k);
  if (layer.rope.width != 0) {
    kind.section(Segment::Attention, keys.rope);
    q = kind.rope(q, layer.rope, "sbngd", "q_rope");
    k = kind.rope(k, layer.rope, "sbnd", "k_rope");
    if (spec.qkNorm == QkNorm::Turned) {
      kind.section(Segment::Attention, keys.norm);
      q = kind.rmsNorm(q, kind.fill(1.0, "d"), "sbngd", "q_norm");
      k = kind.rmsNorm(k, kind.fill(1.0, "d"), "sbnd", "k_norm");
    }
  }
  // Up to there the factor is 1.
  if (layer.scaleFloor > 0 && layer.scaleFloor <= extents.lookup('s')) {
    kind.section(Segment::Attention, keys.scaleFloor);
    q = kind.scalePositions(q, layer, "sbngd", "q_scale");
  }
  kind.section(Segment::Attention, layer.window > 0  ? keys.window
                                   : layer.chunk > 0 ? keys.chunk
                                                     : keys.heads);
  Value o = spec.attentionSinks
                ? sinkAttention(kind, q, k, v, layer.window)
                : kind.attention(q, k, v, layer, "core_attention");
  kind.section(Segment::Attention, keys.heads);
  Value result = kind.contract(o, a.o.weight, "sbngd,hngd->sbh", "o_proj");
  kind.section(Segment::Stream, keys.hidden);
  if (spec.outputBias)
    result = kind.biasAdd(result, a.o.bias, "sbh", "h", "o_bias");
  return result;
}

Value ModelBuilder::mlp(KindBuilder &kind, Value h, const Mlp &m) {
  kind.section(Segment::Mlp, spec.keys.ffn);
  auto into = [&](const Product &product, const std::string &label) {
    Value y = kind.contract(h, product.weight, "sbh,fh->sbf", label);
    if (product.bias)
      y = kind.biasAdd(y, product.bias, "sbf", "f", label + "_bias");
    return y;
  };
  Value gate;
  if (spec.gated)
    gate = into(m.gate, "gate");
  Value up = into(m.up, "up");
  Value act = spec.gated ? kind.gated(gate, up, spec.activation, "act")
                         : kind.activate(up, spec.activation, "act");
  Value down = kind.contract(act, m.down.weight, "sbf,hf->sbh", "down");
  kind.section(Segment::Stream, spec.keys.hidden);
  if (m.down.bias)
    down = kind.biasAdd(down, m.down.bias, "sbh", "h", "down_bias");
  return down;
}

void ModelBuilder::buildLayer(const LayerKind &layer) {
  const llvm::DenseMap<char, int64_t> sizes = extentsOf(layer);
  KindBuilder kind(module, spec, sizes, layer.name);
  kind.section(Segment::Stream, spec.keys.hidden);
  Value x = kind.streamIn();
  kind.finish(layerBody(kind, layer, x), ResultKind::StreamOut);
}

Value ModelBuilder::layerBody(KindBuilder &kind, const LayerKind &layer,
                              Value x) {
  const TensorNames &names = spec.names;
  Norm attnNorm = normParameters(kind, "attn_norm", names.attnNorm);
  Attention a;
  if (!latent())
    a = attentionParameters(kind);
  Norm attnPost = normParameters(kind, "attn_post_norm", names.attnPostNorm);
  Norm mlpNorm = normParameters(kind, "mlp_norm", names.mlpNorm);
  Mlp m;
  if (!layer.experts)
    m = mlpParameters(kind);
  Norm mlpPost = normParameters(kind, "mlp_post_norm", names.mlpPostNorm);

  auto add = [&](Value lhs, Value rhs, const char *label) {
    kind.section(Segment::Stream, spec.keys.hidden);
    return kind.add(lhs, rhs, "sbh", label);
  };
  const bool after = spec.normAfterSum;
  Value h = after ? x : applyNorm(kind, x, attnNorm, names.attnNorm, "attn_norm");
  Value y =
      latent() ? latentAttention(kind, h, layer) : attention(kind, h, a, layer);
  y = applyNorm(kind, y, attnPost, names.attnPostNorm, "attn_post_norm");
  Value r = add(spec.residualFromNorm ? h : x, y, "attn_residual");
  if (after)
    r = applyNorm(kind, r, attnNorm, names.attnNorm, "attn_norm");
  Value g = h; // a parallel MLP without a norm of its own shares the first
  if (after)
    g = r;
  else if (!spec.parallel || !names.mlpNorm.empty())
    g = applyNorm(kind, spec.parallel ? x : r, mlpNorm, names.mlpNorm,
                  "mlp_norm");
  y = layer.experts ? experts(kind, g) : mlp(kind, g, m);
  y = applyNorm(kind, y, mlpPost, names.mlpPostNorm, "mlp_post_norm");
  y = add(spec.residualFromNorm ? g : r, y, "mlp_residual");
  return after ? applyNorm(kind, y, mlpNorm, names.mlpNorm, "mlp_norm") : y;
}

void ModelBuilder::buildHead() {
  const bool later = spec.mtpLayers > 0;
  const llvm::DenseMap<char, int64_t> sizes =
      later ? extentsOf(spec.kinds.back()) : extents;
  KindBuilder kind(module, spec, sizes, "head");
  kind.section(Segment::Stream, spec.keys.hidden);
  Value x = kind.streamIn();
  Value labels = kind.labels();
  const std::string &name = spec.names.finalNorm;
  Norm norm = normParameters(kind, "final_norm", name);
  Value weights = kind.parameter(table("lm_head", Segment::Head, true));
  Value bias;
  if (spec.headBias)
    bias = kind.parameter(vector("lm_head_bias", spec.names.headBias, "v",
                                 Segment::Head, Init::Zeros, spec.keys.vocab));

  Value project = projection(kind, spec.names.projectOut, "project_out", "ih");
  Value h = applyNorm(kind, x, norm, name, "final_norm");
  if (project) {
    kind.section(Segment::Stream, spec.keys.hidden);
    h = kind.contract(h, project, "sbh,ih->sbi", "project_out");
  }
  kind.section(Segment::Head, spec.keys.vocab);
  Value logits =
      kind.contract(h, weights, project ? "sbi,vi->sbv" : "sbh,vh->sbv",
                    "lm_head");
  if (bias)
    logits = kind.biasAdd(logits, bias, "sbv", "v", "lm_head_bias");
  if (spec.logitSoftcap > 0)
    logits = kind.softcap(logits, spec.logitSoftcap, "sbv", "logit_softcap");
  kind.section(Segment::Loss, spec.keys.vocab);
  SmallVector<Value> losses = {kind.crossEntropy(logits, labels)};
  if (later)
    losses.push_back(laterLoss(kind, x, labels, weights));
  kind.finish(losses, ResultKind::Loss);
}

} // namespace shardwright

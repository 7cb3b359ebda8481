//===- Llama.cpp - LlamaForCausalLM, op by op ----------------------------===//
#include "compiler/Import/ModelBuilder.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

void ModelBuilder::buildLlamaEmbed() {
  KindBuilder kind(module, spec, extents, "embed");
  kind.section(Segment::Embed, "vocab_size");
  Value ids = kind.tokens();
  Value weights = kind.parameter(table("table", Segment::Embed, false));
  kind.finish(kind.embedding(ids, weights, "embedding"), ResultKind::StreamOut);
}

void ModelBuilder::buildLlamaDense() {
  KindBuilder kind(module, spec, extents, "dense");
  kind.section(Segment::Stream, hiddenKey());
  const std::string layer = "model.layers.{}.";
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  auto optionalBias = [&](bool present, const char *symbol,
                          const std::string &hfName, const char *letters,
                          Segment segment, const char *key) -> Value {
    if (!present)
      return {};
    return kind.parameter(
        vector(symbol, hfName, letters, segment, Init::Zeros, key));
  };
  auto projection = [&](const char *symbol, const std::string &hfName,
                        const char *letters, Segment segment,
                        std::vector<int64_t> hfShape, const char *key) {
    return kind.parameter(matrix(symbol, hfName + ".weight", letters, segment,
                                 std::move(hfShape), key));
  };
  constexpr Segment att = Segment::Attention, ffn = Segment::Mlp;
  const bool ab = spec.attentionBias, mb = spec.mlpBias;

  Value x = kind.streamIn();
  Value attnNorm =
      kind.parameter(vector("attn_norm", layer + "input_layernorm.weight", "h",
                            Segment::Stream, Init::Ones, normKey()));
  Value wq = projection("q_proj", attention + "q_proj", "ngdh", att,
                        {width, hidden}, headsKey());
  Value bq = optionalBias(ab, "q_bias", attention + "q_proj.bias", "ngd", att,
                          "attention_bias");
  Value wk = projection("k_proj", attention + "k_proj", "ndh", att,
                        {kvWidth, hidden}, "num_key_value_heads");
  Value bk = optionalBias(ab, "k_bias", attention + "k_proj.bias", "nd", att,
                          "attention_bias");
  Value wv = projection("v_proj", attention + "v_proj", "ndh", att,
                        {kvWidth, hidden}, "num_key_value_heads");
  Value bv = optionalBias(ab, "v_bias", attention + "v_proj.bias", "nd", att,
                          "attention_bias");
  Value wo = projection("o_proj", attention + "o_proj", "hngd", att,
                        {hidden, width}, headsKey());
  Value bo = optionalBias(ab, "o_bias", attention + "o_proj.bias", "h",
                          Segment::Stream, "attention_bias");
  Value mlpNorm = kind.parameter(
      vector("mlp_norm", layer + "post_attention_layernorm.weight", "h",
             Segment::Stream, Init::Ones, normKey()));
  Value wg = projection("gate", mlp + "gate_proj", "fh", ffn,
                        {spec.ffn, hidden}, ffnKey());
  Value bg = optionalBias(mb, "gate_bias", mlp + "gate_proj.bias", "f", ffn,
                          "mlp_bias");
  Value wu = projection("up", mlp + "up_proj", "fh", ffn, {spec.ffn, hidden},
                        ffnKey());
  Value bu =
      optionalBias(mb, "up_bias", mlp + "up_proj.bias", "f", ffn, "mlp_bias");
  Value wd = projection("down", mlp + "down_proj", "hf", ffn,
                        {hidden, spec.ffn}, ffnKey());
  Value bd = optionalBias(mb, "down_bias", mlp + "down_proj.bias", "h",
                          Segment::Stream, "mlp_bias");

  kind.section(Segment::Stream, normKey());
  Value h = kind.rmsNorm(x, attnNorm, "attn_norm");
  kind.section(Segment::Attention, headsKey());
  Value q = kind.contract(h, wq, "sbh,ngdh->sbngd", "q_proj");
  Value k = kind.contract(h, wk, "sbh,ndh->sbnd", "k_proj");
  Value v = kind.contract(h, wv, "sbh,ndh->sbnd", "v_proj");
  if (ab) {
    q = kind.biasAdd(q, bq, "sbngd", "ngd", "q_bias");
    k = kind.biasAdd(k, bk, "sbnd", "nd", "k_bias");
    v = kind.biasAdd(v, bv, "sbnd", "nd", "v_bias");
  }
  kind.section(Segment::Attention, "rope_theta");
  q = kind.rope(q, "sbngd", "q_rope");
  k = kind.rope(k, "sbnd", "k_rope");
  kind.section(Segment::Attention, headsKey());
  Value o = kind.attention(q, k, v, "core_attention");
  Value a = kind.contract(o, wo, "sbngd,hngd->sbh", "o_proj");
  kind.section(Segment::Stream, hiddenKey());
  if (ab)
    a = kind.biasAdd(a, bo, "sbh", "h", "o_bias");
  Value r = kind.add(x, a, "sbh", "attn_residual");

  kind.section(Segment::Stream, normKey());
  h = kind.rmsNorm(r, mlpNorm, "mlp_norm");
  kind.section(Segment::Mlp, ffnKey());
  Value gate = kind.contract(h, wg, "sbh,fh->sbf", "gate");
  if (mb)
    gate = kind.biasAdd(gate, bg, "sbf", "f", "gate_bias");
  Value up = kind.contract(h, wu, "sbh,fh->sbf", "up");
  if (mb)
    up = kind.biasAdd(up, bu, "sbf", "f", "up_bias");
  Value act = kind.swiglu(gate, up, "act");
  Value down = kind.contract(act, wd, "sbf,hf->sbh", "down");
  kind.section(Segment::Stream, hiddenKey());
  if (mb)
    down = kind.biasAdd(down, bd, "sbh", "h", "down_bias");
  kind.finish(kind.add(r, down, "sbh", "mlp_residual"), ResultKind::StreamOut);
}

} // namespace shardwright

//===- ExpertBuilder.cpp - Experts, latent attention, later tokens --------===//
#include "compiler/Import/ModelBuilder.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

llvm::DenseMap<char, int64_t>
ModelBuilder::extentsOf(const LayerKind &layer) const {
  llvm::DenseMap<char, int64_t> sizes = extents;
  const LatentSpec &low = spec.latent;
  if (latent()) {
    sizes['o'] = low.nope;
    sizes['r'] = low.rope;
    sizes['w'] = low.value;
    sizes['l'] = low.kvRank;
    sizes['q'] = low.qRank;
  }
  if (layer.experts) {
    const ExpertSpec &e = spec.experts;
    sizes['x'] = e.count;
    sizes['k'] = e.topK;
    sizes['c'] = sizes.lookup('s') * e.topK; // of one sequence
    sizes['m'] = e.ffn;
    sizes['f'] = e.sharedFfn;
  }
  return sizes;
}

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

/// The projections down to the latent widths and their norms belong to the
/// stream: they are computed where a token lies, and what is gathered for the
/// heads is the narrow latent, not the stream.
Value ModelBuilder::latentAttention(KindBuilder &kind, Value h,
                                    const LayerKind &layer) {
  const LatentSpec &low = spec.latent;
  const std::string prefix = "model.layers.{}.self_attn.";
  const int64_t n = spec.heads, wide = low.nope + low.rope;
  auto weights = [&](const char *symbol, const std::string &name,
                     const char *letters, Segment segment, int64_t rows,
                     int64_t columns, std::vector<int64_t> strides,
                     int64_t firstRow, const char *key) {
    ParameterSpec p = matrix(symbol, prefix + name + ".weight", letters,
                             segment, {rows, columns}, key);
    p.hfStrides = std::move(strides);
    p.hfOffset = firstRow * columns;
    return kind.parameter(p);
  };
  auto norm = [&](Value value, const char *symbol, const std::string &name,
                  const char *letters, const char *columns) {
    ParameterSpec p;
    p.symbol = symbol;
    p.hfName = prefix + name + ".weight";
    p.letters = columns;
    p.segment = Segment::Stream;
    p.hfShape = {kind.type(columns).getNumElements()};
    p.init = Init::Ones;
    p.key = spec.keys.norm;
    Value weight = kind.parameter(p);
    kind.section(Segment::Stream, spec.keys.norm);
    return kind.rmsNorm(value, weight, letters, symbol);
  };

  // Queries, in two parts of every head's rows.
  Value source = h;
  std::string from = "sbh";
  char width = 'h';
  int64_t columns = hidden;
  std::string queries = "q_proj";
  if (low.qRank > 0) {
    kind.section(Segment::Stream, "q_lora_rank");
    Value down = weights("q_a_proj", "q_a_proj", "qh", Segment::Stream,
                         low.qRank, hidden, {}, 0, "q_lora_rank");
    source = kind.contract(h, down, "sbh,qh->sbq", "q_down");
    source = norm(source, "q_a_norm", "q_a_layernorm", "sbq", "q");
    from = "sbq";
    width = 'q';
    columns = low.qRank;
    queries = "q_b_proj";
  }
  auto query = [&](const char *symbol, char part, int64_t first) {
    const std::string letters = std::string("ng") + part + width;
    Value weight =
        weights(symbol, queries, letters.c_str(), Segment::Attention, n * wide,
                columns, {groups * wide * columns, wide * columns, columns, 1},
                first, "num_attention_heads");
    kind.section(Segment::Attention, "num_attention_heads");
    return kind.contract(source, weight, from + "," + letters + "->sbng" + part,
                         symbol);
  };
  Value q = query("q_nope", 'o', 0);
  Value qRope = query("q_rope", 'r', low.nope);

  // Keys and values.
  const int64_t latentRows = low.kvRank + low.rope;
  Value downKv =
      weights("kv_a_proj", "kv_a_proj_with_mqa", "lh", Segment::Stream,
              latentRows, hidden, {hidden, 1}, 0, "kv_lora_rank");
  Value downRope =
      weights("k_rope_proj", "kv_a_proj_with_mqa", "rh", Segment::Stream,
              latentRows, hidden, {hidden, 1}, low.kvRank, "qk_rope_head_dim");
  kind.section(Segment::Stream, "kv_lora_rank");
  Value latentKv = kind.contract(h, downKv, "sbh,lh->sbl", "kv_down");
  Value kRope = kind.contract(h, downRope, "sbh,rh->sbr", "k_rope_down");
  latentKv = norm(latentKv, "kv_a_norm", "kv_a_layernorm", "sbl", "l");
  const int64_t both = low.nope + low.value;
  auto up = [&](const char *symbol, const char *letters, const char *contract,
                int64_t first, const char *key) {
    Value weight =
        weights(symbol, "kv_b_proj", letters, Segment::Attention, n * both,
                low.kvRank, {both * low.kvRank, low.kvRank, 1}, first, key);
    kind.section(Segment::Attention, key);
    return kind.contract(latentKv, weight, contract, symbol);
  };
  Value k = up("k_up", "nol", "sbl,nol->sbno", 0, "qk_nope_head_dim");
  Value v = up("v_up", "nwl", "sbl,nwl->sbnw", low.nope, "v_head_dim");

  kind.section(Segment::Attention, spec.keys.rope);
  qRope = kind.rope(qRope, layer.rope, "sbngr", "q_rope_turned");
  kRope = kind.rope(kRope, layer.rope, "sbr", "k_rope_turned");
  kind.section(Segment::Attention, spec.keys.heads);
  auto core = kind.make<LatentAttentionOp>(
      kind.type("sbngw"), kind.type("sbng"), q, qRope, k, kRope, v,
      kind.segment(), kind.string("core_attention"),
      kind.attributes().getF64FloatAttr(spec.attentionScale));
  ParameterSpec o =
      matrix("o_proj", prefix + "o_proj.weight", "hngw", Segment::Attention,
             {hidden, n * low.value}, spec.keys.heads);
  o.initScale = residualScale();
  return kind.contract(core.getOutput(), kind.parameter(o), "sbngw,hngw->sbh",
                       "o_proj");
}

Value ModelBuilder::sinkAttention(KindBuilder &kind, Value q, Value k, Value v,
                                  int64_t window) {
  ParameterSpec sinks =
      matrix("sinks", "model.layers.{}.self_attn.sinks", "ng",
             Segment::Attention, {spec.heads}, spec.keys.heads);
  OpBuilder &builder = kind.attributes();
  auto op = kind.make<SinkAttentionOp>(
      kind.type("sbngd"), kind.type("sbng"), q, k, v, kind.parameter(sinks),
      kind.segment(), kind.string("core_attention"),
      builder.getF64FloatAttr(spec.attentionScale),
      window > 0 ? builder.getI64IntegerAttr(window) : IntegerAttr());
  return op.getOutput();
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

Value ModelBuilder::experts(KindBuilder &kind, Value h) {
  const ExpertSpec &e = spec.experts;
  OpBuilder &builder = kind.attributes();
  auto parameter = [&](const char *symbol, const std::string &name,
                       const char *letters, Segment segment,
                       std::vector<int64_t> shape, const std::string &key) {
    return matrix(symbol, name, letters, segment, std::move(shape), key);
  };
  auto real = [&](double value) { return builder.getF64FloatAttr(value); };

  // The choice.
  kind.section(Segment::Router, e.countKey);
  Value router =
      kind.parameter(parameter("router", e.router + ".weight", "xh",
                               Segment::Router, {e.count, hidden}, e.countKey));
  Value logits = kind.contract(h, router, "sbh,xh->sbx", "router");
  auto zeroVector = [&](const char *symbol, const std::string &name) {
    ParameterSpec p =
        parameter(symbol, name, "x", Segment::Router, {e.count}, e.countKey);
    p.init = Init::Zeros;
    p.initScale = 0;
    return kind.parameter(p);
  };
  if (e.routerBias)
    logits = kind.biasAdd(logits, zeroVector("router_bias", e.router + ".bias"),
                          "sbx", "x", "router_bias");
  Value balance;
  if (e.balancingBias)
    balance =
        zeroVector("balancing_bias", e.router + ".e_score_correction_bias");
  const Score score = e.score == ExpertScore::Softmax   ? Score::Softmax
                      : e.score == ExpertScore::Sigmoid ? Score::Sigmoid
                                                        : Score::Chosen;
  auto route = kind.make<RouteOp>(
      kind.type("sbk"), kind.type("sbk", /*index=*/true), kind.type("bx"),
      logits, balance, kind.segment(), kind.string("route"),
      ScoreAttr::get(builder.getContext(), score),
      builder.getBoolAttr(e.normalize), real(e.scale), real(e.auxLoss),
      builder.getI64IntegerAttr(e.groups),
      builder.getI64IntegerAttr(e.topGroups));

  // Tokens to rows, rows to the owners of their experts, sorted there.
  Value ids = route.getExperts();
  Value rows = kind.make<DispatchOp>(kind.type("ch"), h, ids, kind.segment(),
                                     kind.string("dispatch"));
  auto select = [&](Value values, bool index, const char *label) -> Value {
    return kind.make<SelectRowsOp>(kind.type("c", index), values, ids,
                                   kind.segment(), kind.string(label),
                                   builder.getBoolAttr(false));
  };
  Value rowWeights = select(route.getWeights(), false, "row_weights");
  Value rowExperts = select(ids, true, "row_experts");
  kind.section(Segment::Experts, e.widthKey);
  auto order = kind.make<RowOrderOp>(kind.type("c", true), kind.type("c", true),
                                     rowExperts, kind.segment(),
                                     kind.string("row_order"));
  auto permute = [&](Value value, const char *letters, bool inverse,
                     const char *label) -> Value {
    return kind.make<PermuteRowsOp>(
        kind.type(letters), value, order.getOrder(), kind.segment(),
        kind.string(label), kind.string(letters), builder.getBoolAttr(inverse));
  };
  rows = permute(rows, "ch", false, "group_rows");
  rowWeights = permute(rowWeights, "c", false, "group_weights");

  // The experts themselves.
  auto expertMatrix = [&](const char *symbol, const std::string &name,
                          const char *letters, std::vector<int64_t> shape,
                          std::vector<int64_t> strides, int64_t offset) {
    ParameterSpec p = parameter(symbol, name, letters, Segment::Experts,
                                std::move(shape), e.widthKey);
    p.hfStrides = std::move(strides);
    p.hfOffset = offset;
    return p;
  };
  auto contract = [&](Value lhs, Value rhs, const char *letters,
                      const char *label) -> Value {
    return kind.make<GroupedContractOp>(
        kind.type(StringRef(letters).split("->").second), lhs, rhs,
        order.getSorted(), kind.segment(), kind.string(label),
        kind.string(letters));
  };
  auto bias = [&](Value value, const char *symbol, const std::string &name,
                  const char *letters, std::vector<int64_t> shape,
                  std::vector<int64_t> strides, int64_t offset,
                  Value weightsOfRows) -> Value {
    const std::string parameterLetters = std::string("x") + (letters + 1);
    ParameterSpec p =
        expertMatrix(symbol, name, parameterLetters.c_str(), std::move(shape),
                     std::move(strides), offset);
    p.init = Init::Zeros;
    p.initScale = 0;
    return kind.make<ExpertBiasOp>(kind.type(letters), value, kind.parameter(p),
                                   order.getSorted(), weightsOfRows,
                                   kind.segment(), kind.string(symbol),
                                   kind.string(letters));
  };
  const int64_t m = e.ffn;
  ParameterSpec wg, wu;
  if (e.interleaved || e.sideBySide) { // one tensor (expert, in, 2 m)
    const std::vector<int64_t> shape = {e.count, hidden, 2 * m};
    const std::vector<int64_t> strides = {hidden * 2 * m,
                                          e.interleaved ? 2 : 1, 2 * m};
    wg = expertMatrix("expert_gate", e.gate, "xmh", shape, strides, 0);
    wu = expertMatrix("expert_up", e.gate, "xmh", shape, strides,
                      e.interleaved ? 1 : m);
  } else {
    wg =
        expertMatrix("expert_gate", e.gate, "xmh", {e.count, m, hidden}, {}, 0);
    wu = expertMatrix("expert_up", e.up, "xmh", {e.count, m, hidden}, {}, 0);
  }
  Value gate = contract(rows, kind.parameter(wg), "ch,xmh->cm", "expert_gate");
  Value up = contract(rows, kind.parameter(wu), "ch,xmh->cm", "expert_up");
  if (e.bias) {
    gate = bias(gate, "expert_gate_bias", e.gateUpBias, "cm", {e.count, 2 * m},
                {2 * m, 2}, 0, Value());
    up = bias(up, "expert_up_bias", e.gateUpBias, "cm", {e.count, 2 * m},
              {2 * m, 2}, 1, Value());
  }
  Value act = kind.make<WeightedSwigluOp>(
      kind.type("cm"), gate, up, rowWeights, kind.segment(),
      kind.string("expert_act"), kind.string("cm"),
      e.limit > 0 ? real(e.limit) : FloatAttr(),
      builder.getBoolAttr(e.weighsInput));
  ParameterSpec wd =
      e.interleaved || e.downTransposed
          ? expertMatrix("expert_down", e.down, "xhm", {e.count, m, hidden},
                         {m * hidden, 1, hidden}, 0)
          : expertMatrix("expert_down", e.down, "xhm", {e.count, hidden, m}, {},
                         0);
  wd.initScale = residualScale();
  Value result = contract(act, kind.parameter(wd), "cm,xhm->ch", "expert_down");
  if (e.bias)
    result = bias(result, "expert_down_bias", e.downBias, "ch",
                  {e.count, hidden}, {}, 0, rowWeights);

  // Back to their tokens.
  result = permute(result, "ch", true, "ungroup_rows");
  kind.section(Segment::Router, e.countKey);
  result = kind.make<CombineOp>(kind.type("sbh"), result, ids, kind.segment(),
                                kind.string("combine"));
  if (e.sharedFfn == 0)
    return result;

  // Experts that every token passes through.
  auto sharedMatrix = [&](const char *symbol, const char *name,
                          const char *letters, std::vector<int64_t> shape) {
    return kind.parameter(parameter(symbol, e.shared + name, letters,
                                    Segment::Mlp, std::move(shape),
                                    e.widthKey));
  };
  Value sg = sharedMatrix("shared_gate", ".gate_proj.weight", "fh",
                          {e.sharedFfn, hidden});
  Value su =
      sharedMatrix("shared_up", ".up_proj.weight", "fh", {e.sharedFfn, hidden});
  Value sd = sharedMatrix("shared_down", ".down_proj.weight", "hf",
                          {hidden, e.sharedFfn});
  kind.section(Segment::Mlp, e.widthKey);
  Value g = kind.contract(h, sg, "sbh,fh->sbf", "shared_gate");
  Value u = kind.contract(h, su, "sbh,fh->sbf", "shared_up");
  Value a = kind.gated(g, u, spec.activation, "shared_act");
  Value shared = kind.contract(a, sd, "sbf,hf->sbh", "shared_down");
  if (e.sharedGate) {
    ParameterSpec p = parameter("shared_expert_gate", e.sharedGateName, "h",
                                Segment::Stream, {1, hidden}, e.widthKey);
    kind.section(Segment::Stream, e.widthKey);
    Value logit =
        kind.contract(h, kind.parameter(p), "sbh,h->sb", "shared_gate_logit");
    shared =
        kind.make<SigmoidGateOp>(kind.type("sbh"), shared, logit,
                                 kind.segment(), kind.string("shared_gated"));
  }
  kind.section(Segment::Stream, spec.keys.hidden);
  return kind.add(result, shared, "sbh", "experts_sum");
}

//===----------------------------------------------------------------------===//
// Multi-token prediction
//===----------------------------------------------------------------------===//

/// One module of DeepSeek-V3 (arXiv:2412.19437, section 2.2): the stream and
/// the embedding of the next token, normed, are projected into the stream of
/// one more layer, from which the shared head predicts the token after. Its
/// loss joins the step's at the end; no stream leaves the last stage.
Value ModelBuilder::laterLoss(KindBuilder &kind, Value x, Value labels,
                              Value headWeights) {
  auto norm = [&](Value value, const char *symbol) {
    Value weight = kind.parameter(
        vector(symbol, std::string("model.mtp.") + symbol + ".weight", "h",
               Segment::Stream, Init::Ones, spec.keys.norm));
    kind.section(Segment::Stream, spec.keys.norm);
    return kind.rmsNorm(value, weight, "sbh", symbol);
  };
  auto half = [&](const char *symbol, int64_t first) {
    ParameterSpec p =
        matrix(symbol, "model.mtp.eh_proj.weight", "ih", Segment::Stream,
               {hidden, 2 * hidden}, spec.keys.hidden);
    p.hfStrides = {2 * hidden, 1};
    p.hfOffset = first;
    return kind.parameter(p);
  };
  kind.section(Segment::Embed, spec.keys.vocab);
  ParameterSpec lookup = table("mtp_table", Segment::Embed, false);
  Value embedded =
      kind.embedding(labels, kind.parameter(lookup), "sbh", "mtp_embedding");
  Value e = norm(embedded, "mtp_embedding_norm");
  Value s = norm(x, "mtp_stream_norm");
  Value we = half("mtp_proj_embedding", 0),
        ws = half("mtp_proj_stream", hidden);
  kind.section(Segment::Stream, spec.keys.hidden);
  Value joined =
      kind.add(kind.contract(e, we, "sbh,ih->sbi", "mtp_proj_embedding"),
               kind.contract(s, ws, "sbh,ih->sbi", "mtp_proj_stream"), "sbi",
               "mtp_joined");
  joined = layerBody(kind, spec.kinds.back(), joined);
  Value h = norm(joined, "mtp_final_norm");
  kind.section(Segment::Head, spec.keys.vocab);
  Value logits = kind.contract(h, headWeights, "sbh,vh->sbv", "mtp_head");
  kind.section(Segment::Loss, spec.keys.vocab);
  Value next =
      kind.make<NextTokensOp>(kind.type("sb", /*index=*/true), labels,
                              kind.segment(), kind.string("mtp_labels"));
  Value loss = kind.crossEntropy(logits, next);
  cast<TokenLossOp>(loss.getDefiningOp()).setScale(APFloat(spec.mtpLossScale));
  return loss;
}

} // namespace shardwright

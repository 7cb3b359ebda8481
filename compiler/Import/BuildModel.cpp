#include "compiler/Import/BuildModel.h"

#include "compiler/Import/KindBuilder.h"
#include "dialects/Model/IR/ModelDialect.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

namespace {

/// The model's definition, as Hugging Face's LlamaForCausalLM and
/// GPT2LMHeadModel compute it. Norms and residual sums belong to the stream;
/// so does a bias that follows a row-split product: it is added once, after
/// the partial sums are finished.
class ModelBuilder {
public:
  ModelBuilder(const ModelSpec &spec, int64_t sequence, ModuleOp module)
      : spec(spec), module(module), hidden(spec.hidden), heads(spec.heads),
        headDim(spec.headDim), width(spec.heads * spec.headDim) {
    extents = {{'b', 1},
               {'s', sequence},
               {'h', spec.hidden},
               {'n', spec.kvHeads},
               {'g', spec.heads / spec.kvHeads},
               {'d', spec.headDim},
               {'f', spec.ffn},
               {'v', spec.vocab},
               {'p', spec.positions}};
  }

  void build() {
    if (llama()) {
      buildLlamaEmbed();
      buildLlamaDense();
    } else {
      buildGpt2Embed();
      buildGpt2Dense();
    }
    buildHead();
  }

private:
  bool llama() const { return spec.family == ModelFamily::Llama; }

  // Keys of the config, by family, that locations name.
  const char *hiddenKey() const { return llama() ? "hidden_size" : "n_embd"; }
  const char *headsKey() const {
    return llama() ? "num_attention_heads" : "n_head";
  }
  const char *ffnKey() const {
    return llama() ? "intermediate_size" : "n_inner";
  }
  const char *normKey() const {
    return llama() ? "rms_norm_eps" : "layer_norm_epsilon";
  }

  ParameterSpec matrix(const char *symbol, const std::string &hfName,
                       const char *letters, Segment segment,
                       std::vector<int64_t> hfShape, const char *key) {
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
  ParameterSpec vector(const char *symbol, const std::string &hfName,
                       const char *letters, Segment segment, Init init,
                       const char *key) {
    int64_t elements = 1;
    for (const char *letter = letters; *letter; ++letter)
      elements *= extents.lookup(*letter);
    ParameterSpec result =
        matrix(symbol, hfName, letters, segment, {elements}, key);
    result.init = init;
    result.initScale = 0;
    return result;
  }
  /// Token embedding, or the head that is tied to it.
  ParameterSpec table(const char *symbol, Segment segment, bool head) {
    std::string embedding =
        llama() ? "model.embed_tokens.weight" : "transformer.wte.weight";
    ParameterSpec result =
        matrix(symbol, head && !spec.tied ? "lm_head.weight" : embedding, "vh",
               segment, {spec.vocab, hidden}, "vocab_size");
    if (spec.tied)
      result.shared = embedding;
    return result;
  }

  void buildLlamaEmbed() {
    KindBuilder kind(module, spec, extents, "embed");
    kind.section(Segment::Embed, "vocab_size");
    Value ids = kind.tokens();
    Value weights = kind.parameter(table("table", Segment::Embed, false));
    kind.finish(kind.embedding(ids, weights, "embedding"),
                ResultKind::StreamOut);
  }

  void buildGpt2Embed() {
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

  void buildLlamaDense() {
    KindBuilder kind(module, spec, extents, "dense");
    kind.section(Segment::Stream, hiddenKey());
    const std::string layer = "model.layers.{}.";
    const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
    const int64_t kvWidth = spec.kvHeads * headDim;
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
        kind.parameter(vector("attn_norm", layer + "input_layernorm.weight",
                              "h", Segment::Stream, Init::Ones, normKey()));
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
    kind.finish(kind.add(r, down, "sbh", "mlp_residual"),
                ResultKind::StreamOut);
  }

  void buildGpt2Dense() {
    KindBuilder kind(module, spec, extents, "dense");
    kind.section(Segment::Stream, hiddenKey());
    const std::string layer = "transformer.h.{}.";
    // Conv1D keeps its matrix as (in, out). Projections back into the stream
    // start smaller: GPT-2 scales them by 1/sqrt(residual branches).
    const double residualScale =
        spec.initializerRange / std::sqrt(2.0 * spec.layers);
    auto conv = [&](const char *symbol, const std::string &hfName,
                    const char *letters, Segment segment, int64_t in,
                    int64_t out, std::vector<int64_t> strides, int64_t offset,
                    double scale, const char *key) {
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
    // q, k and v are one tensor: columns [0, w), [w, 2w), [2w, 3w).
    auto third = [&](const char *symbol, const char *letters, int64_t part) {
      std::vector<int64_t> strides = {headDim, 1, 3 * width};
      if (letters[1] == 'g')
        strides.insert(strides.begin() + 1, headDim); // one head a group
      return conv(symbol, layer + "attn.c_attn", letters, Segment::Attention,
                  hidden, 3 * width, strides, part * width,
                  spec.initializerRange, headsKey());
    };
    auto thirdBias = [&](const char *symbol, const char *letters,
                         int64_t part) {
      ParameterSpec parameter =
          vector(symbol, layer + "attn.c_attn.bias", letters,
                 Segment::Attention, Init::Zeros, headsKey());
      parameter.hfShape = {3 * width};
      parameter.hfOffset = part * width;
      return kind.parameter(parameter);
    };

    Value x = kind.streamIn();
    Value attnNorm = ones("attn_norm", layer + "ln_1");
    Value attnNormBias = zeros("attn_norm_bias", layer + "ln_1", "h",
                               Segment::Stream, normKey());
    Value wq = third("q_proj", "ngdh", 0), bq = thirdBias("q_bias", "ngd", 0);
    Value wk = third("k_proj", "ndh", 1), bk = thirdBias("k_bias", "nd", 1);
    Value wv = third("v_proj", "ndh", 2), bv = thirdBias("v_bias", "nd", 2);
    Value wo =
        conv("o_proj", layer + "attn.c_proj", "hngd", Segment::Attention, width,
             hidden, {1, headDim * hidden, headDim * hidden, hidden}, 0,
             residualScale, headsKey());
    Value bo = zeros("o_bias", layer + "attn.c_proj", "h", Segment::Stream,
                     hiddenKey());
    Value mlpNorm = ones("mlp_norm", layer + "ln_2");
    Value mlpNormBias =
        zeros("mlp_norm_bias", layer + "ln_2", "h", Segment::Stream, normKey());
    Value wu =
        conv("up", layer + "mlp.c_fc", "fh", Segment::Mlp, hidden, spec.ffn,
             {1, spec.ffn}, 0, spec.initializerRange, ffnKey());
    Value bu =
        zeros("up_bias", layer + "mlp.c_fc", "f", Segment::Mlp, ffnKey());
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
    kind.finish(kind.add(r, down, "sbh", "mlp_residual"),
                ResultKind::StreamOut);
  }

  void buildHead() {
    KindBuilder kind(module, spec, extents, "head");
    kind.section(Segment::Stream, hiddenKey());
    Value x = kind.streamIn();
    Value labels = kind.labels();
    const std::string norm = llama() ? "model.norm" : "transformer.ln_f";
    Value weight =
        kind.parameter(vector("final_norm", norm + ".weight", "h",
                              Segment::Stream, Init::Ones, normKey()));
    Value bias;
    if (!llama())
      bias = kind.parameter(vector("final_norm_bias", norm + ".bias", "h",
                                   Segment::Stream, Init::Zeros, normKey()));
    Value weights = kind.parameter(table("lm_head", Segment::Head, true));

    kind.section(Segment::Stream, normKey());
    Value h = llama() ? kind.rmsNorm(x, weight, "final_norm")
                      : kind.layerNorm(x, weight, bias, "final_norm");
    kind.section(Segment::Head, "vocab_size");
    Value logits = kind.contract(h, weights, "sbh,vh->sbv", "lm_head");
    kind.section(Segment::Loss, "vocab_size");
    kind.finish(kind.crossEntropy(logits, labels), ResultKind::Loss);
  }

  const ModelSpec &spec;
  ModuleOp module;
  int64_t hidden, heads, headDim, width;
  llvm::DenseMap<char, int64_t> extents;
};
} // namespace

OwningOpRef<ModuleOp> buildModel(const ModelSpec &spec, int64_t sequence,
                                 MLIRContext &context) {
  context.getOrLoadDialect<ModelDialect>();
  OpBuilder builder(&context);
  const char *layersKey =
      spec.family == ModelFamily::Llama ? "#/num_hidden_layers" : "#/n_layer";
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(NameLoc::get(builder.getStringAttr(spec.file + "#")));
  ModelBuilder(spec, sequence, *module).build();

  builder.setInsertionPointToEnd(module->getBody());
  auto run = [&](StringRef kind, int64_t count) -> Attribute {
    return builder.getArrayAttr(
        {builder.getStringAttr(kind), builder.getI64IntegerAttr(count)});
  };
  StackOp::create(
      builder, NameLoc::get(builder.getStringAttr(spec.file + layersKey)),
      builder.getArrayAttr(
          {run("embed", 1), run("dense", spec.layers), run("head", 1)}));

  SmallVector<NamedAttribute> program = {
      builder.getNamedAttr("name", builder.getStringAttr(spec.name)),
      builder.getNamedAttr(
          "family", builder.getStringAttr(std::string(name(spec.family))))};
  for (auto [key, value] : std::initializer_list<std::pair<StringRef, int64_t>>{
           {"sequence", sequence},
           {"vocab", spec.vocab},
           {"layers", spec.layers},
           {"heads", spec.heads},
           {"kv_heads", spec.kvHeads},
           {"head_dim", spec.headDim},
           {"hidden", spec.hidden},
           {"ffn", spec.ffn}})
    program.push_back(
        builder.getNamedAttr(key, builder.getI64IntegerAttr(value)));
  (*module)->setAttr(kProgramAttr, builder.getDictionaryAttr(program));
  (*module)->setAttr("sw.phase", builder.getStringAttr("imported"));
  if (!spec.notes.empty()) {
    SmallVector<StringRef> notes(spec.notes.begin(), spec.notes.end());
    (*module)->setAttr("model.notes", builder.getStrArrayAttr(notes));
  }
  return module;
}

bool importModel(const std::string &path, int64_t sequence,
                 MLIRContext &context, OwningOpRef<ModuleOp> &module,
                 cost::Failure &failure) {
  ModelSpec spec;
  int64_t chosen = 0;
  if (!readHfConfig(path, spec, failure) ||
      !chooseSequence(spec, sequence, chosen, failure))
    return false;
  module = buildModel(spec, chosen, context);
  if (succeeded(verify(*module)))
    return true;
  failure = {cost::FailureKind::Bug,
             {spec.file + ": expected the imported model to verify"}};
  return false;
}

} // namespace shardwright

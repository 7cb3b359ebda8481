#include "compiler/Import/ModelBuilder.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

ModelBuilder::ModelBuilder(const ModelSpec &spec, int64_t sequence,
                           ModuleOp module)
    : spec(spec), module(module), hidden(spec.hidden), headDim(spec.headDim),
      width(spec.heads * spec.headDim), kvWidth(spec.kvHeads * spec.headDim) {
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

void ModelBuilder::build() {
  switch (spec.family) {
  case ModelFamily::Llama:
    buildLlamaEmbed();
    buildLlamaDense();
    break;
  case ModelFamily::Gpt2:
    buildGpt2Embed();
    buildGpt2Dense();
    break;
  }
  buildHead();
}

const char *ModelBuilder::hiddenKey() const {
  return llama() ? "hidden_size" : "n_embd";
}
const char *ModelBuilder::headsKey() const {
  return llama() ? "num_attention_heads" : "n_head";
}
const char *ModelBuilder::ffnKey() const {
  return llama() ? "intermediate_size" : "n_inner";
}
const char *ModelBuilder::normKey() const {
  return llama() ? "rms_norm_eps" : "layer_norm_epsilon";
}

ParameterSpec ModelBuilder::matrix(const char *symbol,
                                   const std::string &hfName,
                                   const char *letters, Segment segment,
                                   std::vector<int64_t> hfShape,
                                   const char *key) const {
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

ParameterSpec ModelBuilder::vector(const char *symbol,
                                   const std::string &hfName,
                                   const char *letters, Segment segment,
                                   Init init, const char *key) const {
  int64_t elements = 1;
  for (const char *letter = letters; *letter; ++letter)
    elements *= extents.lookup(*letter);
  ParameterSpec result =
      matrix(symbol, hfName, letters, segment, {elements}, key);
  result.init = init;
  result.initScale = 0;
  return result;
}

ParameterSpec ModelBuilder::table(const char *symbol, Segment segment,
                                  bool head) const {
  std::string embedding =
      llama() ? "model.embed_tokens.weight" : "transformer.wte.weight";
  ParameterSpec result =
      matrix(symbol, head && !spec.tied ? "lm_head.weight" : embedding, "vh",
             segment, {spec.vocab, hidden}, "vocab_size");
  if (spec.tied)
    result.shared = embedding;
  return result;
}

void ModelBuilder::buildHead() {
  KindBuilder kind(module, spec, extents, "head");
  kind.section(Segment::Stream, hiddenKey());
  Value x = kind.streamIn();
  Value labels = kind.labels();
  const std::string norm = llama() ? "model.norm" : "transformer.ln_f";
  Value weight = kind.parameter(vector("final_norm", norm + ".weight", "h",
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

} // namespace shardwright

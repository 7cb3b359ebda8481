#include "compiler/Import/MegatronArguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace shardwright {

namespace {

/// The shortest text that reads back as `value`.
std::string real(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

class Writer {
public:
  Writer(const ModelSpec &spec, int64_t sequence)
      : spec(spec), sequence(sequence) {}

  MegatronModel write() {
    sizes();
    attention();
    norms();
    positions();
    feedForward();
    biases();
    experts();
    stream();
    training();
    return std::move(model);
  }

private:
  void say(const char *flag, const std::string &value = "") {
    model.arguments.push_back({flag, value});
  }
  void say(const char *flag, int64_t value) {
    say(flag, std::to_string(value));
  }
  void sayIf(bool wanted, const char *flag) {
    if (wanted)
      say(flag);
  }
  void leave(bool has, const std::string &what) {
    if (has)
      model.unsaid.push_back(what);
  }

  bool isLatent() const { return spec.latent.kvRank > 0; }

  void sizes() {
    say("--num-layers", spec.layers);
    say("--hidden-size", spec.hidden);
    say("--ffn-hidden-size", spec.ffn);
    say("--num-attention-heads", spec.heads);
    say("--vocab-size", spec.vocab);
    sayIf(!spec.tied, "--untie-embeddings-and-output-weights");
  }

  void attention() {
    if (isLatent()) {
      const LatentSpec &latent = spec.latent;
      say("--multi-latent-attention");
      if (latent.qRank > 0)
        say("--q-lora-rank", latent.qRank);
      say("--kv-lora-rank", latent.kvRank);
      say("--qk-head-dim", latent.nope);
      say("--qk-pos-emb-head-dim", latent.rope);
      say("--v-head-dim", latent.value);
      say("--kv-channels", latent.value);
      say("--qk-layernorm"); // of the low-rank streams
    } else {
      if (spec.kvHeads != spec.heads) {
        say("--group-query-attention");
        say("--num-query-groups", spec.kvHeads);
      }
      say("--kv-channels", spec.headDim);
      sayIf(spec.qkNorm == QkNorm::PerHead, "--qk-layernorm");
      leave(spec.qkNorm != QkNorm::None && spec.qkNorm != QkNorm::PerHead,
            "a norm of queries and keys that is not an RMS norm of each head");
    }
    const int64_t width =
        isLatent() ? spec.latent.nope + spec.latent.rope : spec.headDim;
    const double usual = 1 / std::sqrt(static_cast<double>(width));
    leave(spec.attentionScale != 0 &&
              std::abs(spec.attentionScale - usual) > 1e-6 * usual,
          "attention scores of a scale of its own");
    leave(spec.attentionSoftcap != 0, "capped attention scores");
    leave(spec.attentionSinks, "attention sinks");
    leave(spec.qkvClip != 0, "clipped queries, keys and values");
    windows();
  }

  void windows() {
    const int64_t window = spec.kinds.front().window;
    bool alike = true, chunks = false, scaled = false;
    for (const LayerKind &kind : spec.kinds) {
      alike = alike && kind.window == window;
      chunks = chunks || kind.chunk > 0;
      scaled = scaled || kind.scaleFloor > 0;
    }
    // Its window counts the keys before a position, without the own one.
    if (alike && window > 0)
      say("--window-size", std::to_string(window - 1) + ",0");
    leave(!alike, "windows of attention that differ among layers");
    leave(chunks, "attention within chunks of the sequence");
    leave(scaled, "queries that grow with their position");
  }

  void norms() {
    const bool rms = spec.norm == NormKind::Rms ||
                     spec.norm == NormKind::RmsUnitOffset;
    say("--normalization", rms ? "RMSNorm" : "LayerNorm");
    say("--norm-epsilon", real(spec.normEps));
    sayIf(spec.norm == NormKind::RmsUnitOffset, "--apply-layernorm-1p");
    leave(spec.norm == NormKind::LayerWeight ||
              spec.norm == NormKind::LayerPlain,
          "layer norms without bias");
    leave(!spec.names.attnPostNorm.empty() || !spec.names.mlpPostNorm.empty(),
          "norms behind attention and MLP");
    leave(spec.normAfterSum, "norms behind the sums");
    leave(spec.residualFromNorm, "sums that add to the normed stream");
    leave(spec.parallel, "attention and MLP side by side");
  }

  void positions() {
    const Rope &rope = spec.kinds.front().rope;
    for (const LayerKind &kind : spec.kinds)
      if (!(kind.rope == rope)) {
        leave(true, "rotary positions that differ among layers");
        break;
      }
    const bool turns = rope.width != 0;
    say("--position-embedding-type", spec.learnsPositions() ? "learned_absolute"
                                     : turns                ? "rope"
                                                            : "none");
    say("--max-position-embeddings", std::max(spec.positions, sequence));
    leave(spec.alibi != 0, "linear biases of attention (ALiBi)");
    leave(spec.positionOffset != 0,
          "rows of the position table before the first position");
    if (!turns || spec.learnsPositions())
      return;
    const auto base = static_cast<int64_t>(rope.theta);
    if (static_cast<double>(base) == rope.theta)
      say("--rotary-base", base);
    leave(static_cast<double>(base) != rope.theta,
          "a rotary base that is no integer, " + real(rope.theta));
    if (rope.width > 0 && !isLatent() && rope.width != spec.headDim)
      say("--rotary-percent", real(static_cast<double>(rope.width) /
                                   static_cast<double>(spec.headDim)));
    sayIf(rope.interleaved && !isLatent(), "--rotary-interleaved");
    scaling(rope);
  }

  void scaling(const Rope &rope) {
    if (!rope.scaling) {
      if (isLatent())
        say("--rope-type", "rope"); // its default is YaRN
      return;
    }
    // The builder passes no factor on, and the other three are constants there.
    const RopeScaling &scaling = *rope.scaling;
    const bool llama = scaling.type == RopeScaling::Type::Llama3 &&
                       scaling.factor == 8 && scaling.lowFreqFactor == 1 &&
                       scaling.highFreqFactor == 4 &&
                       scaling.originalPositions == 8192;
    sayIf(llama, "--use-rope-scaling");
    leave(!llama, "scaled rotary frequencies");
  }

  void feedForward() {
    const Activation activation = spec.activation;
    sayIf(spec.gated && activation == Activation::Silu, "--swiglu");
    leave(spec.gated && activation != Activation::Silu,
          "a gated MLP that is not SwiGLU");
    if (spec.gated)
      return;
    // Its fused kernel is the tanh form, for products with bias alone.
    sayIf(activation == Activation::Gelu, "--no-bias-gelu-fusion");
    leave(activation == Activation::GeluTanh && !spec.upBias,
          "the tanh form of GELU behind a product without bias");
    leave(activation == Activation::Relu || activation == Activation::Silu,
          "an MLP without gate that is not GELU");
  }

  void biases() {
    const bool others = spec.outputBias || spec.upBias || spec.downBias;
    const bool all = spec.qkvBias && spec.outputBias && spec.upBias &&
                     spec.downBias;
    sayIf(!others, "--disable-bias-linear");
    sayIf(!others && spec.qkvBias, "--add-qkv-bias");
    leave(others && !all, "biases in some of the products that are not q, k "
                          "and v alone");
    leave(spec.headBias, "a bias of the head");
  }

  void experts() {
    const ExpertSpec &experts = spec.experts;
    if (experts.count == 0)
      return;
    say("--num-experts", experts.count);
    say("--moe-router-topk", experts.topK);
    say("--moe-ffn-hidden-size", experts.ffn);
    layersOfExperts();
    if (experts.sharedFfn > 0)
      say("--moe-shared-expert-intermediate-size", experts.sharedFfn);
    sayIf(experts.sharedGate, "--moe-shared-expert-gate");
    const bool sigmoid = experts.score == ExpertScore::Sigmoid;
    say("--moe-router-score-function", sigmoid ? "sigmoid" : "softmax");
    // Softmax over the chosen ones is softmax over all, normalized.
    sayIf(experts.score == ExpertScore::Softmax && !experts.normalize,
          "--moe-router-pre-softmax");
    leave(sigmoid && !experts.normalize && experts.topK > 1,
          "sigmoid weights of experts that are not normalized");
    if (experts.scale != 1)
      say("--moe-router-topk-scaling-factor", real(experts.scale));
    if (experts.groups > 1) {
      say("--moe-router-num-groups", experts.groups);
      say("--moe-router-group-topk", experts.topGroups);
    }
    // Megatron takes the sum of the best topk / group_topk of a group.
    leave(experts.groups > 1 && !sigmoid,
          "groups of experts that are chosen by their best one");
    sayIf(experts.balancingBias, "--moe-router-enable-expert-bias");
    if (experts.auxLoss > 0)
      say("--moe-aux-loss-coeff", real(experts.auxLoss));
    leave(experts.routerBias || experts.bias, "biases of router or experts");
    leave(experts.limit != 0, "experts with clipped gates");
    leave(experts.weighsInput, "weights that scale what experts read");
  }

  /// "([0]*3+[1]*58)": whether the layers of a run have experts.
  void layersOfExperts() {
    std::string pattern;
    bool everywhere = true;
    for (const LayerRun &run : spec.stack) {
      const bool has = spec.kinds[static_cast<size_t>(run.kind)].experts;
      everywhere = everywhere && has;
      pattern +=
          std::string(pattern.empty() ? "" : "+") + (has ? "[1]" : "[0]");
      pattern += "*" + std::to_string(run.count);
    }
    if (!everywhere)
      say("--moe-layer-freq", "(" + pattern + ")");
  }

  void stream() {
    leave(!spec.names.embeddingNorm.empty(), "a norm behind the embedding");
    leave(spec.embeddingWidth != 0, "an embedding narrower than the stream");
    leave(spec.embeddingScale != 1, "a scaled embedding");
    leave(spec.logitSoftcap != 0, "capped logits");
  }

  void training() {
    say("--attention-dropout", "0.0");
    say("--hidden-dropout", "0.0");
    say("--init-method-std", real(spec.initializerRange));
  }

  const ModelSpec &spec;
  const int64_t sequence;
  MegatronModel model;
};

} // namespace

MegatronModel megatronArguments(const ModelSpec &spec, int64_t sequence) {
  return Writer(spec, sequence).write();
}

} // namespace shardwright

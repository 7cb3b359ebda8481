//===- ModelSpec.h - What a decoder computes --------------------*- C++ -*-===//
//
// One value for all families: a family is a choice of these fields, and the
// names of its tensors. Readers of configs fill it in, ModelBuilder builds it.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_MODELSPEC_H
#define SHARDWRIGHT_COMPILER_IMPORT_MODELSPEC_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwright {

/// Frequencies of the rotary embedding for contexts longer than trained on.
struct RopeScaling {
  enum class Type { Linear, Llama3, Yarn, Long };
  Type type = Type::Linear;
  double factor = 1.0;
  double lowFreqFactor = 1.0, highFreqFactor = 4.0; ///< Llama3 only
  int64_t originalPositions = 0;                    ///< all but Linear
  double betaFast = 32, betaSlow = 1;               ///< Yarn only
  bool truncate = true;       ///< Yarn only: between whole pairs of columns
  double attentionFactor = 1; ///< Yarn and Long: of the rotated columns
  double allDimFactor = 1;    ///< Yarn only: of all columns (mscale_all_dim)
  /// Long only: divisors of the frequencies, for sequences up to
  /// originalPositions and past them.
  std::vector<double> shortFactors, longFactors;
  bool operator==(const RopeScaling &) const = default;
};

struct Rope {
  double theta = 10000.0;
  int64_t width = -1;       ///< columns of a head that turn; 0 none, -1 all
  bool interleaved = false; ///< neighbours are a pair, not halves
  std::optional<RopeScaling> scaling;
  bool operator==(const Rope &) const = default;
};

/// Layers that run the same code.
struct LayerKind {
  std::string name = "dense";
  int64_t window = 0; ///< keys that a position sees at most; 0 for all before
  Rope rope;
  bool experts = false; ///< routed experts in place of the MLP
  int64_t chunk = 0;    ///< positions that see each other alone; 0 for all
  /// Queries have a factor 1 + scaleStrength * log(1 + floor((position + 1) /
  /// scaleFloor)); 0: none.
  int64_t scaleFloor = 0;
  double scaleStrength = 0;
  bool operator==(const LayerKind &) const = default;
};
struct LayerRun {
  int kind; ///< in ModelSpec::kinds
  int64_t count;
  bool operator==(const LayerRun &) const = default;
};

enum class NormKind {
  Rms,
  RmsUnitOffset, ///< weight 1 + w
  Layer,         ///< weight and bias
  LayerWeight,   ///< weight alone
  LayerPlain,    ///< neither
};
enum class Activation { Silu, Gelu, GeluTanh, Relu };
/// Norm of queries and keys before they turn.
enum class QkNorm {
  None,
  PerHead, ///< one weight for all heads
  Layer,   ///< layer norm with bias, the same for all heads
  Whole,   ///< over all heads together
  Turned,  ///< RMS norm without weight, behind the rotation, where there is one
};
/// Where q, k and v lie in the tensors of a checkpoint.
enum class QkvLayout {
  Separate,
  SideBySide, ///< one tensor: all of q, all of k, all of v
  PerKvHead,  ///< one tensor: per key/value head its queries, key and value
};

/// How the router makes weights of its logits.
enum class ExpertScore {
  Softmax, ///< over all experts
  Sigmoid,
  Chosen, ///< softmax over the chosen ones
};

/// Routed experts of the layers that have them. In names of tensors `{x}`
/// stands for the number of the expert; such tensors are read as one of which
/// the expert is the first dim.
struct ExpertSpec {
  int64_t count = 0; ///< 0: the model has none
  int64_t topK = 0, ffn = 0;
  int64_t sharedFfn = 0;   ///< width of all shared experts together; 0: none
  bool sharedGate = false; ///< the shared ones are gated per token
  ExpertScore score = ExpertScore::Softmax;
  bool normalize = false; ///< weights of a token sum to `scale`
  double scale = 1.0;
  double auxLoss = 0;
  int64_t groups = 1, topGroups = 1;
  bool balancingBias = false; ///< a bias for the choice alone
  bool routerBias = false, bias = false;
  double limit = 0; ///< gpt-oss: gate and up are clipped
  bool weighsInput = false; ///< weights scale what an expert reads
  /// gate and up are one tensor per expert, interleaved column by column.
  bool interleaved = false;
  bool sideBySide = false;     ///< the same, all columns of gate before up's
  bool downTransposed = false; ///< lies as (in, out)
  std::string router = "model.layers.{}.mlp.gate";
  std::string gate = "model.layers.{}.mlp.experts.{x}.gate_proj.weight";
  std::string up = "model.layers.{}.mlp.experts.{x}.up_proj.weight";
  std::string down = "model.layers.{}.mlp.experts.{x}.down_proj.weight";
  std::string gateUpBias, downBias;
  std::string shared = "model.layers.{}.mlp.shared_experts";
  std::string sharedGateName = "model.layers.{}.mlp.shared_expert_gate.weight";
  std::string widthKey = "moe_intermediate_size", countKey = "num_experts";
};

/// Latent attention: keys and values (and queries) from a low-rank stream, and
/// one rotary key for all heads.
struct LatentSpec {
  int64_t kvRank = 0;                    ///< 0: ordinary attention
  int64_t qRank = 0;                     ///< 0: queries are projected directly
  int64_t nope = 0, rope = 0, value = 0; ///< widths of a head
};

/// Names in a checkpoint; `{}` stands for the layer number. An empty norm is
/// absent. ".weight" and ".bias" follow, except after `embedding`,
/// `positions` and `head`, which are whole names.
struct TensorNames {
  std::string embedding = "model.embed_tokens.weight";
  std::string positions;     ///< empty: none are learned
  std::string embeddingNorm; ///< between embedding and first layer
  /// Between a narrower embedding and the stream, and back before the head.
  std::string projectIn, projectOut;
  std::string attnNorm = "model.layers.{}.input_layernorm";
  std::string attnPostNorm; ///< of the attention's result
  std::string q = "model.layers.{}.self_attn.q_proj";
  std::string k = "model.layers.{}.self_attn.k_proj";
  std::string v = "model.layers.{}.self_attn.v_proj";
  std::string qkv; ///< of fused layouts
  std::string qNorm = "model.layers.{}.self_attn.q_norm";
  std::string kNorm = "model.layers.{}.self_attn.k_norm";
  std::string o = "model.layers.{}.self_attn.o_proj";
  std::string mlpNorm = "model.layers.{}.post_attention_layernorm";
  std::string mlpPostNorm;
  std::string gate = "model.layers.{}.mlp.gate_proj";
  std::string up = "model.layers.{}.mlp.up_proj";
  std::string gateUp; ///< gate and up in one tensor, side by side
  std::string down = "model.layers.{}.mlp.down_proj";
  std::string finalNorm = "model.norm";
  std::string head = "lm_head.weight"; ///< if it is not tied
  std::string headBias = "lm_head.bias";
};

/// Keys of a config, as locations of ops and messages name them too. Where a
/// family has no key of its own: kvHeads is that of heads, headDim is empty.
struct ConfigKeys {
  std::string layers = "num_hidden_layers", hidden = "hidden_size",
              heads = "num_attention_heads", kvHeads = "num_key_value_heads",
              headDim = "head_dim", ffn = "intermediate_size",
              norm = "rms_norm_eps", initializer = "initializer_range",
              positions = "max_position_embeddings", rope = "rope_theta",
              attentionBias = "attention_bias", mlpBias = "mlp_bias",
              window = "sliding_window", chunk = "attention_chunk_size",
              scaleFloor = "floor_scale", vocab = "vocab_size";
};

/// Everything that decides what a model computes, validated: a ModelSpec that
/// a reader has returned, or that has passed checkSpec, builds without further
/// checks.
struct ModelSpec {
  std::string name; ///< of the folder, or of the file if it is not config.json
  std::string file; ///< as locations and messages name it
  std::string family; ///< model_type of the config

  int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kvHeads = 0, headDim = 0;
  int64_t vocab = 0;
  int64_t positions = 0; ///< longest sequence of the config, 0 if not stated

  /// Kinds of layers and their order; no runs: all layers are of kind 0.
  std::vector<LayerKind> kinds = {LayerKind()};
  std::vector<LayerRun> stack;

  NormKind norm = NormKind::Rms;
  double normEps = 1e-6;
  /// x + attention(norm(x)) + mlp(norm(x)) instead of one after the other.
  /// Without a name for the second norm both read the first.
  bool parallel = false;
  /// The first sum of a layer adds to the normed stream.
  bool residualFromNorm = false;
  /// norm(x + attention(x)), norm(x + mlp(x)): the norms of names.attnNorm and
  /// names.mlpNorm stand behind the sums.
  bool normAfterSum = false;

  QkvLayout qkv = QkvLayout::Separate;
  QkNorm qkNorm = QkNorm::None;
  double attentionScale = 0; ///< factor of the scores; 0: 1/sqrt(headDim)
  double attentionSoftcap = 0;
  double alibi = 0; ///< factor of the linear biases; 0: none

  bool gated = true; ///< act(gate) * up
  Activation activation = Activation::Silu;

  bool tied = false; ///< the head uses the embedding table
  bool qkvBias = false, outputBias = false, upBias = false, downBias = false,
       headBias = false;
  bool transposed = false; ///< matrices lie as (in, out)

  int64_t positionOffset = 0; ///< rows of the position table before the first
  int64_t embeddingWidth = 0; ///< of tables narrower than the stream; 0: hidden
  double embeddingScale = 1.0;
  double logitSoftcap = 0;

  ExpertSpec experts;
  LatentSpec latent;
  bool attentionSinks = false;
  double qkvClip = 0; ///< q, k, v stay within it; 0: no limit
  /// Modules behind the last layer that predict a token more; built only where
  /// a caller asks for them (no Hugging Face model has them).
  int64_t mtpLayers = 0;
  double mtpLossScale = 0.1;

  double initializerRange = 0.02;
  /// Projections back into the stream start smaller: by
  /// 1/sqrt(residual branches), as GPT-2 does.
  bool scaledResidualInit = false;

  TensorNames names;
  ConfigKeys keys;

  /// What the reader left out on purpose and a user may want to know.
  std::vector<std::string> notes;

  bool learnsPositions() const { return !names.positions.empty(); }
};

/// The fields that make a family, without sizes: Llama (RMS norm, rotary
/// positions, gated MLP) and GPT-2 (layer norm with bias, learned positions,
/// biases everywhere).
ModelSpec llamaSpec();
ModelSpec gpt2Spec();

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_MODELSPEC_H

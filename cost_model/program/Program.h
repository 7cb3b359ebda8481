//===- Program.h - The unsharded step as plain data -------------*- C++ -*-===//
//
// Extracted from the differentiated model IR (sw-extract-program), or read
// from program.json. Sizes are global, of ONE sequence (batch 1) and of the
// unpadded vocabulary; a plan scales dims of role Batch and Vocab (see
// Assignment.h). Everything the cost model knows of a model is here.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_PROGRAM_PROGRAM_H
#define SHARDWRIGHT_COST_MODEL_PROGRAM_PROGRAM_H

#include "cost_model/IterationSpace.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// Which results of the forward pass are saved for the backward pass.
/// None = every label is saved; Selective = all but the attention core;
/// Full = only the stream that enters the layer.
enum class Recompute { None, Selective, Full };
std::string_view name(Recompute recompute);

struct Dim {
  int64_t size;
  Role role;
  bool operator==(const Dim &) const = default;
};

using ValueId = int32_t;

struct Value {
  std::vector<Dim> dims; ///< outer to inner; empty for a scalar
  Precision precision = Precision::Compute;
  bool operator==(const Value &) const = default;
};

enum class ArgKind {
  StreamIn,   ///< x, the stream entering the kind (kept in the slot)
  StreamGrad, ///< dy, gradient of the stream leaving the kind
  Parameter,
  Saved,
  Kept,
  Tokens,     ///< input ids, i32 [s, b]
  Labels,     ///< target ids, i32 [s, b]
};
enum class ResultKind { StreamOut, StreamGrad, Saved, Kept, ParameterGrad, Loss };

/// `index` counts within its kind: parameter number, saved value number, ...
struct Argument {
  ArgKind kind;
  int32_t index;
  ValueId value;
  bool operator==(const Argument &) const = default;
};
struct Result {
  ResultKind kind;
  int32_t index;
  ValueId value;
  bool operator==(const Result &) const = default;
};

struct Op {
  std::string name;  ///< for reports only; nothing may branch on it
  std::string label; ///< recompute label, may be empty
  Segment segment = Segment::Stream;
  IterationSpace space;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  bool operator==(const Op &) const = default;
};

/// Attention itself: neither its projections nor what positions do to them.
bool isAttentionCore(const Op &op);
/// A matrix product, of experts or not.
bool isProduct(const Op &op);
/// Whether products of `segment` may run in 8 or 4 bits: head, embedding, loss
/// and router stay in 16.
bool mayBeNarrow(Segment segment);

/// Straight-line code in topological order.
struct Function {
  std::vector<Value> values;
  std::vector<Argument> arguments;
  std::vector<Op> ops;
  std::vector<Result> results;
  bool empty() const { return ops.empty() && results.empty(); }
  bool operator==(const Function &) const = default;
};

enum class Init { Zeros, Ones, Normal };

struct Parameter {
  std::string hfName; ///< `{}` stands for the layer number
  std::vector<Dim> dims;
  Segment segment = Segment::Stream; ///< segment of its uses (one per parameter)
  /// Element (i0, i1, ...) is element hfOffset + sum(ik * hfStrides[k]) of the
  /// Hugging Face tensor. Lets a fused tensor (GPT-2 c_attn) be several
  /// parameters.
  std::vector<int64_t> hfStrides;
  int64_t hfOffset = 0;
  std::vector<int64_t> hfShape;
  Init init = Init::Normal;
  double initScale = 0.02; ///< standard deviation, for Normal
  bool decay = true;       ///< AdamW weight decay applies
  /// Non-empty: one parameter used by several kinds (tied embedding). All
  /// parameters with the same name here are the same tensor.
  std::string shared;
  bool operator==(const Parameter &) const = default;
};

/// The three functions of a kind under one recompute policy.
struct KindVariant {
  Recompute policy = Recompute::None;
  Function forward, dataGrad, weightGrad;
  bool operator==(const KindVariant &) const = default;
};

struct Kind {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<KindVariant> variants; ///< Recompute::None first
  bool operator==(const Kind &) const = default;

  /// The variant for `policy`; kinds without it (embed, head) answer None.
  const KindVariant &variant(Recompute policy) const;
};

struct Run {
  int32_t kind;
  int64_t count;
  bool operator==(const Run &) const = default;
};

struct Program {
  std::string name;   ///< of the model, from the config or its folder
  std::string family; ///< llama, gpt2, ...
  int64_t sequence = 0;
  int64_t vocab = 0;  ///< unpadded
  int64_t layers = 0; ///< repeated layers, without embedding and head
  int64_t heads = 0, kvHeads = 0, headDim = 0, hidden = 0, ffn = 0;
  int64_t experts = 0; ///< routed experts of a layer; 0: none
  int64_t topK = 0;    ///< experts that work on a token
  std::vector<Kind> kinds;
  std::vector<Run> stack;
  bool operator==(const Program &) const = default;
};

/// Index of the kind named `kind`, or -1.
int kindIndex(const Program &program, std::string_view kind);
/// Whether the forward function of `kind` takes / gives a stream: layers, which
/// repeat, do both, the embedding only gives one, the head only takes one.
bool takesStream(const Kind &kind);
bool givesStream(const Kind &kind);
bool isLayer(const Kind &kind);

/// Number of parameters, each shared tensor once, without padding.
int64_t parameterCount(const Program &program);
/// The same with topK of the experts only: what one token passes through, with
/// embedding and head.
int64_t activeParameterCount(const Program &program);
/// Elements of one parameter, unpadded.
int64_t elementCount(const Parameter &parameter);

/// MFU conventions (all count 2 flops per multiply-add and backward as twice
/// forward, recomputation never).
enum class FlopsConvention {
  CausalHalved, ///< default: attention pairs on and below the diagonal; logits counted
  FullAttention,///< PaLM: every pair counted
  SixN,         ///< 6 * active parameters * tokens without embedding lookup, no
                ///< attention
};
std::string_view name(FlopsConvention convention);

/// Model flops of one training token (forward + backward). Double: whole-job
/// totals may pass 2^63.
double modelFlopsPerToken(const Program &program, FlopsConvention convention);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PROGRAM_PROGRAM_H

//===- RowProgram.h - A fused group of row ops as plain data ----*- C++ -*-===//
//
// What the row emitter turns into one function. No LLVM and no MLIR type here,
// so that a test can write one down by hand.
//
// A program runs over `outer * inner` rows: outer is the sequence, inner the
// sequences of the microbatch. Every buffer is dense; a row of a tensor with
// `width` elements starts at row * width. Row statistics have one element a
// row; weights and tables have no rows.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_ROWPROGRAM_H
#define SHARDWRIGHT_COMPILER_CODEGEN_ROWPROGRAM_H

#include <cstdint>
#include <string>
#include <vector>

namespace shardwright::codegen {

/// What a buffer stores. Arithmetic is done in f32 or f64: bf16 is read as f32,
/// and a result is rounded once, to nearest even, when it is stored.
enum class Element { F32, F64, BF16 };
int64_t bytesOf(Element element);

/// Activation of a gated unit.
enum class GateKind { Silu, Gelu, GeluTanh };

/// In the formulas x, y, ... are elements of a row, `row` numbers rows, `c`
/// columns, `s` is row / inner. Operands and results in the order written.
enum class RowOpKind {
  // Maps.
  Add,        ///< (x, y) -> x + y
  BiasAdd,    ///< (x, bias[width]) -> x + bias
  Swiglu,     ///< (gate, up) -> act(gate) * up
  SwigluGrad, ///< (dy, gate, up) -> dgate, dup
  Gelu,       ///< (x) -> gelu(x), tanh form if `approximate`, else erf
  GeluGrad,   ///< (dy, x) -> dx
  Relu,       ///< (x) -> max(x, 0)
  ReluGrad,   ///< (dy, y) -> dy where y > 0, else 0
  Scale,      ///< (x) -> scale * x
  Softcap,    ///< (x) -> scale * tanh(x / scale)
  SoftcapGrad, ///< (dy, y) -> dy * (1 - (y / scale)^2)
  Fill,       ///< () -> scale
  Clip,       ///< (x) -> x within [-scale, scale]
  ClipGrad,   ///< (dy, x) -> dy where x is within, else 0
  AddPositions, ///< (x, table[p, width]) -> x + table[origin + s + tableOffset]
  Rope,       ///< (x) -> x rotated by position, per head of headDim columns
  // Norms: reduce along the row, then map.
  RmsNorm,       ///< (x, w[width]) -> y, rstd[row]
  RmsNormGrad,   ///< (dy, x, w, rstd) -> dx
  SquareSum,     ///< (x) -> [row] sum of x^2
  RmsApply,      ///< (x, w[width], sum[row]) -> y, rstd[row], of `count` columns
  RowDot,        ///< (dy, x, w[width]) -> [row] sum of dy * w * x
  RmsApplyGrad,  ///< (dy, x, w, rstd, dot[row]) -> dx
  LayerNorm,     ///< (x, w, bias) -> y, mean[row], rstd[row]
  LayerNormGrad, ///< (dy, x, w, mean, rstd) -> dx
  // Cross entropy over a row of logits; columns of this rank start at the
  // column origin, those at or past validColumns count as -inf.
  MaxLogit,    ///< (logits) -> max[row]
  SumExp,      ///< (logits, max) -> sum[row] of exp(logit - max)
  TargetLogit, ///< (logits, labels) -> logit of the label, 0 if not here
  SoftmaxGrad, ///< (logits, max, sum, labels) -> scale * (softmax - onehot)
  // Sums over rows.
  TokenLoss, ///< (max, sum, target) -> [1] scale * sum(log(sum) + max - target)
  ColumnSum, ///< (x) -> [width] sum of rows
  RmsNormWeightGrad,   ///< (dy, x, rstd) -> [width] sum of dy * x * rstd
  LayerNormWeightGrad, ///< (dy, x, mean, rstd) -> sum of dy * (x - mean) * rstd
  AddPositionsGrad,    ///< (dy) -> table[p, width], sum over the rows of a position
};

/// Who emits an op of a kind.
enum class RowOpFamily {
  Map, ///< column c of the results depends on column c of the operands alone
  Rope,
  Norm,
  CrossEntropy,
  RowSum, ///< sums over rows, and so cannot share a row loop
};
RowOpFamily familyOf(RowOpKind kind);

inline bool reducesRows(RowOpKind kind) {
  return familyOf(kind) == RowOpFamily::RowSum;
}
inline bool isMap(RowOpKind kind) { return familyOf(kind) == RowOpFamily::Map; }

struct RowOp {
  RowOpKind kind = RowOpKind::Add;
  std::vector<int> operands; ///< buffer numbers
  std::vector<int> results;  ///< buffer numbers
  int64_t width = 1;         ///< columns of a row
  /// Results are added to what their buffers hold.
  bool accumulate = false;
  double eps = 0;            ///< norms
  double scale = 1; ///< SoftmaxGrad, TokenLoss, Scale, Rope; cap; filling; limit
  int64_t count = 0;         ///< RmsApply, RmsApplyGrad: columns on all ranks
  int64_t validColumns = 0;  ///< cross entropy, global
  int64_t tableRows = 0;     ///< AddPositionsGrad: p
  int64_t tableOffset = 0;   ///< AddPositions and its gradient
  GateKind gate = GateKind::Silu; ///< Swiglu and its gradient
  bool unitOffset = false;   ///< RmsNorm and its gradient: 1 + w, not w
  bool approximate = false;  ///< Gelu
  bool inverse = false;      ///< Rope: rotate back (its gradient)
  int64_t headDim = 0;       ///< Rope
  bool interleaved = false;  ///< Rope: pairs of neighbours, not of halves
  /// Rope: one per rotated pair of columns; columns past them pass through.
  std::vector<double> inverseFrequencies = {};
  bool operator==(const RowOp &) const = default;
};

struct RowProgram {
  std::string name; ///< of the function
  Element element = Element::F32; ///< of arithmetic: F32 or F64
  int64_t outer = 1, inner = 1;
  int buffers = 0;
  std::vector<RowOp> ops;
  /// What each buffer stores; empty: all as `element`. Labels are i32, whatever
  /// stands here.
  std::vector<Element> storage = {};
  Element stored(int buffer) const {
    return storage.empty() ? element : storage[buffer];
  }
};

/// What the buffers of an AdamW update store; m and v are as the master.
struct UpdateTypes {
  Element master = Element::F32, gradient = Element::F32,
          parameter = Element::F32;
};

/// Ops [first, last) of a program that run one after the other on each row, or
/// one op that sums over rows.
struct RowGroup {
  size_t first = 0, last = 0;
  bool sumsRows = false;
};
std::vector<RowGroup> rowGroups(const RowProgram &program);

/// How a config scales rotary frequencies.
struct RopeScaling {
  enum class Kind { None, Linear, Llama3, Yarn, Long } kind = Kind::None;
  double factor = 1;
  double lowFreqFactor = 1, highFreqFactor = 4;
  double originalMaxPositions = 8192;
  double betaFast = 32, betaSlow = 1;  ///< Yarn
  bool truncate = true;                ///< Yarn: blend between whole pairs
  std::vector<double> factors = {};    ///< Long: one per pair of columns
};

/// theta^(-2i / headDim) for i < headDim / 2, scaled.
/// Llama 3: wavelengths up to original / high stay, those past original / low
/// are divided by the factor, those between are blended linearly in
/// original / wavelength. Yarn: pairs that turn more than betaFast times within
/// the original positions stay, those that turn less than betaSlow times are
/// divided, those between are blended linearly in i. Source: Hugging Face
/// transformers, modeling_rope_utils.py, _compute_llama3_parameters and
/// _compute_yarn_parameters.
std::vector<double> ropeInverseFrequencies(double theta, int64_t headDim,
                                           const RopeScaling &scaling);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_ROWPROGRAM_H

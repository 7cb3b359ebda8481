#include "cost_model/IterationSpace.h"

namespace shardwright::cost {

bool roleOfLetter(char letter, Role &role) {
  switch (letter) {
  case 'b': role = Role::Batch; return true;
  case 's': role = Role::Seq; return true;
  case 't': role = Role::KvSeq; return true;
  case 'h':
  case 'i': role = Role::Hidden; return true;
  case 'n': role = Role::Heads; return true;
  case 'g': role = Role::Group; return true;
  case 'd': role = Role::HeadDim; return true;
  case 'f': role = Role::Ffn; return true;
  case 'v': role = Role::Vocab; return true;
  case 'p': role = Role::Position; return true;
  case 'e': role = Role::Flat; return true;
  case 'x': role = Role::Experts; return true;
  case 'k': role = Role::Choice; return true;
  case 'c': role = Role::Rows; return true;
  case 'm': role = Role::Ffn; return true;
  case 'q':
  case 'l': role = Role::Latent; return true;
  case 'o':
  case 'r': role = Role::HeadDim; return true;
  case 'w': role = Role::ValueDim; return true;
  }
  return false;
}

std::string_view name(Role role) {
  switch (role) {
  case Role::Batch: return "batch";
  case Role::Seq: return "seq";
  case Role::KvSeq: return "kv_seq";
  case Role::Hidden: return "hidden";
  case Role::Heads: return "heads";
  case Role::Group: return "group";
  case Role::HeadDim: return "head_dim";
  case Role::Ffn: return "ffn";
  case Role::Vocab: return "vocab";
  case Role::Position: return "position";
  case Role::Flat: return "flat";
  case Role::Experts: return "experts";
  case Role::Choice: return "choice";
  case Role::Rows: return "rows";
  case Role::Latent: return "latent";
  case Role::ValueDim: return "value_dim";
  }
  return "";
}

std::string_view name(Segment segment) {
  switch (segment) {
  case Segment::Stream: return "stream";
  case Segment::Attention: return "attention";
  case Segment::Mlp: return "mlp";
  case Segment::Embed: return "embed";
  case Segment::Head: return "head";
  case Segment::Loss: return "loss";
  case Segment::Update: return "update";
  case Segment::Router: return "router";
  case Segment::Experts: return "experts";
  }
  return "";
}

std::string_view name(KernelClass kernel) {
  switch (kernel) {
  case KernelClass::Gemm: return "gemm";
  case KernelClass::Attention: return "attention";
  case KernelClass::AttentionGrad: return "attention_grad";
  case KernelClass::RowNorm: return "row_norm";
  case KernelClass::Elementwise: return "elementwise";
  case KernelClass::ColumnSum: return "column_sum";
  case KernelClass::Gather: return "gather";
  case KernelClass::Scatter: return "scatter";
  case KernelClass::CrossEntropy: return "cross_entropy";
  case KernelClass::Optimizer: return "optimizer";
  case KernelClass::GroupedGemm: return "grouped_gemm";
  case KernelClass::Permute: return "permute";
  }
  return "";
}

std::string_view name(Precision precision) {
  switch (precision) {
  case Precision::Param: return "param";
  case Precision::Compute: return "compute";
  case Precision::Stat: return "stat";
  case Precision::Grad: return "grad";
  case Precision::Master: return "master";
  case Precision::Index: return "index";
  }
  return "";
}

int IterationSpace::factorIndex(char letter) const {
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i].letter == letter)
      return static_cast<int>(i);
  return -1;
}

int64_t attentionPairs(int64_t s, int64_t t, bool causal, int64_t window,
                       int64_t chunk) {
  if (causal && s < t)
    return static_cast<int64_t>(
        static_cast<__int128>(attentionPairs(t, t, causal, window, chunk)) * s /
        t);
  if (chunk > 0 && chunk < t) {
    const int64_t rest = s % chunk;
    return checkedAdd(
        checkedMul(s / chunk, attentionPairs(chunk, chunk, causal, window)),
        rest > 0 ? attentionPairs(rest, rest, causal, window) : 0);
  }
  const int64_t seen = window > 0 && window < t ? window : t;
  if (!causal)
    return checkedMul(s, seen);
  // The first queries see a triangle, each later one `seen` keys.
  return checkedAdd(checkedMul(seen, seen + 1) / 2, checkedMul(s - seen, seen));
}

AttentionWidths attentionWidths(const IterationSpace &space) {
  AttentionWidths widths{0, 0};
  for (const Factor &factor : space.factors) {
    if (factor.role == Role::HeadDim)
      widths.keys += factor.size;
    if (factor.role == Role::ValueDim)
      widths.values += factor.size;
  }
  if (widths.values == 0)
    widths.values = widths.keys;
  return widths;
}

Flops flopsOf(const IterationSpace &space) {
  auto size = [&](char letter) {
    int index = space.factorIndex(letter);
    return index < 0 ? int64_t(1) : space.factors[index].size;
  };
  switch (space.kernel) {
  case KernelClass::Gemm: {
    int64_t flops = 2;
    for (const Factor &factor : space.factors)
      flops = checkedMul(flops, factor.size);
    return Flops(flops);
  }
  case KernelClass::GroupedGemm: {
    int64_t flops = 2;
    for (const Factor &factor : space.factors)
      if (factor.role != Role::Experts)
        flops = checkedMul(flops, factor.size);
    return Flops(flops);
  }
  case KernelClass::Attention:
  case KernelClass::AttentionGrad: {
    int64_t rows = 1;
    for (char letter : {'b', 'n', 'g'})
      rows = checkedMul(rows, size(letter));
    const auto [keys, values] = attentionWidths(space);
    int64_t pairs =
        attentionPairs(size('s'), size('t'), space.causal, space.window,
                       space.chunk);
    int64_t perPair = space.kernel == KernelClass::Attention
                          ? 2 * keys + 2 * values
                          : 6 * keys + 4 * values;
    return Flops(checkedMul(perPair, checkedMul(rows, pairs)));
  }
  case KernelClass::RowNorm:
  case KernelClass::Elementwise:
  case KernelClass::ColumnSum:
  case KernelClass::Gather:
  case KernelClass::Scatter:
  case KernelClass::CrossEntropy:
  case KernelClass::Optimizer:
  case KernelClass::Permute:
    return Flops(0);
  }
  return Flops(0);
}

} // namespace shardwright::cost

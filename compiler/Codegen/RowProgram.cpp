//===- RowProgram.cpp - A fused group of row ops as plain data ------------===//
#include "compiler/Codegen/RowProgram.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace shardwright::codegen {

RowOpFamily familyOf(RowOpKind kind) {
  switch (kind) {
  case RowOpKind::Add:
  case RowOpKind::BiasAdd:
  case RowOpKind::Swiglu:
  case RowOpKind::SwigluGrad:
  case RowOpKind::Gelu:
  case RowOpKind::GeluGrad:
  case RowOpKind::Relu:
  case RowOpKind::ReluGrad:
  case RowOpKind::Scale:
  case RowOpKind::Softcap:
  case RowOpKind::SoftcapGrad:
  case RowOpKind::Fill:
  case RowOpKind::Clip:
  case RowOpKind::ClipGrad:
  case RowOpKind::AddPositions:
    return RowOpFamily::Map;
  case RowOpKind::Rope:
    return RowOpFamily::Rope;
  case RowOpKind::RmsNorm:
  case RowOpKind::RmsNormGrad:
  case RowOpKind::SquareSum:
  case RowOpKind::RmsApply:
  case RowOpKind::RowDot:
  case RowOpKind::RmsApplyGrad:
  case RowOpKind::LayerNorm:
  case RowOpKind::LayerNormGrad:
    return RowOpFamily::Norm;
  case RowOpKind::MaxLogit:
  case RowOpKind::SumExp:
  case RowOpKind::TargetLogit:
  case RowOpKind::SoftmaxGrad:
    return RowOpFamily::CrossEntropy;
  case RowOpKind::TokenLoss:
  case RowOpKind::ColumnSum:
  case RowOpKind::RmsNormWeightGrad:
  case RowOpKind::LayerNormWeightGrad:
  case RowOpKind::AddPositionsGrad:
    return RowOpFamily::RowSum;
  }
  return RowOpFamily::RowSum;
}

int64_t bytesOf(Element element) {
  switch (element) {
  case Element::F32:
    return 4;
  case Element::F64:
    return 8;
  case Element::BF16:
    return 2;
  }
  return 0;
}

std::vector<RowGroup> rowGroups(const RowProgram &program) {
  std::vector<RowGroup> groups;
  for (size_t op = 0; op < program.ops.size(); ++op) {
    const bool sumsRows = reducesRows(program.ops[op].kind);
    if (sumsRows || groups.empty() || groups.back().sumsRows)
      groups.push_back({op, op + 1, sumsRows});
    else
      groups.back().last = op + 1;
  }
  return groups;
}

static double scaledFrequency(double frequency, const RopeScaling &scaling) {
  switch (scaling.kind) {
  case RopeScaling::Kind::None:
    return frequency;
  case RopeScaling::Kind::Linear:
    return frequency / scaling.factor;
  case RopeScaling::Kind::Llama3: {
    const double wavelength = 2 * std::numbers::pi / frequency;
    const double original = scaling.originalMaxPositions;
    if (wavelength < original / scaling.highFreqFactor)
      return frequency;
    if (wavelength >= original / scaling.lowFreqFactor)
      return frequency / scaling.factor; // both factors may be the same
    const double smooth =
        (original / wavelength - scaling.lowFreqFactor) /
        (scaling.highFreqFactor - scaling.lowFreqFactor);
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
  }
  case RopeScaling::Kind::Yarn:
  case RopeScaling::Kind::Long:
    break; // depend on the pair: see below
  }
  return frequency;
}

/// Pair, not rounded, that turns `turns` times within the original positions.
static double yarnPair(double turns, double theta, double width,
                       const RopeScaling &scaling) {
  return width *
         std::log(scaling.originalMaxPositions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

/// Share of the unscaled frequency of pair i.
static double yarnShare(int64_t i, double theta, int64_t headDim,
                        const RopeScaling &scaling) {
  const double width = static_cast<double>(headDim);
  double low = yarnPair(scaling.betaFast, theta, width, scaling);
  double high = yarnPair(scaling.betaSlow, theta, width, scaling);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high)
    high += 0.001; // as the source has it, against a division by 0
  return 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

std::vector<double> ropeInverseFrequencies(double theta, int64_t headDim,
                                           const RopeScaling &scaling) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < headDim / 2; ++i) {
    const double plain = std::pow(theta, -2.0 * static_cast<double>(i) /
                                             static_cast<double>(headDim));
    double frequency = scaledFrequency(plain, scaling);
    if (scaling.kind == RopeScaling::Kind::Yarn) {
      const double share = yarnShare(i, theta, headDim, scaling);
      frequency = plain * share + plain / scaling.factor * (1 - share);
    } else if (scaling.kind == RopeScaling::Kind::Long) {
      frequency = plain / scaling.factors[static_cast<size_t>(i)];
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

} // namespace shardwright::codegen

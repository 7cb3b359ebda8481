//===- RowProgram.cpp - A fused group of row ops as plain data ------------===//
#include "compiler/Codegen/RowProgram.h"

#include <cmath>
#include <numbers>

namespace shardwright::codegen {

bool reducesRows(RowOpKind kind) {
  switch (kind) {
  case RowOpKind::TokenLoss:
  case RowOpKind::ColumnSum:
  case RowOpKind::RmsNormWeightGrad:
  case RowOpKind::LayerNormWeightGrad:
  case RowOpKind::AddPositionsGrad:
    return true;
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
  case RowOpKind::AddPositions:
  case RowOpKind::Rope:
  case RowOpKind::RmsNorm:
  case RowOpKind::RmsNormGrad:
  case RowOpKind::LayerNorm:
  case RowOpKind::LayerNormGrad:
  case RowOpKind::MaxLogit:
  case RowOpKind::SumExp:
  case RowOpKind::TargetLogit:
  case RowOpKind::SoftmaxGrad:
    return false;
  }
  return false;
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
    if (wavelength > original / scaling.lowFreqFactor)
      return frequency / scaling.factor;
    const double smooth =
        (original / wavelength - scaling.lowFreqFactor) /
        (scaling.highFreqFactor - scaling.lowFreqFactor);
    return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
  }
  }
  return frequency;
}

std::vector<double> ropeInverseFrequencies(double theta, int64_t headDim,
                                           const RopeScaling &scaling) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < headDim / 2; ++i)
    frequencies.push_back(scaledFrequency(
        std::pow(theta, -2.0 * static_cast<double>(i) /
                            static_cast<double>(headDim)),
        scaling));
  return frequencies;
}

} // namespace shardwright::codegen

//===- ModelParts.h - A model as an engineer reads it -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_PROGRAM_MODELPARTS_H
#define SHARDWRIGHT_COST_MODEL_PROGRAM_MODELPARTS_H

#include "cost_model/program/Program.h"

#include <string>
#include <vector>

namespace shardwright::cost {

/// A tensor of the checkpoint, or arithmetic that has no parameters (attention),
/// in the layers of one kind.
struct ModelPart {
  std::string kind;
  Segment segment = Segment::Stream;
  std::string name;           ///< of the tensor, `{}` for the layer, or of the op
  std::vector<int64_t> shape; ///< in the checkpoint; empty without parameters
  int64_t layers = 0;         ///< that have it
  int64_t parameters = 0; ///< of one layer; 0 where another part has counted them
  double forwardFlops = 0; ///< of one layer and token, causal pairs once
  std::string shared;      ///< as Parameter::shared

  int64_t allParameters() const { return checkedMul(layers, parameters); }
  double allFlops() const { return static_cast<double>(layers) * forwardFlops; }
};

/// The parts in order of the stack, kinds of layers once, those of a segment
/// together. Their parameters sum to parameterCount, their flops to a third of
/// modelFlopsPerToken (forward alone).
std::vector<ModelPart> modelParts(const Program &program);

/// Layers of each kind, in order of first appearance.
std::vector<Run> runsByKind(const Program &program);

/// Feed-forward widths of layers without routed experts and of one expert; 0
/// where the model has no such layer.
struct FfnWidths {
  int64_t dense = 0, expert = 0;
};
FfnWidths feedForwardWidths(const Program &program);

/// What is special about the model, in lines for people: how heads share keys,
/// windows and chunks, tied tensors, active experts, kinds of layers.
std::vector<std::string> modelFacts(const Program &program);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PROGRAM_MODELPARTS_H

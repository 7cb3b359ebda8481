#include "compiler/Driver/Load.h"

#include "compiler/Import/BuildModel.h"
#include "compiler/Pipelines/Pipelines.h"
#include "passes/Plan/ExtractProgram.h"

#include <algorithm>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace shardwright {

/// Differentiates a copy of `spec` as IR and extracts it. Whatever goes wrong
/// here is our fault: the spec has been checked.
static bool extractSpec(const ModelSpec &spec, int64_t sequence,
                        cost::Program &program, cost::Failure &failure) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  failure = {};
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << diagnostic.getLocation() << ": " << diagnostic;
    cost::refuse(failure, cost::Diag::internal_error, text);
  });
  OwningOpRef<ModuleOp> module = buildModel(spec, sequence, context);
  PassManager passes(&context);
  buildImportPipeline(passes, {});
  if (succeeded(passes.run(*module)) && extractProgram(*module, program)) {
    failure = {};
    return true;
  }
  return cost::refuse(failure, cost::Diag::internal_error,
                      spec.file +
                          ": expected the imported model to differentiate");
}

bool loadProgram(const std::string &path, int64_t sequence,
                 cost::Program &program, cost::Failure &failure,
                 std::vector<std::string> *notes) {
  ModelSpec spec;
  int64_t chosen = 0;
  if (!readHfConfig(path, spec, failure) ||
      !chooseSequence(spec, sequence, chosen, failure))
    return false;
  if (notes) {
    notes->insert(notes->end(), spec.notes.begin(), spec.notes.end());
    if (sequence == 0 && chosen < spec.positions)
      notes->push_back("for sequences of " + std::to_string(chosen) +
                       " tokens, a chunk of attention; --sequence changes it");
    if (spec.positions > 0 && chosen > spec.positions)
      notes->push_back("a sequence of " + std::to_string(chosen) +
                       " tokens is beyond " + spec.keys.positions + " (" +
                       std::to_string(spec.positions) + " in " + spec.file +
                       "), for which the model was made");
  }
  return extractSpec(spec, chosen, program, failure);
}

bool programFromSpec(const ModelSpec &spec, int64_t sequence,
                     cost::Program &program, cost::Failure &failure) {
  ModelSpec checked = spec;
  int64_t chosen = 0;
  return checkSpec(checked, failure) &&
         chooseSequence(checked, sequence, chosen, failure) &&
         extractSpec(checked, chosen, program, failure);
}

ModelSpec specFromShape(const ModelShape &shape) {
  ModelSpec spec = shape.gated ? llamaSpec() : gpt2Spec();
  spec.name = spec.file = shape.name;
  spec.layers = shape.layers;
  spec.hidden = shape.hidden;
  spec.ffn = shape.ffn;
  spec.heads = shape.heads;
  spec.kvHeads = shape.kvHeads ? shape.kvHeads : shape.heads;
  spec.headDim = shape.headDim     ? shape.headDim
                 : shape.heads > 0 ? shape.hidden / shape.heads
                                   : 0;
  spec.vocab = shape.vocab;
  spec.positions = shape.sequence;
  spec.tied = shape.tied;
  spec.latent = shape.latent;
  if (shape.latent.kvRank > 0) {
    spec.kvHeads = spec.heads;
    spec.headDim = shape.latent.nope + shape.latent.rope;
  }
  if (shape.experts > 0) {
    spec.experts.count = shape.experts;
    spec.experts.topK = shape.topK;
    spec.experts.ffn = shape.expertFfn;
    spec.experts.sharedFfn = shape.sharedFfn;
    spec.experts.normalize = true;
    if (spec.ffn == 0)
      spec.ffn = shape.expertFfn;
    LayerKind moe = spec.kinds[0];
    moe.name = "moe";
    moe.experts = true;
    const int64_t dense = std::min(shape.denseLayers, shape.layers);
    if (dense == 0)
      spec.kinds.clear();
    else
      spec.stack.push_back({0, dense});
    if (dense < shape.layers)
      spec.stack.push_back(
          {static_cast<int>(spec.kinds.size()), shape.layers - dense});
    spec.kinds.push_back(moe);
    spec.mtpLayers = shape.mtpLayers;
  }
  return spec;
}

} // namespace shardwright

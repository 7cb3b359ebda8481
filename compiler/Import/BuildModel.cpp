#include "compiler/Import/BuildModel.h"

#include "compiler/Import/ModelBuilder.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

OwningOpRef<ModuleOp> buildModel(const ModelSpec &spec, int64_t sequence,
                                 MLIRContext &context) {
  context.getOrLoadDialect<ModelDialect>();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(NameLoc::get(builder.getStringAttr(spec.file + "#")));
  ModelBuilder(spec, sequence, *module).build();

  builder.setInsertionPointToEnd(module->getBody());
  auto run = [&](StringRef kind, int64_t count) -> Attribute {
    return builder.getArrayAttr(
        {builder.getStringAttr(kind), builder.getI64IntegerAttr(count)});
  };
  SmallVector<Attribute> stack = {run("embed", 1)};
  for (const LayerRun &layers : spec.stack)
    stack.push_back(run(spec.kinds[layers.kind].name, layers.count));
  stack.push_back(run("head", 1));
  StackOp::create(
      builder,
      NameLoc::get(builder.getStringAttr(spec.file + "#/" + spec.keys.layers)),
      builder.getArrayAttr(stack));

  SmallVector<NamedAttribute> program = {
      builder.getNamedAttr("name", builder.getStringAttr(spec.name)),
      builder.getNamedAttr("family", builder.getStringAttr(spec.family))};
  for (auto [key, value] : std::initializer_list<std::pair<StringRef, int64_t>>{
           {"sequence", sequence},
           {"vocab", spec.vocab},
           {"layers", spec.layers},
           {"heads", spec.heads},
           {"kv_heads", spec.kvHeads},
           {"head_dim", spec.headDim},
           {"hidden", spec.hidden},
           {"ffn", spec.ffn}})
    program.push_back(
        builder.getNamedAttr(key, builder.getI64IntegerAttr(value)));
  if (spec.experts.count > 0) {
    program.push_back(builder.getNamedAttr(
        "experts", builder.getI64IntegerAttr(spec.experts.count)));
    program.push_back(builder.getNamedAttr(
        "top_k", builder.getI64IntegerAttr(spec.experts.topK)));
  }
  (*module)->setAttr(kProgramAttr, builder.getDictionaryAttr(program));
  (*module)->setAttr("sw.phase", builder.getStringAttr("imported"));
  if (!spec.notes.empty()) {
    SmallVector<StringRef> notes(spec.notes.begin(), spec.notes.end());
    (*module)->setAttr("model.notes", builder.getStrArrayAttr(notes));
  }
  return module;
}

bool importModel(const std::string &path, int64_t sequence,
                 MLIRContext &context, OwningOpRef<ModuleOp> &module,
                 cost::Failure &failure) {
  ModelSpec spec;
  int64_t chosen = 0;
  if (!readHfConfig(path, spec, failure) ||
      !chooseSequence(spec, sequence, chosen, failure))
    return false;
  module = buildModel(spec, chosen, context);
  if (succeeded(verify(*module)))
    return true;
  cost::refuse(failure, cost::Diag::internal_error,
               spec.file + ": expected the imported model to verify");
  return false;
}

} // namespace shardwright

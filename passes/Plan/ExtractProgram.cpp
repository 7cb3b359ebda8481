#include "passes/Plan/ExtractProgram.h"

#include "cost_model/program/ProgramJson.h"
#include "passes/Plan/Passes.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace shardwright {
#define GEN_PASS_DEF_EXTRACTPROGRAMPASS
#include "passes/Plan/Passes.h.inc"

// The enums of the dialect are those of the cost model, number by number.
static_assert(static_cast<int>(model::ArgKind::Labels) ==
              static_cast<int>(cost::ArgKind::Labels));
static_assert(static_cast<int>(model::ResultKind::Loss) ==
              static_cast<int>(cost::ResultKind::Loss));
static_assert(static_cast<int>(model::Recompute::Full) ==
              static_cast<int>(cost::Recompute::Full));
static_assert(static_cast<int>(model::Init::Normal) ==
              static_cast<int>(cost::Init::Normal));

namespace {

/// Dims of a tensor whose dims are named by `letters`; those of a value that
/// nothing uses have no letters and no role that matters.
std::vector<cost::Dim> dimsOf(Type type, StringRef letters) {
  std::vector<cost::Dim> dims;
  for (auto [i, size] :
       llvm::enumerate(cast<RankedTensorType>(type).getShape())) {
    cost::Role role = cost::Role::Hidden;
    if (i < letters.size())
      cost::roleOfLetter(letters[i], role);
    dims.push_back({size, role});
  }
  return dims;
}

/// Rank that every argument of this kind has, or -1.
int64_t rankOf(cost::ArgKind kind) {
  switch (kind) {
  case cost::ArgKind::StreamIn:
  case cost::ArgKind::StreamGrad:
    return 3; // s, b, h
  case cost::ArgKind::Tokens:
  case cost::ArgKind::Labels:
    return 2; // s, b
  case cost::ArgKind::Parameter:
  case cost::ArgKind::Saved:
  case cost::ArgKind::Kept:
    return -1;
  }
  return -1;
}

/// Letters of an operand as its user names them; empty if nothing uses it.
std::string lettersOfFirstUse(Value value) {
  std::string letters;
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    auto user = dyn_cast<model::IterationSpaceOpInterface>(use.getOwner());
    if (!user || (first && first->isBeforeInBlock(user)))
      continue;
    first = user;
    letters = user.getDimLetters().operands[use.getOperandNumber()];
  }
  return letters;
}

/// The value that result `kind`, `index` of `function` names, or null.
const cost::Value *resultOf(const cost::Function &function,
                            cost::ResultKind kind, int64_t index) {
  for (const cost::Result &result : function.results)
    if (result.kind == kind && result.index == index)
      return &function.values[result.value];
  return nullptr;
}

cost::Value argumentValue(BlockArgument argument, cost::ArgKind argKind,
                          int64_t index, const cost::Kind &kind,
                          const cost::KindVariant &variant) {
  using cost::ArgKind;
  auto byUse = [&](cost::Precision precision) {
    return cost::Value{dimsOf(argument.getType(), lettersOfFirstUse(argument)),
                       precision};
  };
  auto from = [&](const cost::Value *value) {
    return value ? *value : byUse(cost::Precision::Compute);
  };
  switch (argKind) {
  case ArgKind::StreamIn:
  case ArgKind::StreamGrad:
    return {dimsOf(argument.getType(), "sbh"), cost::Precision::Compute};
  case ArgKind::Tokens:
  case ArgKind::Labels:
    return {dimsOf(argument.getType(), "sb"), cost::Precision::Index};
  case ArgKind::Parameter:
    if (index < static_cast<int64_t>(kind.parameters.size()))
      return {kind.parameters[index].dims, cost::Precision::Param};
    return byUse(cost::Precision::Param);
  case ArgKind::Saved:
    return from(resultOf(variant.forward, cost::ResultKind::Saved, index));
  case ArgKind::Kept:
    return from(resultOf(variant.dataGrad, cost::ResultKind::Kept, index));
  }
  return {};
}

cost::Parameter parameterOf(model::ParamOp op) {
  cost::Parameter parameter;
  parameter.hfName = op.getHfName().str();
  parameter.dims = dimsOf(op.getTensorType(), op.getLetters());
  parameter.segment = model::costSegment(op.getSegment());
  parameter.hfStrides = op.getHfStrides().vec();
  parameter.hfOffset = op.getHfOffset();
  parameter.hfShape = op.getHfShape().vec();
  parameter.init = static_cast<cost::Init>(op.getInit());
  parameter.initScale = op.getInitScale().convertToDouble();
  parameter.decay = op.getDecay();
  parameter.shared = op.getShared().str();
  return parameter;
}

/// Reads `model.program` into the scalar fields.
LogicalResult readProgramAttr(ModuleOp module, cost::Program &program) {
  auto attr = module->getAttrOfType<DictionaryAttr>(model::kProgramAttr);
  if (!attr)
    return module.emitError() << "expected attribute '" << model::kProgramAttr
                              << "' on the module, which the importer sets";
  LogicalResult result = success();
  auto text = [&](StringRef key) -> std::string {
    if (auto value = attr.getAs<StringAttr>(key))
      return value.str();
    result = module.emitError() << "expected a string under '" << key
                                << "' of '" << model::kProgramAttr << "'";
    return "";
  };
  auto integer = [&](StringRef key) -> int64_t {
    if (auto value = attr.getAs<IntegerAttr>(key))
      return value.getInt();
    result = module.emitError() << "expected an integer under '" << key
                                << "' of '" << model::kProgramAttr << "'";
    return 0;
  };
  program.name = text("name");
  program.family = text("family");
  program.sequence = integer("sequence");
  program.vocab = integer("vocab");
  program.layers = integer("layers");
  program.heads = integer("heads");
  program.kvHeads = integer("kv_heads");
  program.headDim = integer("head_dim");
  program.hidden = integer("hidden");
  program.ffn = integer("ffn");
  if (attr.contains("experts")) {
    program.experts = integer("experts");
    program.topK = integer("top_k");
  }
  return result;
}

/// The kind named `name`, created if it is new: kinds stand in the order in
/// which the module first names them.
cost::Kind &kindNamed(cost::Program &program, StringRef name) {
  for (cost::Kind &kind : program.kinds)
    if (kind.name == name)
      return kind;
  program.kinds.emplace_back();
  program.kinds.back().name = name.str();
  return program.kinds.back();
}

cost::KindVariant &variantOf(cost::Kind &kind, cost::Recompute policy) {
  for (cost::KindVariant &variant : kind.variants)
    if (variant.policy == policy)
      return variant;
  kind.variants.emplace_back();
  kind.variants.back().policy = policy;
  return kind.variants.back();
}

LogicalResult readParameters(ModuleOp module, cost::Program &program) {
  for (auto op : module.getOps<model::ParamOp>()) {
    cost::Kind &kind = kindNamed(program, op.getKind());
    size_t index = op.getIndex();
    if (index != kind.parameters.size())
      return op.emitOpError()
             << "expected index to equal the number of parameters of '"
             << op.getKind() << "' before it (" << kind.parameters.size()
             << "), but got " << index;
    kind.parameters.push_back(parameterOf(op));
  }
  return success();
}

LogicalResult readFunctions(ModuleOp module, cost::Program &program) {
  for (auto op : module.getOps<model::KindOp>()) {
    if (!op.getKind() || !op.getPart() || !op.getPolicy())
      return op.emitOpError() << "expected attributes 'kind', 'part' and "
                                 "'policy', which sw-differentiate sets";
    cost::Kind &kind = kindNamed(program, *op.getKind());
    cost::KindVariant &variant =
        variantOf(kind, static_cast<cost::Recompute>(*op.getPolicy()));
    cost::Function *target = nullptr;
    switch (*op.getPart()) {
    case model::Part::Forward:
      target = &variant.forward;
      break;
    case model::Part::DataGrad:
      target = &variant.dataGrad;
      break;
    case model::Part::WeightGrad:
      target = &variant.weightGrad;
      break;
    }
    if (!target->empty())
      return op.emitOpError() << "expected one function for each kind, policy "
                                 "and part, but got a second";
    cost::Function function;
    if (failed(extractFunction(op, kind, variant, function)))
      return failure();
    *target = std::move(function);
  }
  return success();
}

LogicalResult readStack(ModuleOp module, cost::Program &program) {
  for (auto op : module.getOps<model::StackOp>())
    for (Attribute entry : op.getRuns()) {
      auto run = cast<ArrayAttr>(entry);
      StringRef name = cast<StringAttr>(run[0]).getValue();
      int index = cost::kindIndex(program, name);
      if (index < 0 || program.kinds[index].variants.empty())
        return op.emitOpError() << "expected kinds of the module, but got '"
                                << name << "', which has no functions";
      program.stack.push_back({index, cast<IntegerAttr>(run[1]).getInt()});
    }
  if (program.stack.empty())
    return module.emitError() << "expected a model.stack with runs";
  return success();
}

struct ExtractProgramPass
    : public impl::ExtractProgramPassBase<ExtractProgramPass> {
  LogicalResult run(ModuleOp module) override {
    cost::Program program;
    if (!extractProgram(module, program))
      return failure();
    llvm::outs() << cost::programJson(program);
    llvm::outs().flush();
    markAllAnalysesPreserved();
    return success();
  }
};
} // namespace

LogicalResult extractFunction(model::KindOp op, const cost::Kind &kind,
                              const cost::KindVariant &variant,
                              cost::Function &function) {
  Block &body = op.getBody().front();
  llvm::DenseMap<Value, cost::ValueId> ids;
  auto number = [&](Value value, cost::Value description) {
    auto id = static_cast<cost::ValueId>(function.values.size());
    function.values.push_back(std::move(description));
    ids[value] = id;
    return id;
  };
  for (BlockArgument argument : body.getArguments()) {
    model::ArgAttr attr = op.getModelArg(argument.getArgNumber());
    if (!attr)
      return op.emitOpError() << "expected attribute 'model.arg' on argument "
                              << argument.getArgNumber();
    auto argKind = static_cast<cost::ArgKind>(attr.getKind());
    int64_t rank = cast<RankedTensorType>(argument.getType()).getRank();
    if (int64_t wanted = rankOf(argKind); wanted >= 0 && rank != wanted)
      return op.emitOpError()
             << "expected argument " << argument.getArgNumber() << " ("
             << model::stringifyArgKind(attr.getKind()) << ") to have rank "
             << wanted << ", but got " << rank;
    cost::ValueId id =
        number(argument, argumentValue(argument, argKind, attr.getIndex(), kind,
                                       variant));
    function.arguments.push_back(
        {argKind, static_cast<int32_t>(attr.getIndex()), id});
  }
  for (Operation &inner : body.without_terminator()) {
    auto compute = dyn_cast<model::IterationSpaceOpInterface>(inner);
    if (!compute)
      return inner.emitOpError() << "expected only ops with an iteration space";
    cost::Op costOp;
    costOp.name = inner.getName().stripDialect().str();
    if (auto label = inner.getAttrOfType<StringAttr>("label"))
      costOp.label = label.str();
    costOp.segment = model::costSegment(
        inner.getAttrOfType<model::SegmentAttr>("segment").getValue());
    costOp.space = compute.getIterationSpace();
    for (Value operand : inner.getOperands())
      costOp.operands.push_back(ids.lookup(operand));
    for (auto [i, result] : llvm::enumerate(inner.getResults())) {
      cost::Value value;
      for (int factor : costOp.space.results[i])
        value.dims.push_back({costOp.space.factors[factor].size,
                              costOp.space.factors[factor].role});
      value.precision = costOp.space.resultPrecision[i];
      costOp.results.push_back(number(result, std::move(value)));
    }
    function.ops.push_back(std::move(costOp));
  }
  for (auto [i, operand] : llvm::enumerate(op.getReturn().getOperands())) {
    model::ResAttr attr = op.getModelRes(i);
    if (!attr)
      return op.emitOpError()
             << "expected attribute 'model.res' on result " << i;
    auto resultKind = static_cast<cost::ResultKind>(attr.getKind());
    function.results.push_back({resultKind,
                                static_cast<int32_t>(attr.getIndex()),
                                ids.lookup(operand)});
    // What an op computes does not tell that its result is accumulated.
    if (resultKind == cost::ResultKind::ParameterGrad)
      function.values[ids.lookup(operand)].precision = cost::Precision::Grad;
  }
  for (cost::Op &costOp : function.ops)
    for (auto [precision, result] :
         llvm::zip_equal(costOp.space.resultPrecision, costOp.results))
      precision = function.values[result].precision;
  return success();
}

bool extractProgram(ModuleOp module, cost::Program &program) {
  program = {};
  return succeeded(readProgramAttr(module, program)) &&
         succeeded(readParameters(module, program)) &&
         succeeded(readFunctions(module, program)) &&
         succeeded(readStack(module, program));
}

} // namespace shardwright

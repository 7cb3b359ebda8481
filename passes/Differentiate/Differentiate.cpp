#include "cost_model/program/SavedSet.h"
#include "passes/Differentiate/Backward.h"
#include "passes/Differentiate/Passes.h"
#include "passes/Plan/ExtractProgram.h"

#include "mlir/IR/IRMapping.h"

#include <algorithm>

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "passes/Differentiate/Passes.h.inc"

namespace {

/// Order of the arguments of gradient functions.
int rankOf(ArgKind kind) {
  switch (kind) {
  case ArgKind::StreamGrad:
    return 0;
  case ArgKind::StreamIn:
    return 1;
  case ArgKind::Saved:
    return 2;
  case ArgKind::Kept:
    return 3;
  case ArgKind::Parameter:
    return 4;
  case ArgKind::Tokens:
    return 5;
  case ArgKind::Labels:
    return 6;
  }
  return 0;
}

/// A result of a function to be: the scratch value and what it is.
struct ResultSpec {
  Value value;
  ResultKind kind;
  int64_t index;
};

/// Splits one kind into the functions of its policies. Works on the scratch
/// function that holds forward and backward ops side by side.
class KindSplitter {
public:
  KindSplitter(KindOp scratch, const Backward &backward)
      : scratch(scratch), backward(backward), builder(scratch) {
    Block &body = scratch.getBody().front();
    for (BlockArgument argument : body.getArguments())
      roles[argument] =
          argument == backward.dy
              ? ArgAttr::get(builder.getContext(), ArgKind::StreamGrad, 0)
              : scratch.getModelArg(argument.getArgNumber());
  }

  /// `forward` is the scratch's forward pass, and `values` its values by id.
  void split(Recompute policy, const cost::Function &forward,
             ArrayRef<Operation *> forwardOps, ArrayRef<Value> values) {
    cost::SavedSet set = savedSet(forward, neededBy(values),
                                  static_cast<cost::Recompute>(policy));
    rolesNow = roles;
    SmallVector<ResultSpec> results;
    for (auto [i, value] : llvm::enumerate(scratch.getReturn().getOperands())) {
      ResAttr attr = scratch.getModelRes(i);
      results.push_back({value, attr.getKind(), attr.getIndex()});
    }
    for (auto [i, id] : llvm::enumerate(set.saved))
      results.push_back({values[id], ResultKind::Saved, int64_t(i)});
    emit(policy, Part::Forward, forwardOps, results);
    for (auto [i, id] : llvm::enumerate(set.saved))
      rolesNow[values[id]] =
          ArgAttr::get(builder.getContext(), ArgKind::Saved, i);

    SmallVector<Operation *> dataOps, weightOps;
    for (int op : set.recomputed)
      dataOps.push_back(forwardOps[op]);
    if (backward.dx) {
      llvm::append_range(dataOps, backward.dataGrad);
    } else { // no data gradient to stand at the head of
      weightOps = dataOps;
      dataOps.clear();
    }
    llvm::append_range(weightOps, backward.weightGrad);

    if (backward.dx) {
      results = {{backward.dx, ResultKind::StreamGrad, 0}};
      SmallVector<Value> kept = keptOf(dataOps, weightOps);
      for (auto [i, value] : llvm::enumerate(kept))
        results.push_back({value, ResultKind::Kept, int64_t(i)});
      emit(policy, Part::DataGrad, dataOps, results);
      for (auto [i, value] : llvm::enumerate(kept))
        rolesNow[value] = ArgAttr::get(builder.getContext(), ArgKind::Kept, i);
    }
    results.clear();
    for (auto [i, value] : llvm::enumerate(backward.parameterGrads))
      results.push_back({value, ResultKind::ParameterGrad, int64_t(i)});
    if (!results.empty())
      emit(policy, Part::WeightGrad, weightOps, results);
  }

private:
  /// Ids of the forward values that backward ops use.
  std::vector<cost::ValueId> neededBy(ArrayRef<Value> values) const {
    llvm::DenseSet<Value> used;
    for (ArrayRef<Operation *> ops :
         {ArrayRef(backward.dataGrad), ArrayRef(backward.weightGrad)})
      for (Operation *op : ops)
        used.insert(op->operand_begin(), op->operand_end());
    std::vector<cost::ValueId> needed;
    for (auto [id, value] : llvm::enumerate(values))
      if (used.contains(value))
        needed.push_back(static_cast<cost::ValueId>(id));
    return needed;
  }

  /// Values of the data gradient that the weight gradient uses, in order: dy
  /// among them, so that a plan may keep the version of it that it has gathered.
  SmallVector<Value> keptOf(ArrayRef<Operation *> dataOps,
                            ArrayRef<Operation *> weightOps) const {
    llvm::DenseSet<Value> used(backward.parameterGrads.begin(),
                               backward.parameterGrads.end());
    for (Operation *op : weightOps)
      used.insert(op->operand_begin(), op->operand_end());
    SmallVector<Value> kept;
    if (backward.dy && used.contains(backward.dy))
      kept.push_back(backward.dy);
    for (Operation *op : dataOps)
      for (Value result : op->getResults())
        if (used.contains(result))
          kept.push_back(result);
    return kept;
  }

  /// Creates the function with copies of `ops`. What they use and do not make
  /// becomes an argument.
  void emit(Recompute policy, Part part, ArrayRef<Operation *> ops,
            ArrayRef<ResultSpec> results) {
    SmallVector<Value> inputs;
    if (part == Part::Forward) {
      // All arguments, used or not: callers pass what the kind takes.
      for (BlockArgument argument : scratch.getBody().getArguments())
        if (argument != backward.dy)
          inputs.push_back(argument);
    } else {
      llvm::DenseSet<Value> known;
      auto use = [&](Value value) {
        if (known.insert(value).second)
          inputs.push_back(value);
      };
      for (Operation *op : ops)
        known.insert(op->result_begin(), op->result_end());
      for (Operation *op : ops)
        for (Value operand : op->getOperands())
          use(operand);
      for (const ResultSpec &result : results)
        use(result.value);
      llvm::sort(inputs, [&](Value a, Value b) {
        ArgAttr left = rolesNow.lookup(a), right = rolesNow.lookup(b);
        return std::pair(rankOf(left.getKind()), left.getIndex()) <
               std::pair(rankOf(right.getKind()), right.getIndex());
      });
    }

    SmallVector<Type> inputTypes, resultTypes;
    for (Value input : inputs)
      inputTypes.push_back(input.getType());
    for (const ResultSpec &result : results)
      resultTypes.push_back(result.value.getType());
    std::string name = (scratch.getSymName() + "." +
                        stringifyRecompute(policy) + "." + stringifyPart(part))
                           .str();
    builder.setInsertionPoint(scratch);
    auto function =
        KindOp::create(builder, scratch.getLoc(), name,
                       builder.getFunctionType(inputTypes, resultTypes));
    function.setKind(scratch.getSymName());
    function.setPart(part);
    function.setPolicy(policy);

    IRMapping map;
    Block &body = function.getBody().front();
    for (auto [i, input] : llvm::enumerate(inputs)) {
      body.getArgument(i).setLoc(input.getLoc());
      map.map(input, body.getArgument(i));
      function.setModelArg(i, rolesNow.lookup(input));
    }
    builder.setInsertionPointToEnd(&body);
    for (Operation *op : ops)
      builder.clone(*op, map);
    SmallVector<Value> returned;
    for (auto [i, result] : llvm::enumerate(results)) {
      returned.push_back(map.lookup(result.value));
      function.setModelRes(
          i, ResAttr::get(builder.getContext(), result.kind, result.index));
    }
    ReturnOp::create(builder, scratch.getLoc(), returned);
  }

  KindOp scratch;
  const Backward &backward;
  OpBuilder builder;
  llvm::DenseMap<Value, ArgAttr> roles, rolesNow;
};

/// Erases ops whose results nobody uses.
void eraseDeadOps(Block &body) {
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
}

bool hasResult(KindOp kind, ResultKind wanted) {
  for (unsigned i = 0; i < kind.getNumResults(); ++i)
    if (kind.getModelRes(i).getKind() == wanted)
      return true;
  return false;
}
bool hasArgument(KindOp kind, ArgKind wanted) {
  for (unsigned i = 0; i < kind.getNumArguments(); ++i)
    if (kind.getModelArg(i).getKind() == wanted)
      return true;
  return false;
}

/// What the code above takes for granted.
LogicalResult checkForward(KindOp kind) {
  int64_t parameters = 0;
  for (unsigned i = 0; i < kind.getNumArguments(); ++i) {
    ArgAttr attr = kind.getModelArg(i);
    if (!attr)
      return kind.emitOpError()
             << "expected attribute 'model.arg' on argument " << i;
    if (attr.getKind() == ArgKind::Parameter && attr.getIndex() != parameters++)
      return kind.emitOpError()
             << "expected parameters numbered in order, but got "
             << attr.getIndex() << " for parameter " << parameters - 1;
  }
  for (unsigned i = 0; i < kind.getNumResults(); ++i)
    if (!kind.getModelRes(i))
      return kind.emitOpError()
             << "expected attribute 'model.res' on result " << i;
  return success();
}

LogicalResult differentiate(KindOp kind) {
  if (kind.getPart())
    return kind.emitOpError()
           << "expected a kind without 'part': it is differentiated already";
  if (failed(checkForward(kind)))
    return failure();
  Block &body = kind.getBody().front();
  eraseDeadOps(body);
  cost::Function forward;
  if (failed(extractFunction(kind, {}, {}, forward)))
    return failure();
  SmallVector<Operation *> ops;
  SmallVector<Value> values(body.getArguments());
  for (Operation &op : body.without_terminator()) {
    ops.push_back(&op);
    values.append(op.result_begin(), op.result_end());
  }
  SmallVector<Recompute> policies = {Recompute::None};
  if (hasArgument(kind, ArgKind::StreamIn) &&
      hasResult(kind, ResultKind::StreamOut))
    policies.append({Recompute::Selective, Recompute::Full});

  Backward backward;
  if (failed(buildBackward(kind, backward)))
    return failure();
  KindSplitter splitter(kind, backward);
  for (Recompute policy : policies)
    splitter.split(policy, forward, ops, values);
  kind.erase();
  return success();
}

struct DifferentiatePass
    : public impl::DifferentiatePassBase<DifferentiatePass> {
  LogicalResult run(ModuleOp module) override {
    SmallVector<KindOp> kinds(module.getOps<KindOp>());
    for (KindOp kind : kinds)
      if (failed(differentiate(kind)))
        return failure();
    setPhase(module, IrPhase::Differentiated);
    return success();
  }
};
} // namespace
} // namespace shardwright

#include "passes/Verify/CountLedger.h"

#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Plan/PlannedModule.h"

#include <map>
#include <set>

using namespace mlir;

namespace shardwright {

namespace {

using cost::Bytes;
using cost::Phase;

constexpr int64_t kAlignment = 256;
constexpr int64_t kPadding = 128; ///< elements of a bucket, per shard

int64_t alignedTo(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

int64_t widthOf(Type type) {
  return cast<RankedTensorType>(type).getElementTypeBitWidth() / 8;
}
int64_t bytesOfTensor(Type type) {
  return cast<RankedTensorType>(type).getNumElements() * widthOf(type);
}

/// Names of axes joined as the ledger names groups.
std::string groupName(ArrayRef<Attribute> axes) {
  std::string name;
  for (Attribute axis : axes) {
    if (!name.empty())
      name += '+';
    name += cast<StringAttr>(axis).getValue();
  }
  return name;
}

/// Extent of every letter of `letters` in the dims of `type`.
void addExtents(StringRef letters, Type type,
                std::map<char, int64_t> &extents) {
  for (auto [letter, extent] :
       llvm::zip_equal(letters, cast<RankedTensorType>(type).getShape()))
    extents[letter] = extent;
}

/// 2 per multiply-add: a contraction runs over every letter once.
int64_t contractionFlops(model::ContractOp op) {
  auto [inputs, result] = op.getSpec().split("->");
  auto [lhs, rhs] = inputs.split(",");
  std::map<char, int64_t> extents;
  addExtents(lhs, op.getLhs().getType(), extents);
  addExtents(rhs, op.getRhs().getType(), extents);
  int64_t flops = 2;
  for (auto [letter, extent] : extents)
    flops *= extent;
  return flops;
}

/// `products` matrix products over the unmasked (query, key) pairs.
int64_t attentionFlops(Type q, Type k, bool causal,
                       std::optional<int64_t> window,
                       std::optional<int64_t> chunk, int64_t products) {
  int64_t queries = cast<RankedTensorType>(q).getDimSize(0);
  int64_t keys = cast<RankedTensorType>(k).getDimSize(0);
  int64_t pairs = 0;
  for (int64_t query = 0; query < queries; ++query)
    pairs += std::min({causal ? query % chunk.value_or(queries) + 1 : keys,
                       keys, window.value_or(keys)});
  int64_t perPosition = cast<RankedTensorType>(q).getNumElements() / queries;
  return 2 * products * perPosition * pairs;
}

int64_t flopsOfOp(Operation &op) {
  if (auto contract = dyn_cast<model::ContractOp>(op))
    return contractionFlops(contract);
  // Scores and the weighted sum of values.
  if (auto attention = dyn_cast<model::AttentionOp>(op))
    return attentionFlops(attention.getQ().getType(),
                          attention.getK().getType(), attention.getCausal(),
                          attention.getWindow(), attention.getChunk(), 2);
  // Scores again, and the gradients of values, weights, queries and keys.
  if (auto grad = dyn_cast<model::AttentionGradOp>(op))
    return attentionFlops(grad.getQ().getType(), grad.getK().getType(),
                          grad.getCausal(), grad.getWindow(), grad.getChunk(),
                          5);
  return 0;
}

/// A kind as one stage runs it.
struct StageKind {
  model::KindOp forward, dataGrad, weightGrad;
  int64_t layers = 0, chunk = 0;
};

/// Parameters that are reduced together: axes besides dp, and decay.
using BucketKey = std::pair<std::string, bool>;
/// Elements of each bucket.
using Buckets = std::map<BucketKey, int64_t>;

class Counter {
public:
  Counter(ModuleOp module, spmd::StageOp stage, const cost::Plan &plan,
          cost::Ledger &ledger)
      : module(module), stage(stage), plan(plan), ledger(ledger),
        mesh(plan::MeshAttr::of(module)), dp(mesh.sizeOf("dp")) {}

  LogicalResult run() {
    if (failed(collectKinds()))
      return failure();
    countActions();
    for (const StageKind &kind : kinds) {
      countFunction(kind, kind.forward, Phase::Forward);
      countFunction(kind, kind.dataGrad, Phase::DataGrad);
      countFunction(kind, kind.weightGrad, Phase::WeightGrad);
    }
    countTransfers();
    if (failed(countStep()))
      return failure();
    countMemory();
    return success();
  }

private:
  LogicalResult collectKinds() {
    for (Attribute run : stage.getRuns()) {
      auto entries = cast<ArrayAttr>(run);
      std::string name = cast<StringAttr>(entries[0]).str();
      StageKind kind;
      kind.forward = module.lookupSymbol<model::KindOp>(name + ".forward");
      kind.dataGrad = module.lookupSymbol<model::KindOp>(name + ".data_grad");
      kind.weightGrad =
          module.lookupSymbol<model::KindOp>(name + ".weight_grad");
      kind.layers = cast<IntegerAttr>(entries[1]).getInt();
      kind.chunk =
          entries.size() < 4 ? 0 : cast<IntegerAttr>(entries[3]).getInt();
      chunks = std::max(chunks, kind.chunk + 1);
      if (!kind.forward)
        return stage.emitOpError() << "expected a function '" << name
                                   << ".forward', but found none";
      kinds.push_back(kind);
    }
    return success();
  }

  /// Number of actions of a kind, of all chunks and of each, from the schedule
  /// if there is one. Without one every chunk but the ends of the model's has
  /// transfers on both sides: no two that follow one another are on one stage.
  void countActions() {
    if (std::optional<ArrayAttr> schedule = stage.getSchedule()) {
      for (Attribute entry : *schedule) {
        auto action = cast<spmd::ActionAttr>(entry);
        ++actions[action.getKind()];
        ++chunkActions[{action.getKind(), action.getChunk()}];
        for (int64_t buffer : {action.getTakes(), action.getLeaves()})
          if (buffer >= 0)
            borders.insert(buffer);
      }
      return;
    }
    using spmd::ActionKind;
    int64_t behind = chunks, before = chunks;
    if (stage.getIndex() + 1 == stages())
      --behind;
    if (stage.getIndex() == 0)
      --before;
    for (ActionKind kind : {ActionKind::Forward, ActionKind::BackwardData,
                            ActionKind::BackwardWeight})
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        chunkActions[{kind, chunk}] = plan.microbatches();
    for (ActionKind kind : {ActionKind::SendForward, ActionKind::RecvBackward})
      actions[kind] = behind * plan.microbatches();
    for (ActionKind kind : {ActionKind::RecvForward, ActionKind::SendBackward})
      actions[kind] = before * plan.microbatches();
    // One buffer per transfer, but the stream that arrives goes to its slot: so
    // it is with one chunk.
    for (ActionKind kind : {ActionKind::SendForward, ActionKind::RecvBackward,
                            ActionKind::SendBackward})
      if (actions[kind] > 0)
        borders.insert(static_cast<int64_t>(kind));
  }

  void add(cost::Collective collective, const std::string &group, Phase phase,
           int64_t calls, int64_t payload) {
    if (calls == 0)
      return;
    cost::LedgerEntry &entry = ledger.collectives[{collective, group, phase}];
    entry.calls += calls;
    entry.payload += Bytes(calls * payload);
  }

  /// Notes that a reduction over `ranks` stages one part of its input.
  void needStaging(int64_t elements, int64_t width, int64_t ranks) {
    staging = std::max(staging, (elements + ranks - 1) / ranks * width);
  }

  void countFunction(const StageKind &kind, model::KindOp function,
                     Phase phase) {
    if (!function)
      return;
    spmd::ActionKind action =
        phase == Phase::Forward
            ? spmd::ActionKind::Forward
            : (phase == Phase::DataGrad ? spmd::ActionKind::BackwardData
                                        : spmd::ActionKind::BackwardWeight);
    int64_t times = kind.layers * chunkActions[{action, kind.chunk}];
    int64_t flops = 0;
    for (Operation &op : function.getBody().front()) {
      flops += flopsOfOp(op);
      if (auto reduce = dyn_cast<spmd::AllReduceOp>(op))
        countCollective(cost::Collective::AllReduce, reduce, reduce.getAxes(),
                        phase, times);
      else if (auto gather = dyn_cast<spmd::AllGatherOp>(op))
        countCollective(cost::Collective::AllGather, gather, gather.getAxes(),
                        phase, times);
      else if (auto scatter = dyn_cast<spmd::ReduceScatterOp>(op))
        countCollective(cost::Collective::ReduceScatter, scatter,
                        scatter.getAxes(), phase, times);
    }
    if (flops * times > 0)
      ledger.flops[phase] += cost::Flops(flops * times);
  }

  void countCollective(cost::Collective collective, Operation *op,
                       ArrayAttr axes, Phase phase, int64_t times) {
    Type input = op->getOperand(0).getType();
    add(collective, groupName(axes.getValue()), phase, times,
        bytesOfTensor(input));
    if (collective != cost::Collective::AllGather)
      needStaging(cast<RankedTensorType>(input).getNumElements(),
                  widthOf(input), mesh.degree(axes));
  }

  /// Type of the stream that enters a layer of the stage, or else leaves one.
  Type streamType() const {
    for (const StageKind &kind : kinds) {
      model::KindOp forward = kind.forward;
      for (auto [number, type] : llvm::enumerate(forward.getArgumentTypes()))
        if (forward.getModelArg(number).getKind() == model::ArgKind::StreamIn)
          return type;
      for (auto [number, type] : llvm::enumerate(forward.getResultTypes()))
        if (forward.getModelRes(number).getKind() ==
            model::ResultKind::StreamOut)
          return type;
    }
    return {};
  }

  void countTransfers() {
    Type type = streamType();
    stream = type ? bytesOfTensor(type) : 0;
    using spmd::ActionKind;
    add(cost::Collective::Send, "pp", Phase::Forward,
        actions[ActionKind::SendForward], stream);
    add(cost::Collective::Recv, "pp", Phase::Forward,
        actions[ActionKind::RecvForward], stream);
    add(cost::Collective::Send, "pp", Phase::DataGrad,
        actions[ActionKind::SendBackward], stream);
    add(cost::Collective::Recv, "pp", Phase::DataGrad,
        actions[ActionKind::RecvBackward], stream);
  }

  /// Axes, without dp, over which the gradient of a parameter stays partial.
  std::string extraAxes(model::KindOp weightGrad, int64_t parameter) {
    for (unsigned number = 0; number < weightGrad.getNumResults(); ++number) {
      model::ResAttr attr = weightGrad.getModelRes(number);
      if (attr.getKind() != model::ResultKind::ParameterGrad ||
          attr.getIndex() != parameter)
        continue;
      gradWidth = widthOf(weightGrad.getResultTypes()[number]);
      auto axes = dyn_cast_or_null<ArrayAttr>(
          weightGrad.getResultAttr(number, "plan.partial"));
      SmallVector<Attribute> extra;
      if (axes)
        llvm::copy_if(axes, std::back_inserter(extra), [](Attribute axis) {
          return cast<StringAttr>(axis).getValue() != "dp";
        });
      return groupName(extra);
    }
    return "";
  }

  /// Names of the shared parameters that the kinds of `of` use.
  std::set<std::string> sharedNames(spmd::StageOp of) {
    std::set<std::string> names;
    for (Attribute run : of.getRuns()) {
      StringRef name = cast<StringAttr>(cast<ArrayAttr>(run)[0]).getValue();
      for (auto parameter : module.getOps<model::ParamOp>())
        if (parameter.getKind() == name.split('.').first &&
            !parameter.getShared().empty())
          names.insert(parameter.getShared().str());
    }
    return names;
  }

  LogicalResult countStep() {
    Buckets shared;
    std::set<std::string> seen;
    for (const StageKind &kind : kinds) {
      if (!kind.weightGrad)
        continue;
      model::KindOp weightGrad = kind.weightGrad;
      Buckets buckets;
      for (auto parameter : module.getOps<model::ParamOp>()) {
        if (parameter.getKind() != weightGrad.getKind())
          continue;
        bool isShared = !parameter.getShared().empty();
        if (isShared && !seen.insert(parameter.getShared().str()).second)
          continue;
        paramWidth = widthOf(parameter.getType());
        BucketKey key{extraAxes(weightGrad, parameter.getIndex()),
                      parameter.getDecay()};
        (isShared ? shared : buckets)[key] +=
            parameter.getTensorType().getNumElements();
      }
      countBuckets(buckets, kind.layers, /*owners=*/1);
    }
    int64_t owners = 1;
    if (!seen.empty()) {
      owners = 0;
      for (auto other : module.getOps<spmd::StageOp>()) {
        std::set<std::string> names = sharedNames(other);
        if (names.empty())
          continue;
        if (names != seen)
          return stage.emitOpError() << "expected all stages that own shared "
                                        "parameters to own the same";
        ++owners;
      }
    }
    countBuckets(shared, 1, owners);
    if (ranks() > 1) {
      add(cost::Collective::AllReduce, "world", Phase::Update, 1, 16);
      needStaging(2, 8, ranks());
    }
    return success();
  }

  /// Reduction and update of the parameters of `layers` layers alike.
  void countBuckets(const Buckets &buckets, int64_t layers, int64_t owners) {
    bool isSharded = plan.zero >= 1;
    for (const auto &[key, exact] : buckets) {
      int64_t count = alignedTo(exact, kPadding * (isSharded ? dp : 1));
      elements += layers * count;
      int64_t payload = count * gradWidth;
      auto reduce = [&](cost::Collective collective, const std::string &group,
                        int64_t members) {
        add(collective, group, Phase::Reduce, layers, payload);
        needStaging(count, gradWidth, members);
      };
      if (!key.first.empty()) {
        int64_t members = 1;
        SmallVector<StringRef> names;
        StringRef(key.first).split(names, '+');
        for (StringRef name : names)
          members *= mesh.sizeOf(name);
        reduce(cost::Collective::AllReduce, key.first, members);
      }
      if (owners > 1)
        reduce(cost::Collective::AllReduce, "pp", owners);
      if (dp == 1)
        continue;
      reduce(isSharded ? cost::Collective::ReduceScatter
                       : cost::Collective::AllReduce,
             "dp", dp);
      if (isSharded)
        add(cost::Collective::AllGather, "dp", Phase::Update, layers,
            count / dp * paramWidth);
    }
  }

  /// Bytes of one layer and microbatch in an activation slot.
  int64_t slotBytes(model::KindOp forward) {
    int64_t bytes = 0;
    for (auto [number, type] : llvm::enumerate(forward.getArgumentTypes()))
      if (forward.getModelArg(number).getKind() == model::ArgKind::StreamIn)
        bytes += alignedTo(bytesOfTensor(type), kAlignment);
    for (auto [number, type] : llvm::enumerate(forward.getResultTypes()))
      if (forward.getModelRes(number).getKind() == model::ResultKind::Saved)
        bytes += alignedTo(bytesOfTensor(type), kAlignment);
    return bytes;
  }

  /// Bytes of the slots: of each size of a slot as many as the chunks that have
  /// it are in at once, between the first action and the weight gradient of a
  /// microbatch.
  int64_t countSlots() {
    std::vector<int64_t> sizes(chunks, 0);
    for (const StageKind &kind : kinds)
      sizes[kind.chunk] += kind.layers * slotBytes(kind.forward);
    std::map<int64_t, int64_t> most; // by size
    std::map<int64_t, std::set<std::pair<int64_t, int64_t>>> now;
    if (std::optional<ArrayAttr> schedule = stage.getSchedule())
      for (auto action : schedule->getAsRange<spmd::ActionAttr>()) {
        if (action.getChunk() >= chunks)
          continue; // of no run
        const int64_t size = sizes[action.getChunk()];
        const std::pair who(action.getChunk(), action.getMicrobatch());
        if (action.getKind() == spmd::ActionKind::RecvForward ||
            action.getKind() == spmd::ActionKind::Forward)
          now[size].insert(who);
        most[size] =
            std::max(most[size], static_cast<int64_t>(now[size].size()));
        if (action.getKind() == spmd::ActionKind::BackwardWeight)
          now[size].erase(who);
      }
    int64_t bytes = 0;
    for (auto [size, count] : most)
      bytes += size * count;
    return bytes;
  }

  /// End of the last buffer that `function` has in the workspace.
  int64_t workspaceEnd(model::KindOp function) {
    int64_t end = 0;
    if (!function)
      return end;
    for (Operation &op : function.getBody().front()) {
      auto addresses = op.getAttrOfType<ArrayAttr>(spmd::kAddressAttr);
      if (!addresses)
        continue;
      for (auto [attr, result] : llvm::zip_equal(addresses, op.getResults()))
        if (auto address = cast<rt::AddrAttr>(attr);
            address.getBase() == rt::Base::Workspace)
          end = std::max(
              end, address.getOffset() +
                       alignedTo(bytesOfTensor(result.getType()), kAlignment));
    }
    return end;
  }

  void countMemory() {
    cost::MemoryParts &memory = ledger.memory;
    memory.parameters = Bytes(elements * paramWidth);
    memory.gradients = Bytes(elements * gradWidth);
    memory.optimizer = Bytes(elements / (plan.zero >= 1 ? dp : 1) * 3 *
                             cost::byteWidth(plan.dtypes.master));
    int64_t workspace = 0;
    memory.saved = Bytes(countSlots());
    for (const StageKind &kind : kinds) {
      for (model::KindOp op : {kind.forward, kind.dataGrad, kind.weightGrad})
        workspace = std::max(workspace, workspaceEnd(op));
    }
    int64_t alignedStream = alignedTo(stream, kAlignment);
    memory.p2p = Bytes(static_cast<int64_t>(borders.size()) * alignedStream);
    memory.comm = Bytes(alignedTo(staging, kAlignment));
    if (stage.getArena())
      memory.workspace = Bytes(workspace + 2 * alignedStream);
  }

  int64_t stages() {
    auto ops = module.getOps<spmd::StageOp>();
    return std::distance(ops.begin(), ops.end());
  }
  int64_t ranks() {
    int64_t product = 1;
    for (int64_t size : mesh.getSizes())
      product *= size;
    return product;
  }

  ModuleOp module;
  spmd::StageOp stage;
  const cost::Plan &plan;
  cost::Ledger &ledger;
  plan::MeshAttr mesh;
  int64_t dp;
  std::vector<StageKind> kinds;
  int64_t chunks = 1;
  std::map<spmd::ActionKind, int64_t> actions;
  std::map<std::pair<spmd::ActionKind, int64_t>, int64_t> chunkActions;
  std::set<int64_t> borders; ///< buffers that an action takes or leaves
  int64_t stream = 0, elements = 0, staging = 0;
  int64_t paramWidth = 0, gradWidth = 0;
};

} // namespace

bool countLedger(ModuleOp module, int64_t stageIndex, cost::Ledger &ledger) {
  ledger = {};
  cost::Plan plan;
  if (failed(readPlanText(module, plan)))
    return false;
  for (auto stage : module.getOps<spmd::StageOp>())
    if (stage.getIndex() == stageIndex)
      return succeeded(Counter(module, stage, plan, ledger).run());
  emitError(module.getLoc()) << "expected a spmd.stage with index "
                             << stageIndex << ", but found none";
  return false;
}

} // namespace shardwright

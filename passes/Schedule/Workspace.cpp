#include "passes/Schedule/Workspace.h"

#include "cost_model/partition/Layout.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Schedule/Passes.h"

using namespace mlir;

namespace shardwright {

int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return cost::checkedMul(tensor.getNumElements(),
                          tensor.getElementTypeBitWidth() / 8);
}

namespace {

/// First and last point of an op's time: its number, or those of the ends of
/// its fusion group.
using Time = std::pair<int, int>;

/// Values that share one buffer.
struct Buffer {
  SmallVector<Value> members;
  cost::Interval interval{0, 0, 0};
  std::optional<Address> address; ///< if it lies outside of the workspace
};

class Placer {
public:
  explicit Placer(AddressMap &addresses) : addresses(addresses) {}

  void add(model::KindOp function) {
    setTimes(function);
    takeKeptArguments(function);
    for (Operation &op : function.getBody().front())
      for (Value result : op.getResults())
        addValue(op, result);
    giveKeptResults(function);
  }

  int64_t place() {
    std::vector<cost::Interval> intervals;
    SmallVector<Buffer *> packed;
    for (Buffer &buffer : buffers)
      if (!buffer.address) {
        packed.push_back(&buffer);
        intervals.push_back(buffer.interval);
      }
    std::vector<int64_t> offsets;
    int64_t bytes = cost::pack(intervals, offsets);
    for (auto [buffer, offset] : llvm::zip_equal(packed, offsets))
      buffer->address = Address{rt::Base::Workspace, offset};
    for (const Buffer &buffer : buffers)
      for (Value member : buffer.members)
        addresses.insert({member, *buffer.address});
    return bytes;
  }

private:
  void setTimes(model::KindOp function) {
    SmallVector<Operation *> group;
    Attribute groupNumber;
    for (Operation &op : function.getBody().front().without_terminator()) {
      Attribute number = op.getAttr(kFusionGroupAttr);
      if (!number || number != groupNumber)
        group.clear();
      groupNumber = number;
      group.push_back(&op);
      times[&op].first = now;
      for (Operation *member : group)
        times[member] = {times[group.front()].first, now};
      ++now;
    }
  }

  /// End of the life of a value, by the ops that read it.
  int lastRead(Value value, int last) {
    for (Operation *user : value.getUsers())
      if (!isa<model::ReturnOp>(user))
        last = std::max(last, times[user].second);
    return last;
  }

  /// A kept argument is another name of the buffer that was kept.
  void takeKeptArguments(model::KindOp function) {
    for (BlockArgument argument : function.getBody().front().getArguments()) {
      model::ArgAttr attr = function.getModelArg(argument.getArgNumber());
      if (attr.getKind() != model::ArgKind::Kept)
        continue;
      if (auto outside = keptOutside.find(attr.getIndex());
          outside != keptOutside.end()) {
        addresses[argument] = outside->second;
        continue;
      }
      if (!kept.contains(attr.getIndex()))
        continue;
      Buffer &buffer = buffers[kept[attr.getIndex()]];
      buffer.members.push_back(argument);
      buffer.interval.last = lastRead(argument, buffer.interval.last);
    }
  }
  void giveKeptResults(model::KindOp function) {
    kept.clear();
    keptOutside.clear();
    for (OpOperand &operand : function.getReturn()->getOpOperands()) {
      model::ResAttr attr = function.getModelRes(operand.getOperandNumber());
      if (attr.getKind() != model::ResultKind::Kept)
        continue;
      auto found = bufferOf.find(operand.get());
      if (found == bufferOf.end()) { // an argument: it stays where it is
        if (auto address = addresses.find(operand.get());
            address != addresses.end())
          keptOutside[attr.getIndex()] = address->second;
        continue;
      }
      kept[attr.getIndex()] = found->second;
      Buffer &buffer = buffers[found->second];
      buffer.interval.last = std::max(buffer.interval.last, now - 1);
    }
  }

  /// Whether `op` may write its result over what it reads.
  bool worksInPlace(Operation &op) {
    if (!isa<spmd::AllReduceOp>(op) || !bufferOf.contains(op.getOperand(0)))
      return false;
    return llvm::all_of(op.getOperand(0).getUsers(), [&](Operation *user) {
      return user == &op || user->isBeforeInBlock(&op);
    });
  }

  void addValue(Operation &op, Value result) {
    size_t index = buffers.size();
    if (worksInPlace(op))
      index = bufferOf[op.getOperand(0)];
    else
      buffers.push_back(
          {{},
           {times[&op].first, times[&op].second, bytesOf(result.getType())},
           std::nullopt});
    bufferOf[result] = index;
    Buffer &buffer = buffers[index];
    buffer.members.push_back(result);
    buffer.interval.last =
        lastRead(result, std::max(buffer.interval.last, times[&op].second));
    if (auto found = addresses.find(result); found != addresses.end())
      buffer.address = found->second;
  }

  AddressMap &addresses;
  int now = 0;
  llvm::DenseMap<Operation *, Time> times;
  std::vector<Buffer> buffers;
  llvm::DenseMap<Value, size_t> bufferOf; ///< of op results
  llvm::DenseMap<int64_t, size_t> kept;   ///< by index, of the function before
  llvm::DenseMap<int64_t, Address> keptOutside; ///< those that are arguments
};

} // namespace

int64_t placeValues(ArrayRef<model::KindOp> functions, AddressMap &addresses) {
  Placer placer(addresses);
  for (model::KindOp function : functions)
    placer.add(function);
  return placer.place();
}

} // namespace shardwright

//===- DeviceRows.cpp - Row programs as kernels of a GPU ------------------===//
#include "compiler/Codegen/DeviceRows.h"

#include "compiler/Codegen/DeviceStepBuilder.h"

#include "llvm/IR/Verifier.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace shardwright::codegen {

std::string entryName(StringRef name) {
  std::string result;
  for (char c : name)
    result += isAlnum(c) || c == '_' ? c : '$';
  return result;
}

Function *addEntry(Module &module, const std::string &name,
                   ArrayRef<Type *> parameters, int64_t threads) {
  LLVMContext &llvmContext = module.getContext();
  auto *function = Function::Create(
      FunctionType::get(Type::getVoidTy(llvmContext), parameters, false),
      GlobalValue::ExternalLinkage, name, module);
  function->setCallingConv(CallingConv::PTX_Kernel);
  function->addFnAttr("nvvm.reqntid", std::to_string(threads));
  function->setDoesNotThrow();
  for (auto [number, type] : enumerate(parameters))
    if (type->isPointerTy())
      function->addParamAttr(number, Attribute::NoAlias);
  BasicBlock::Create(llvmContext, "entry", function);
  return function;
}

static Function *addStep(const RowProgram &program, DeviceKernel &kernel,
                         Module &module, int64_t grid, int64_t threads) {
  assert(grid > 0 && grid <= INT32_MAX && "grids are that large");
  DeviceStep &step = kernel.steps.emplace_back();
  step.entry = entryName(program.name) + "$" +
               std::to_string(kernel.steps.size() - 1);
  step.grid = static_cast<uint32_t>(grid);
  step.block = static_cast<uint32_t>(threads);
  LLVMContext &llvmContext = module.getContext();
  SmallVector<Type *> parameters(program.buffers + 1,
                                 PointerType::get(llvmContext, 0));
  parameters.append(2, Type::getInt64Ty(llvmContext));
  return addEntry(module, step.entry, parameters, threads);
}

DeviceStepBuilder::DeviceStepBuilder(const RowProgram &program,
                                     DeviceKernel &kernel, Module &module,
                                     int64_t grid, int64_t threads)
    : program(program),
      function(addStep(program, kernel, module, grid, threads)),
      b(&function->getEntryBlock()), target(allowContraction(b), threads),
      context{b,
              target,
              program,
              function,
              b.getFloatTy(),
              function->getArg(program.buffers + 1),
              function->getArg(program.buffers + 2)} {}

void DeviceStepBuilder::finish() {
  b.CreateRetVoid();
  assert(!verifyFunction(*function, &errs()) && "the emitter made invalid IR");
}

namespace {

/// Whether the results of ops before can be read without a meeting: each
/// thread reads what it wrote.
class Meetings {
public:
  /// Whether `op` has to wait for all threads; notes what it writes.
  bool areNeededBefore(const RowOp &op) {
    bool needed = false;
    for (size_t i = 0; i < op.operands.size(); ++i)
      for (const Written &written : since)
        needed |= written.buffer == op.operands[i] &&
                  (written.columns == 0 || written.columns != columns(op));
    if (needed)
      since.clear();
    for (int result : op.results)
      since.push_back({result, columns(op)});
    return needed;
  }

private:
  struct Written {
    int buffer;
    int64_t columns; ///< thread t wrote t, t + threads, ... of these; 0: else
  };
  /// Only maps read and write nothing but the columns of their thread.
  static int64_t columns(const RowOp &op) {
    return isMap(op.kind) ? op.width : 0;
  }
  std::vector<Written> since;
};

class DeviceRows {
public:
  DeviceRows(const RowProgram &program, Module &module)
      : program(program), module(module) {
    kernel.name = program.name;
    kernel.buffers = program.buffers;
  }
  DeviceKernel emit();

private:
  void emitMaps(const RowGroup &group);
  void emitRows(const RowGroup &group);
  void emitPositions(const RowGroup &group);
  bool has(const RowGroup &group, function_ref<bool(const RowOp &)> property);
  int64_t widest(const RowGroup &group);
  void emitOps(RowContext &context, const RowGroup &group);

  const RowProgram &program;
  Module &module;
  DeviceKernel kernel;
};

} // namespace

bool DeviceRows::has(const RowGroup &group,
                     function_ref<bool(const RowOp &)> property) {
  for (size_t op = group.first; op < group.last; ++op)
    if (property(program.ops[op]))
      return true;
  return false;
}

int64_t DeviceRows::widest(const RowGroup &group) {
  int64_t width = 1;
  for (size_t op = group.first; op < group.last; ++op)
    width = std::max(width, program.ops[op].width);
  return width;
}

void DeviceRows::emitOps(RowContext &context, const RowGroup &group) {
  Meetings meetings;
  for (size_t op = group.first; op < group.last; ++op) {
    if (meetings.areNeededBefore(context.program.ops[op]))
      context.target.meet(context);
    emitRowOp(context, op);
  }
}

/// Threads of a block, at most `most`, that do `each` columns of `width`.
static int64_t threadsFor(int64_t width, int64_t each, int64_t most) {
  return std::clamp<int64_t>(alignTo(divideCeil(width, each), kWarp), kWarp,
                             most);
}

// The numbers below, and those of DeviceSums.cpp and Update.cpp, are chosen by
// the reasons that stand beside them; no GPU has been asked yet. Results do not
// depend on them beyond the order of sums.

/// Each thread of a map does some columns, so that loads are under way
/// together.
static constexpr int64_t kMapColumns = 8;

void DeviceRows::emitMaps(const RowGroup &group) {
  RowProgram spans = program;
  int64_t rows = program.outer * program.inner;
  const bool seesRows = has(group, [](const RowOp &op) {
    return op.kind == RowOpKind::BiasAdd || op.kind == RowOpKind::AddPositions;
  });
  if (!seesRows) { // all rows are one
    for (RowOp &op : spans.ops)
      op.width *= rows;
    rows = spans.outer = spans.inner = 1;
  }
  const int64_t width = spans.ops[group.first].width;
  const int64_t threads = threadsFor(width, kMapColumns, 256);
  const int64_t span = threads * kMapColumns;
  const int64_t spansPerRow = divideCeil(width, span);
  DeviceStepBuilder step(spans, kernel, module, rows * spansPerRow, threads);
  RowContext &context = step.context;
  IRBuilder<> &b = step.b;
  Value *perRow = context.count(spansPerRow);
  context.row = rows == 1 ? context.count(0)
                          : b.CreateUDiv(step.target.block(), perRow);
  context.outer = b.CreateUDiv(context.row, context.count(spans.inner));
  step.target.setSpan(
      b.CreateMul(b.CreateURem(step.target.block(), perRow),
                  context.count(span)),
      span);
  emitOps(context, group);
  step.finish();
}

/// Threads of a block that does a whole row at a time: four columns each, until
/// a block has as many as let four of them share a multiprocessor of 2048.
static int64_t rowThreads(int64_t width) { return threadsFor(width, 4, 512); }

void DeviceRows::emitRows(const RowGroup &group) {
  DeviceStepBuilder step(program, kernel, module,
                         program.outer * program.inner,
                         rowThreads(widest(group)));
  step.context.row = step.target.block();
  step.context.outer = step.b.CreateUDiv(
      step.context.row, step.context.count(program.inner));
  emitOps(step.context, group);
  step.finish();
}

void DeviceRows::emitPositions(const RowGroup &group) {
  DeviceStepBuilder step(program, kernel, module, program.outer,
                         rowThreads(widest(group)));
  RowContext &context = step.context;
  makeRopeTables(context, group.first, group.last);
  context.outer = step.target.block();
  for (size_t op = group.first; op < group.last; ++op)
    if (program.ops[op].kind == RowOpKind::Rope)
      emitRopeTables(context, op);
  step.target.meet(context);
  if (program.inner > 1)
    step.target.setRepeats();
  emitLoop(step.b, context.count(program.inner), [&](Value *inner) {
    context.row = step.b.CreateAdd(
        step.b.CreateMul(context.outer, context.count(program.inner)), inner);
    emitOps(context, group);
  });
  step.finish();
}

DeviceKernel DeviceRows::emit() {
  for (const RowGroup &group : rowGroups(program)) {
    const int64_t width = program.ops[group.first].width;
    if (group.sumsRows)
      emitDeviceSum(program, program.ops[group.first], kernel, module);
    else if (has(group,
                 [](const RowOp &op) { return op.kind == RowOpKind::Rope; }))
      emitPositions(group);
    else if (has(group, [&](const RowOp &op) {
               return !isMap(op.kind) || op.width != width;
             }))
      emitRows(group);
    else
      emitMaps(group);
  }
  return kernel;
}

DeviceKernel emitDeviceKernel(const RowProgram &program, Module &module) {
  assert(program.element == Element::F32 && "device arithmetic is f32");
  return DeviceRows(program, module).emit();
}

} // namespace shardwright::codegen

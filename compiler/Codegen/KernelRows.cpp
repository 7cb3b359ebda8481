//===- KernelRows.cpp - rt.kernel to a row program ------------------------===//
#include "compiler/Codegen/KernelRows.h"

#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "passes/Lower/KernelTable.h"

using namespace mlir;

namespace shardwright::codegen {

namespace {

/// How a tensor lies in rows: the first dim, the dims between, the rest.
struct Rows {
  int64_t outer = 1, inner = 1, width = 1;
};

class KernelReader {
public:
  explicit KernelReader(rt::KernelOp kernel) : kernel(kernel) {}
  FailureOr<KernelRows> read();

private:
  LogicalResult readStorage(Block &body);
  LogicalResult readOp(Operation *op);
  /// Rows of operand `operand` whose last letters are `columns`. With no
  /// letters before them, one row.
  LogicalResult setRows(Operation *op, unsigned operand, StringRef columns,
                        RowOp &row);
  LogicalResult setOrigin(Operation *op, StringRef letter, int64_t extent,
                          Origin &origin);
  LogicalResult setRope(model::RopeOp op, RowOp &row);
  RowOp &push(Operation *op, RowOpKind kind);
  LogicalResult addNorm(Operation *op, RowOpKind kind, StringRef letters,
                        double eps = 0);
  LogicalResult addRmsNorm(Operation *op, RowOpKind kind, StringRef letters,
                           bool unitOffset, double eps = 0);
  /// A step of a norm whose rows other ranks may have parts of.
  LogicalResult addRowPart(Operation *op, RowOpKind kind, StringRef columns,
                           int64_t count = 0, double eps = 0);
  LogicalResult addMap(Operation *op, RowOpKind kind, StringRef letters,
                       bool approximate = false);
  LogicalResult addLogits(Operation *op, RowOpKind kind, int64_t valid,
                          double scale = 1);

  rt::KernelOp kernel;
  KernelRows result;
  llvm::DenseMap<Value, int> buffers;
  llvm::DenseMap<Value, bool> accumulate;
  bool hasRows = false;
};

} // namespace

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

RowOp &KernelReader::push(Operation *op, RowOpKind kind) {
  RowOp &row = result.program.ops.emplace_back();
  row.kind = kind;
  for (Value operand : op->getOperands())
    row.operands.push_back(buffers.lookup(operand));
  for (Value value : op->getResults()) {
    row.results.push_back(buffers.lookup(value));
    row.accumulate |= accumulate.lookup(value);
  }
  return row;
}

LogicalResult KernelReader::setRows(Operation *op, unsigned operand,
                                    StringRef columns, RowOp &row) {
  const std::string letters = cast<model::IterationSpaceOpInterface>(op)
                                  .getDimLetters()
                                  .operands[operand];
  if (!StringRef(letters).ends_with(columns))
    return op->emitOpError() << "expected '" << letters << "' to end in '"
                             << columns << "' to have a row form";
  const size_t rowDims = letters.size() - columns.size();
  Rows rows;
  for (auto [dim, size] :
       llvm::enumerate(typeOf(op->getOperand(operand)).getShape()))
    (dim >= rowDims ? rows.width : dim == 0 ? rows.outer : rows.inner) *= size;
  row.width = rows.width;
  RowProgram &program = result.program;
  if (hasRows && (program.outer != rows.outer || program.inner != rows.inner))
    return op->emitOpError()
           << "expected " << program.outer << " x " << program.inner
           << " rows as the ops before it in its kernel, but got "
           << rows.outer << " x " << rows.inner;
  program.outer = rows.outer;
  program.inner = rows.inner;
  hasRows = true;
  return success();
}

LogicalResult KernelReader::setOrigin(Operation *op, StringRef letter,
                                      int64_t extent, Origin &origin) {
  ArrayAttr axes;
  if (auto all = op->getAttrOfType<DictionaryAttr>(plan::kAxesAttr))
    axes = all.getAs<ArrayAttr>(letter);
  if (origin.extent != 0 && (origin.axes != axes || origin.extent != extent))
    return op->emitOpError() << "expected the factor '" << letter
                             << "' to lie as in the ops before it";
  origin = {axes, extent};
  return success();
}

LogicalResult KernelReader::addNorm(Operation *op, RowOpKind kind,
                                    StringRef letters, double eps) {
  RowOp &row = push(op, kind);
  row.eps = eps;
  return setRows(op, 0, letters.take_back(), row);
}

LogicalResult KernelReader::addRmsNorm(Operation *op, RowOpKind kind,
                                       StringRef letters, bool unitOffset,
                                       double eps) {
  RowOp &row = push(op, kind);
  row.eps = eps;
  row.unitOffset = unitOffset;
  return setRows(op, 0, letters.take_back(), row);
}

LogicalResult KernelReader::addRowPart(Operation *op, RowOpKind kind,
                                       StringRef columns, int64_t count,
                                       double eps) {
  RowOp &row = push(op, kind);
  row.count = count;
  row.eps = eps;
  return setRows(op, 0, columns, row);
}

static GateKind gateKind(model::Gate gate) {
  switch (gate) {
  case model::Gate::Silu:
    return GateKind::Silu;
  case model::Gate::Gelu:
    return GateKind::Gelu;
  case model::Gate::GeluTanh:
    return GateKind::GeluTanh;
  }
  return GateKind::Silu;
}

LogicalResult KernelReader::addMap(Operation *op, RowOpKind kind,
                                   StringRef letters, bool approximate) {
  RowOp &row = push(op, kind);
  row.approximate = approximate;
  StringRef columns = letters;
  columns.consume_front("sb");
  return setRows(op, 0, columns, row);
}

LogicalResult KernelReader::addLogits(Operation *op, RowOpKind kind,
                                      int64_t valid, double scale) {
  RowOp &row = push(op, kind);
  row.validColumns = valid;
  row.scale = scale;
  if (failed(setRows(op, 0, "v", row)))
    return failure();
  return setOrigin(op, "v", row.width, result.column);
}

static double number(DictionaryAttr attributes, StringRef name,
                     double fallback) {
  Attribute value = attributes.get(name);
  if (auto real = dyn_cast_or_null<FloatAttr>(value))
    return real.getValueAsDouble();
  if (auto integer = dyn_cast_or_null<IntegerAttr>(value))
    return static_cast<double>(integer.getInt());
  return fallback;
}

LogicalResult KernelReader::setRope(model::RopeOp op, RowOp &row) {
  StringRef columns = op.getLetters();
  if (!columns.consume_front("sb"))
    return op.emitOpError() << "expected letters that start with 'sb', but got '"
                            << columns << "'";
  RopeScaling scaling;
  if (DictionaryAttr attributes = op.getScaling().value_or(nullptr)) {
    auto type = attributes.getAs<StringAttr>("rope_type");
    const StringRef name = type ? type.getValue() : "none";
    if (name == "linear")
      scaling.kind = RopeScaling::Kind::Linear;
    else if (name == "llama3")
      scaling.kind = RopeScaling::Kind::Llama3;
    else if (name == "yarn")
      scaling.kind = RopeScaling::Kind::Yarn;
    else if (name == "longrope")
      scaling.kind = RopeScaling::Kind::Long;
    else
      return op.emitOpError()
             << "expected rope_type to be \"linear\", \"llama3\", \"yarn\" or "
                "\"longrope\", but got "
             << name;
    row.scale = number(attributes, "attention_factor", 1);
    if (auto factors = attributes.getAs<DenseF64ArrayAttr>("factors"))
      scaling.factors.assign(factors.asArrayRef().begin(),
                             factors.asArrayRef().end());
    if (auto truncate = attributes.getAs<BoolAttr>("truncate"))
      scaling.truncate = truncate.getValue();
    scaling.betaFast = number(attributes, "beta_fast", scaling.betaFast);
    scaling.betaSlow = number(attributes, "beta_slow", scaling.betaSlow);
    scaling.factor = number(attributes, "factor", scaling.factor);
    scaling.lowFreqFactor =
        number(attributes, "low_freq_factor", scaling.lowFreqFactor);
    scaling.highFreqFactor =
        number(attributes, "high_freq_factor", scaling.highFreqFactor);
    scaling.originalMaxPositions =
        number(attributes, "original_max_position_embeddings",
               scaling.originalMaxPositions);
  }
  row.headDim = typeOf(op.getInput()).getShape().back();
  const int64_t rotated = op.getRotaryDim().value_or(row.headDim);
  if (rotated % 2 != 0)
    return op.emitOpError() << "expected an even rotated width, but got "
                            << rotated;
  row.inverse = op.getInverse();
  row.interleaved = op.getInterleaved();
  row.inverseFrequencies = ropeInverseFrequencies(
      op.getTheta().convertToDouble(), rotated, scaling);
  if (failed(setRows(op, 0, columns, row)))
    return failure();
  return setOrigin(op, "s", result.program.outer, result.position);
}

LogicalResult KernelReader::readOp(Operation *op) {
  if (auto add = dyn_cast<model::AddOp>(op))
    return addMap(op, RowOpKind::Add, add.getLetters());
  if (auto bias = dyn_cast<model::BiasAddOp>(op))
    return setRows(op, 0, bias.getBiasLetters(), push(op, RowOpKind::BiasAdd));
  // Results of addMap and push stay where they are: one op at a time is added.
  auto last = [&]() -> RowOp & { return result.program.ops.back(); };
  if (auto swiglu = dyn_cast<model::SwigluOp>(op)) {
    LogicalResult added = addMap(op, RowOpKind::Swiglu, swiglu.getLetters());
    last().gate = gateKind(swiglu.getGateKind());
    return added;
  }
  if (auto grad = dyn_cast<model::SwigluGradOp>(op)) {
    LogicalResult added = addMap(op, RowOpKind::SwigluGrad, grad.getLetters());
    last().gate = gateKind(grad.getGateKind());
    return added;
  }
  if (auto relu = dyn_cast<model::ReluOp>(op))
    return addMap(op, RowOpKind::Relu, relu.getLetters());
  if (auto grad = dyn_cast<model::ReluGradOp>(op))
    return addMap(op, RowOpKind::ReluGrad, grad.getLetters());
  auto addScaled = [&](RowOpKind kind, StringRef letters, APFloat scale) {
    LogicalResult added = addMap(op, kind, letters);
    last().scale = scale.convertToDouble();
    return added;
  };
  if (auto scale = dyn_cast<model::ScaleOp>(op))
    return addScaled(RowOpKind::Scale, scale.getLetters(), scale.getFactor());
  if (auto cap = dyn_cast<model::SoftcapOp>(op))
    return addScaled(RowOpKind::Softcap, cap.getLetters(), cap.getCap());
  if (auto grad = dyn_cast<model::SoftcapGradOp>(op))
    return addScaled(RowOpKind::SoftcapGrad, grad.getLetters(), grad.getCap());
  if (auto clip = dyn_cast<model::ClipOp>(op))
    return addScaled(RowOpKind::Clip, clip.getLetters(), clip.getLimit());
  if (auto grad = dyn_cast<model::ClipGradOp>(op))
    return addScaled(RowOpKind::ClipGrad, grad.getLetters(), grad.getLimit());
  if (auto fill = dyn_cast<model::FillOp>(op)) {
    RowOp &row = push(op, RowOpKind::Fill);
    row.scale = fill.getValue().convertToDouble();
    row.width = typeOf(fill.getResult()).getNumElements();
    return success();
  }
  if (auto gelu = dyn_cast<model::GeluOp>(op))
    return addMap(op, RowOpKind::Gelu, gelu.getLetters(),
                  gelu.getApproximate());
  if (auto grad = dyn_cast<model::GeluGradOp>(op))
    return addMap(op, RowOpKind::GeluGrad, grad.getLetters(),
                  grad.getApproximate());
  if (auto norm = dyn_cast<model::RmsNormOp>(op))
    return addRmsNorm(op, RowOpKind::RmsNorm, norm.getLetters(),
                      norm.getUnitOffset(), norm.getEps().convertToDouble());
  if (auto grad = dyn_cast<model::RmsNormGradOp>(op))
    return addRmsNorm(op, RowOpKind::RmsNormGrad, grad.getLetters(),
                      grad.getUnitOffset());
  if (auto grad = dyn_cast<model::RmsNormWeightGradOp>(op))
    return addRowPart(op, RowOpKind::RmsNormWeightGrad,
                      grad.getColumns().value_or(grad.getLetters().take_back()));
  if (auto sum = dyn_cast<model::SquareSumOp>(op))
    return addRowPart(op, RowOpKind::SquareSum, sum.getColumns());
  if (auto apply = dyn_cast<model::RmsApplyOp>(op))
    return addRowPart(op, RowOpKind::RmsApply, apply.getColumns(),
                      apply.getCount(), apply.getEps().convertToDouble());
  if (auto dot = dyn_cast<model::RowDotOp>(op))
    return addRowPart(op, RowOpKind::RowDot, dot.getColumns());
  if (auto grad = dyn_cast<model::RmsApplyGradOp>(op))
    return addRowPart(op, RowOpKind::RmsApplyGrad, grad.getColumns(),
                      grad.getCount());
  if (auto norm = dyn_cast<model::LayerNormOp>(op))
    return addNorm(op, RowOpKind::LayerNorm, norm.getLetters(),
                   norm.getEps().convertToDouble());
  if (auto grad = dyn_cast<model::LayerNormGradOp>(op))
    return addNorm(op, RowOpKind::LayerNormGrad, grad.getLetters());
  if (auto grad = dyn_cast<model::LayerNormWeightGradOp>(op))
    return addNorm(op, RowOpKind::LayerNormWeightGrad, grad.getLetters());
  if (auto sum = dyn_cast<model::ColumnSumOp>(op))
    return setRows(op, 0, sum.getSpec().split("->").second,
                   push(op, RowOpKind::ColumnSum));
  if (auto rope = dyn_cast<model::RopeOp>(op))
    return setRope(rope, push(op, RowOpKind::Rope));
  if (isa<model::AddPositionsOp, model::AddPositionsGradOp>(op)) {
    const bool isGrad = isa<model::AddPositionsGradOp>(op);
    RowOp &row = push(op, isGrad ? RowOpKind::AddPositionsGrad
                                 : RowOpKind::AddPositions);
    if (auto grad = dyn_cast<model::AddPositionsGradOp>(op)) {
      row.tableRows = typeOf(op->getResult(0)).getDimSize(0);
      row.tableOffset = grad.getOffset();
    } else {
      row.tableOffset = cast<model::AddPositionsOp>(op).getOffset();
    }
    if (failed(setRows(op, 0, "h", row)))
      return failure();
    return setOrigin(op, "s", result.program.outer, result.position);
  }
  if (auto maximum = dyn_cast<model::MaxLogitOp>(op))
    return addLogits(op, RowOpKind::MaxLogit, maximum.getValidVocab());
  if (auto sum = dyn_cast<model::SumExpOp>(op))
    return addLogits(op, RowOpKind::SumExp, sum.getValidVocab());
  if (isa<model::TargetLogitOp>(op))
    return addLogits(op, RowOpKind::TargetLogit, 0);
  if (auto grad = dyn_cast<model::SoftmaxGradOp>(op))
    return addLogits(op, RowOpKind::SoftmaxGrad, grad.getValidVocab(),
                     grad.getScale().convertToDouble());
  if (auto loss = dyn_cast<model::TokenLossOp>(op)) {
    RowOp &row = push(op, RowOpKind::TokenLoss);
    row.scale = loss.getScale().convertToDouble();
    return setRows(op, 0, "", row);
  }
  return op->emitOpError("has no row form");
}

FailureOr<KernelRows> KernelReader::read() {
  result.program.name = kernel.getSymName().str();
  Block &body = kernel.getBody().front();
  int number = 0;
  for (Value argument : body.getArguments())
    buffers[argument] = number++;
  for (auto [index, value] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    buffers[value] = number++;
    accumulate[value] = static_cast<bool>(
        kernel.getResultAttr(index, kAccumulateAttr));
  }
  result.program.buffers = number;

  if (failed(readStorage(body)))
    return failure();
  for (Operation &op : body.without_terminator()) {
    for (Value value : op.getResults())
      if (!buffers.contains(value))
        return op.emitOpError("expected every result to leave the kernel");
    if (failed(readOp(&op)))
      return failure();
  }
  return result;
}

/// What each buffer stores. Arithmetic is f64 if anything is.
LogicalResult KernelReader::readStorage(Block &body) {
  RowProgram &program = result.program;
  SmallVector<Value> values(body.getArguments());
  values.append(body.getTerminator()->operand_begin(),
                body.getTerminator()->operand_end());
  bool hasF64 = false, hasOther = false;
  for (Value value : values) {
    Type type = typeOf(value).getElementType();
    Element &stored = program.storage.emplace_back(Element::F32);
    if (type.isInteger(32))
      continue;
    if (type.isF64())
      stored = Element::F64;
    else if (type.isBF16())
      stored = Element::BF16;
    else if (!type.isF32())
      return kernel.emitOpError()
             << "expected elements of type f32, f64 or bf16, but got " << type;
    (type.isF64() ? hasF64 : hasOther) = true;
  }
  if (hasF64 && hasOther)
    return kernel.emitOpError()
           << "expected all elements to be f64 or none, but some are";
  program.element = hasF64 ? Element::F64 : Element::F32;
  return success();
}

FailureOr<KernelRows> readKernel(rt::KernelOp kernel) {
  return KernelReader(kernel).read();
}

} // namespace shardwright::codegen

#include "compiler/Import/KindBuilder.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace shardwright::model;

namespace shardwright {

KindBuilder::KindBuilder(ModuleOp module, const ModelSpec &spec,
                         const llvm::DenseMap<char, int64_t> &extents,
                         StringRef name)
    : spec(spec), extents(extents), builder(module.getContext()),
      declarations(module.getContext()),
      location(UnknownLoc::get(module.getContext())) {
  location = locationOf("");
  builder.setInsertionPointToEnd(module.getBody());
  kind =
      KindOp::create(builder, location, name, builder.getFunctionType({}, {}));
  declarations.setInsertionPoint(kind);
  builder.setInsertionPointToEnd(&kind.getBody().front());
}

Location KindBuilder::locationOf(const std::string &key) {
  std::string name = spec.file + "#" + (key.empty() ? "" : "/") + key;
  return NameLoc::get(StringAttr::get(declarations.getContext(), name));
}

StringAttr KindBuilder::string(const Twine &text) {
  return builder.getStringAttr(text);
}

SegmentAttr KindBuilder::segment() {
  return SegmentAttr::get(builder.getContext(), current);
}

RankedTensorType KindBuilder::type(StringRef letters, bool index) {
  SmallVector<int64_t> shape;
  for (char letter : letters)
    shape.push_back(extents.lookup(letter));
  Type element = index ? Type(builder.getI32Type()) : builder.getF32Type();
  return RankedTensorType::get(shape, element);
}

void KindBuilder::section(Segment newSegment, const std::string &key) {
  current = newSegment;
  location = locationOf(key);
}

Value KindBuilder::argument(Type type, ArgKind argKind, int64_t index,
                            Location argLocation) {
  arguments.push_back(ArgAttr::get(builder.getContext(), argKind, index));
  return kind.getBody().front().addArgument(type, argLocation);
}

Value KindBuilder::streamIn() {
  return argument(type("sbh"), ArgKind::StreamIn, 0, location);
}
Value KindBuilder::tokens() {
  return argument(type("sb", /*index=*/true), ArgKind::Tokens, 0, location);
}
Value KindBuilder::labels() {
  return argument(type("sb", /*index=*/true), ArgKind::Labels, 0, location);
}

Value KindBuilder::parameter(const ParameterSpec &parameter) {
  RankedTensorType tensor = type(parameter.letters);
  std::vector<int64_t> strides = parameter.hfStrides;
  if (strides.empty()) {
    strides.assign(parameter.letters.size(), 1);
    for (size_t i = strides.size() - 1; i-- > 0;)
      strides[i] = strides[i + 1] * tensor.getDimSize(i + 1);
  }
  // Decay follows Hugging Face: matrices decay, vectors do not.
  bool decay = parameter.hfShape.size() >= 2;
  Location where = locationOf(parameter.key);
  ParamOp::create(declarations, where,
                  (kind.getSymName() + "." + parameter.symbol).str(), tensor,
                  parameter.segment, kind.getSymName(), parameters,
                  parameter.hfName, parameter.letters, strides,
                  parameter.hfOffset, parameter.hfShape, parameter.init,
                  APFloat(parameter.initScale), decay, parameter.shared);
  return argument(tensor, ArgKind::Parameter, parameters++, where);
}

Value KindBuilder::contract(Value lhs, Value rhs, StringRef spec,
                            StringRef label) {
  return ContractOp::create(builder, location, type(spec.split("->").second),
                            lhs, rhs, segment(), string(label), string(spec));
}

Value KindBuilder::add(Value lhs, Value rhs, StringRef letters,
                       StringRef label) {
  return AddOp::create(builder, location, type(letters), lhs, rhs, segment(),
                       string(label), string(letters));
}

Value KindBuilder::biasAdd(Value input, Value bias, StringRef letters,
                           StringRef biasLetters, StringRef label) {
  return BiasAddOp::create(builder, location, type(letters), input, bias,
                           segment(), string(label), string(letters),
                           string(biasLetters));
}

Value KindBuilder::rmsNorm(Value input, Value weight, StringRef letters,
                           StringRef label) {
  auto norm = RmsNormOp::create(
      builder, location, type(letters), type(letters.drop_back()), input,
      weight, segment(), string(label), string(letters),
      builder.getF64FloatAttr(spec.normEps),
      builder.getBoolAttr(spec.norm == NormKind::RmsUnitOffset));
  return norm.getOutput();
}

Value KindBuilder::splitRmsNorm(Value input, Value weight, StringRef letters,
                                StringRef columns, StringRef label) {
  RankedTensorType rows = type(letters.drop_back(columns.size()));
  Value sum = SquareSumOp::create(builder, location, rows, input, segment(),
                                  string(label + "_sum"), string(letters),
                                  string(columns));
  auto norm = RmsApplyOp::create(
      builder, location, type(letters), rows, input, weight, sum, segment(),
      string(label), string(letters), string(columns),
      builder.getF64FloatAttr(spec.normEps),
      builder.getI64IntegerAttr(type(columns).getNumElements()));
  return norm.getOutput();
}

Value KindBuilder::layerNorm(Value input, Value weight, Value bias,
                             StringRef letters, StringRef label) {
  RankedTensorType rows = type(letters.drop_back());
  auto norm = LayerNormOp::create(builder, location, type(letters), rows, rows,
                                  input, weight, bias, segment(),
                                  string(label), string(letters),
                                  builder.getF64FloatAttr(spec.normEps));
  return norm.getOutput();
}

Value KindBuilder::rope(Value input, const Rope &settings, StringRef letters,
                        StringRef label) {
  DictionaryAttr scaling;
  if (settings.scaling) {
    const RopeScaling &rope = *settings.scaling;
    SmallVector<NamedAttribute> entries;
    auto set = [&](StringRef key, Attribute value) {
      entries.push_back(builder.getNamedAttr(key, value));
    };
    if (rope.type != RopeScaling::Type::Long)
      set("factor", builder.getF64FloatAttr(rope.factor));
    switch (rope.type) {
    case RopeScaling::Type::Linear:
      set("rope_type", string("linear"));
      break;
    case RopeScaling::Type::Llama3:
      set("rope_type", string("llama3"));
      set("low_freq_factor", builder.getF64FloatAttr(rope.lowFreqFactor));
      set("high_freq_factor", builder.getF64FloatAttr(rope.highFreqFactor));
      set("original_max_position_embeddings",
          builder.getI64IntegerAttr(rope.originalPositions));
      break;
    case RopeScaling::Type::Yarn:
      set("rope_type", string("yarn"));
      set("beta_fast", builder.getF64FloatAttr(rope.betaFast));
      set("beta_slow", builder.getF64FloatAttr(rope.betaSlow));
      set("attention_factor", builder.getF64FloatAttr(rope.attentionFactor));
      set("original_max_position_embeddings",
          builder.getI64IntegerAttr(rope.originalPositions));
      if (!rope.truncate)
        set("truncate", builder.getBoolAttr(false));
      break;
    case RopeScaling::Type::Long:
      set("rope_type", string("longrope"));
      set("attention_factor", builder.getF64FloatAttr(rope.attentionFactor));
      set("factors", builder.getDenseF64ArrayAttr(
                         extents.lookup('s') > rope.originalPositions
                             ? rope.longFactors
                             : rope.shortFactors));
      break;
    }
    scaling = builder.getDictionaryAttr(entries);
  }
  IntegerAttr rotated;
  if (settings.width > 0 && settings.width < spec.headDim)
    rotated = builder.getI64IntegerAttr(settings.width);
  return RopeOp::create(builder, location, type(letters), input, segment(),
                        string(label), string(letters),
                        builder.getF64FloatAttr(settings.theta), scaling,
                        builder.getBoolAttr(false), rotated,
                        builder.getBoolAttr(settings.interleaved));
}

Value KindBuilder::attention(Value q, Value k, Value v, const LayerKind &layer,
                             StringRef label) {
  const int64_t window = layer.window, chunk = layer.chunk;
  // A sequence of one chunk is not cut.
  const bool cut = chunk > 0 && chunk < extents.lookup('s');
  auto real = [&](double value) {
    return value > 0 ? builder.getF64FloatAttr(value) : FloatAttr();
  };
  auto integer = [&](bool present, int64_t value) {
    return present ? builder.getI64IntegerAttr(value) : IntegerAttr();
  };
  auto op = AttentionOp::create(
      builder, location, type("sbngd"), type("sbng"), q, k, v, segment(),
      string(label), builder.getBoolAttr(true),
      builder.getF64FloatAttr(spec.attentionScale), integer(window > 0, window),
      real(spec.attentionSoftcap), real(spec.alibi),
      integer(spec.alibi > 0, spec.heads), integer(cut, chunk));
  return op.getOutput();
}

Value KindBuilder::scalePositions(Value input, const LayerKind &layer,
                                  StringRef letters, StringRef label) {
  return ScalePositionsOp::create(
      builder, location, type(letters), input, segment(), string(label),
      string(letters), builder.getI64IntegerAttr(layer.scaleFloor),
      builder.getF64FloatAttr(layer.scaleStrength));
}

Value KindBuilder::gated(Value gate, Value up, Activation activation,
                         StringRef label) {
  Gate kindOfGate = Gate::Silu;
  switch (activation) {
  case Activation::Silu:
    break;
  case Activation::Relu:
    assert(false && "no family gates with relu");
    break;
  case Activation::Gelu:
    kindOfGate = Gate::Gelu;
    break;
  case Activation::GeluTanh:
    kindOfGate = Gate::GeluTanh;
    break;
  }
  return SwigluOp::create(builder, location, type("sbf"), gate, up, segment(),
                          string(label), string("sbf"),
                          GateAttr::get(builder.getContext(), kindOfGate));
}

Value KindBuilder::activate(Value input, Activation activation,
                            StringRef label) {
  if (activation == Activation::Relu)
    return ReluOp::create(builder, location, type("sbf"), input, segment(),
                          string(label), string("sbf"));
  return GeluOp::create(
      builder, location, type("sbf"), input, segment(), string(label),
      string("sbf"), builder.getBoolAttr(activation == Activation::GeluTanh));
}

Value KindBuilder::scale(Value input, double factor, StringRef letters,
                         StringRef label) {
  return ScaleOp::create(builder, location, type(letters), input, segment(),
                         string(label), string(letters),
                         builder.getF64FloatAttr(factor));
}

Value KindBuilder::softcap(Value input, double cap, StringRef letters,
                           StringRef label) {
  return SoftcapOp::create(builder, location, type(letters), input, segment(),
                           string(label), string(letters),
                           builder.getF64FloatAttr(cap));
}

Value KindBuilder::clip(Value input, double limit, StringRef letters,
                        StringRef label) {
  return ClipOp::create(builder, location, type(letters), input, segment(),
                        string(label), string(letters),
                        builder.getF64FloatAttr(limit));
}

Value KindBuilder::fill(double value, StringRef letters) {
  return FillOp::create(builder, location, type(letters), segment(),
                        StringAttr(), string(letters),
                        builder.getF64FloatAttr(value));
}

Value KindBuilder::embedding(Value ids, Value table, StringRef letters,
                             StringRef label) {
  return EmbeddingOp::create(builder, location, type(letters), ids, table,
                             segment(), string(label));
}

Value KindBuilder::addPositions(Value input, Value table, int64_t offset,
                                StringRef label) {
  return AddPositionsOp::create(builder, location, type("sbh"), input, table,
                                segment(), string(label),
                                builder.getI64IntegerAttr(offset));
}

Value KindBuilder::crossEntropy(Value logits, Value labelIds) {
  IntegerAttr valid = builder.getI64IntegerAttr(spec.vocab);
  Value max = MaxLogitOp::create(builder, location, type("sb"), logits,
                                 segment(), string("max_logit"), valid);
  Value sum = SumExpOp::create(builder, location, type("sb"), logits, max,
                               segment(), string("sum_exp"), valid);
  Value target =
      TargetLogitOp::create(builder, location, type("sb"), logits, labelIds,
                            segment(), string("target_logit"));
  return TokenLossOp::create(builder, location, type(""), max, sum, target,
                             segment(), string("token_loss"),
                             builder.getF64FloatAttr(1.0));
}

void KindBuilder::finish(ArrayRef<Value> results, ResultKind resultKind) {
  ReturnOp::create(builder, location, ValueRange(results));
  kind.setFunctionType(builder.getFunctionType(
      kind.getBody().front().getArgumentTypes(),
      SmallVector<Type>(ValueRange(results).getTypes())));
  for (auto [i, attr] : llvm::enumerate(arguments))
    kind.setModelArg(i, attr);
  for (size_t i = 0; i < results.size(); ++i)
    kind.setModelRes(i, ResAttr::get(builder.getContext(), resultKind, i));
}

} // namespace shardwright

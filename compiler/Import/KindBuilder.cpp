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

Location KindBuilder::locationOf(const char *key) {
  std::string name = spec.file + "#" + (*key ? "/" : "") + key;
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

void KindBuilder::section(Segment newSegment, const char *key) {
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

Value KindBuilder::rmsNorm(Value input, Value weight, StringRef label) {
  auto norm = RmsNormOp::create(
      builder, location, type("sbh"), type("sb"), input, weight, segment(),
      string(label), string("sbh"), builder.getF64FloatAttr(spec.normEps));
  return norm.getOutput();
}

Value KindBuilder::layerNorm(Value input, Value weight, Value bias,
                             StringRef label) {
  auto norm = LayerNormOp::create(builder, location, type("sbh"), type("sb"),
                                  type("sb"), input, weight, bias, segment(),
                                  string(label), string("sbh"),
                                  builder.getF64FloatAttr(spec.normEps));
  return norm.getOutput();
}

Value KindBuilder::rope(Value input, StringRef letters, StringRef label) {
  DictionaryAttr scaling;
  if (spec.ropeScaling) {
    const RopeScaling &rope = *spec.ropeScaling;
    SmallVector<NamedAttribute> entries;
    auto set = [&](StringRef key, Attribute value) {
      entries.push_back(builder.getNamedAttr(key, value));
    };
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
    }
    scaling = builder.getDictionaryAttr(entries);
  }
  return RopeOp::create(builder, location, type(letters), input, segment(),
                        string(label), string(letters),
                        builder.getF64FloatAttr(spec.ropeTheta), scaling,
                        builder.getBoolAttr(false));
}

Value KindBuilder::attention(Value q, Value k, Value v, StringRef label) {
  auto op = AttentionOp::create(builder, location, type("sbngd"), type("sbng"),
                                q, k, v, segment(), string(label),
                                builder.getBoolAttr(true),
                                builder.getF64FloatAttr(spec.attentionScale));
  return op.getOutput();
}

Value KindBuilder::swiglu(Value gate, Value up, StringRef label) {
  return SwigluOp::create(builder, location, type("sbf"), gate, up, segment(),
                          string(label), string("sbf"));
}

Value KindBuilder::gelu(Value input, StringRef label) {
  return GeluOp::create(builder, location, type("sbf"), input, segment(),
                        string(label), string("sbf"),
                        builder.getBoolAttr(!spec.exactGelu));
}

Value KindBuilder::embedding(Value ids, Value table, StringRef label) {
  return EmbeddingOp::create(builder, location, type("sbh"), ids, table,
                             segment(), string(label));
}

Value KindBuilder::addPositions(Value input, Value table, StringRef label) {
  return AddPositionsOp::create(builder, location, type("sbh"), input, table,
                                segment(), string(label));
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

void KindBuilder::finish(Value result, ResultKind resultKind) {
  ReturnOp::create(builder, location, result);
  kind.setFunctionType(builder.getFunctionType(
      kind.getBody().front().getArgumentTypes(), {result.getType()}));
  for (auto [i, attr] : llvm::enumerate(arguments))
    kind.setModelArg(i, attr);
  kind.setModelRes(0, ResAttr::get(builder.getContext(), resultKind, 0));
}

} // namespace shardwright

//===- ProgramJson.cpp - program.json -------------------------------------===//
//
// Layout, chosen so that a person can read an op on few lines:
//   value     ["compute", [16, "seq"], [1, "batch"]]
//   argument  ["stream_in", index, value]; result alike
//   factor    ["s", "parallel", 16]; operand of an op [value, "sbh"]
//   run       ["dense", 32]
//
//===----------------------------------------------------------------------===//
#include "cost_model/program/ProgramJson.h"
#include "cost_model/base/JsonReader.h"
#include "cost_model/base/JsonWriter.h"

namespace shardwright::cost {

namespace {

using nlohmann::json;

constexpr const char *programSchema = "shardwright.program/1";
constexpr int64_t maxSize = int64_t(1) << 40;

// A closed enum as names. (Those that other code shows have name() in their
// headers; the rest are words of this file alone.)
std::string_view name(ArgKind kind) {
  switch (kind) {
  case ArgKind::StreamIn: return "stream_in";
  case ArgKind::StreamGrad: return "stream_grad";
  case ArgKind::Parameter: return "parameter";
  case ArgKind::Saved: return "saved";
  case ArgKind::Kept: return "kept";
  case ArgKind::Tokens: return "tokens";
  case ArgKind::Labels: return "labels";
  }
  return "";
}
std::string_view name(ResultKind kind) {
  switch (kind) {
  case ResultKind::StreamOut: return "stream_out";
  case ResultKind::StreamGrad: return "stream_grad";
  case ResultKind::Saved: return "saved";
  case ResultKind::Kept: return "kept";
  case ResultKind::ParameterGrad: return "parameter_grad";
  case ResultKind::Loss: return "loss";
  }
  return "";
}
std::string_view name(FactorKind kind) {
  switch (kind) {
  case FactorKind::Parallel: return "parallel";
  case FactorKind::Sum: return "sum";
  case FactorKind::Max: return "max";
  case FactorKind::Full: return "full";
  }
  return "";
}
std::string_view name(Init init) {
  switch (init) {
  case Init::Zeros: return "zeros";
  case Init::Ones: return "ones";
  case Init::Normal: return "normal";
  }
  return "";
}
using cost::name;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

json dimsJson(const std::vector<Dim> &dims) {
  json result = json::array();
  for (const Dim &dim : dims)
    result.push_back(json::array({dim.size, name(dim.role)}));
  return result;
}

json opJson(const Op &op) {
  const IterationSpace &space = op.space;
  json factors = json::array();
  for (const Factor &factor : space.factors)
    factors.push_back(json::array(
        {std::string(1, factor.letter), name(factor.kind), factor.size}));
  auto side = [&](const std::vector<ValueId> &values,
                  const std::vector<std::vector<int>> &dims) {
    json result = json::array();
    for (size_t i = 0; i < values.size(); ++i) {
      std::string letters;
      for (int factor : dims[i])
        letters += space.factors[factor].letter;
      result.push_back(json::array({values[i], letters}));
    }
    return result;
  };
  json precision = json::array();
  for (Precision p : space.resultPrecision)
    precision.push_back(name(p));
  json result = {{"name", op.name},
                 {"label", op.label},
                 {"segment", name(op.segment)},
                 {"kernel", name(space.kernel)},
                 {"causal", space.causal},
                 {"factors", std::move(factors)},
                 {"linear", space.linear},
                 {"operands", side(op.operands, space.operands)},
                 {"results", side(op.results, space.results)},
                 {"result_precision", std::move(precision)}};
  if (space.window > 0) // optional: only windowed attention has it
    result["window"] = space.window;
  if (space.chunk > 0)
    result["chunk"] = space.chunk;
  return result;
}

json functionJson(const Function &function) {
  json values = json::array(), arguments = json::array(), ops = json::array(),
       results = json::array();
  for (const Value &value : function.values) {
    json entry = dimsJson(value.dims);
    entry.insert(entry.begin(), name(value.precision));
    values.push_back(std::move(entry));
  }
  for (const Argument &argument : function.arguments)
    arguments.push_back(
        json::array({name(argument.kind), argument.index, argument.value}));
  for (const Op &op : function.ops)
    ops.push_back(opJson(op));
  for (const Result &result : function.results)
    results.push_back(
        json::array({name(result.kind), result.index, result.value}));
  return {{"values", std::move(values)},
          {"arguments", std::move(arguments)},
          {"ops", std::move(ops)},
          {"results", std::move(results)}};
}

json parameterJson(const Parameter &parameter) {
  return {{"hf_name", parameter.hfName},
          {"dims", dimsJson(parameter.dims)},
          {"segment", name(parameter.segment)},
          {"hf_strides", parameter.hfStrides},
          {"hf_offset", parameter.hfOffset},
          {"hf_shape", parameter.hfShape},
          {"init", name(parameter.init)},
          {"init_scale", parameter.initScale},
          {"decay", parameter.decay},
          {"shared", parameter.shared}};
}

json kindJson(const Kind &kind) {
  json parameters = json::array(), variants = json::array();
  for (const Parameter &parameter : kind.parameters)
    parameters.push_back(parameterJson(parameter));
  for (const KindVariant &variant : kind.variants)
    variants.push_back({{"policy", name(variant.policy)},
                        {"forward", functionJson(variant.forward)},
                        {"data_grad", functionJson(variant.dataGrad)},
                        {"weight_grad", functionJson(variant.weightGrad)}});
  return {{"name", kind.name},
          {"parameters", std::move(parameters)},
          {"variants", std::move(variants)}};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The enumerator with the name `text`, among the first `count`.
template <typename Enum>
bool fromName(const json &text, int count, Enum &result) {
  if (!text.is_string())
    return false;
  for (int i = 0; i < count; ++i)
    if (name(static_cast<Enum>(i)) == text.get_ref<const std::string &>()) {
      result = static_cast<Enum>(i);
      return true;
    }
  return false;
}
// Number of enumerators: one behind the last.
constexpr int roles = static_cast<int>(Role::ValueDim) + 1;
constexpr int segments = static_cast<int>(Segment::Experts) + 1;
constexpr int factorKinds = static_cast<int>(FactorKind::Full) + 1;
constexpr int kernels = static_cast<int>(KernelClass::Permute) + 1;
constexpr int precisions = static_cast<int>(Precision::Index) + 1;
constexpr int argKinds = static_cast<int>(ArgKind::Labels) + 1;
constexpr int resultKinds = static_cast<int>(ResultKind::Loss) + 1;
constexpr int inits = static_cast<int>(Init::Normal) + 1;
constexpr int policies = static_cast<int>(Recompute::Full) + 1;

bool integerIn(const json &value, int64_t least, int64_t most,
               int64_t &result) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() > static_cast<uint64_t>(most)))
    return false;
  result = value.get<int64_t>();
  return result >= least && result <= most;
}

class ProgramReader {
public:
  void read(JsonObject root, Program &program) {
    root.schema(programSchema);
    program.name = root.string("name");
    program.family = root.string("family");
    program.sequence = root.integer("sequence", 1, maxSize);
    program.vocab = root.integer("vocab", 0, maxSize);
    program.layers = root.integer("layers", 0, maxSize);
    program.heads = root.integer("heads", 0, maxSize);
    program.kvHeads = root.integer("kv_heads", 0, maxSize);
    program.headDim = root.integer("head_dim", 0, maxSize);
    program.hidden = root.integer("hidden", 0, maxSize);
    program.ffn = root.integer("ffn", 0, maxSize);
    if (root.has("experts")) {
      program.experts = root.integer("experts", 1, maxSize);
      program.topK = root.integer("top_k", 1, program.experts);
    }
    for (JsonObject &kind : root.objects("kinds"))
      readKind(kind, program.kinds.emplace_back());
    readStack(root, program);
    root.finish();
  }

private:
  void readKind(JsonObject &object, Kind &kind) {
    kind.name = object.string("name");
    for (JsonObject &parameter : object.objects("parameters"))
      readParameter(parameter, kind.parameters.emplace_back());
    for (JsonObject &variant : object.objects("variants")) {
      KindVariant &read = kind.variants.emplace_back();
      choose(variant, "policy", policies, read.policy);
      readFunction(variant.child("forward"), kind, read.forward);
      readFunction(variant.child("data_grad"), kind, read.dataGrad);
      readFunction(variant.child("weight_grad"), kind, read.weightGrad);
      variant.finish();
    }
    if (kind.variants.empty())
      object.complain("/variants", "expected at least one variant");
    object.finish();
  }

  void readParameter(JsonObject &object, Parameter &parameter) {
    parameter.hfName = object.string("hf_name");
    readDims(object, "/dims", object.at("dims"), 0, parameter.dims);
    choose(object, "segment", segments, parameter.segment);
    readIntegers(object, "hf_strides", parameter.hfStrides);
    parameter.hfOffset = object.integer("hf_offset", 0, maxSize);
    readIntegers(object, "hf_shape", parameter.hfShape);
    choose(object, "init", inits, parameter.init);
    parameter.initScale = object.number("init_scale");
    parameter.decay = object.boolean("decay");
    parameter.shared = object.string("shared");
    if (parameter.hfStrides.size() != parameter.dims.size())
      object.complain("/hf_strides", "expected one stride per dim");
    object.finish();
  }

  void readFunction(JsonObject object, const Kind &kind, Function &function) {
    const json &values = array(object, "values");
    for (size_t i = 0; i < values.size(); ++i) {
      Value &value = function.values.emplace_back();
      const std::string at = "/values/" + std::to_string(i);
      if (!values[i].is_array() || values[i].empty() ||
          !fromName(values[i][0], precisions, value.precision))
        object.complain(at, "expected [precision, dims...], but got " +
                                JsonObject::shown(values[i]));
      else
        readDims(object, at, values[i], 1, value.dims);
    }
    std::vector<bool> defined(function.values.size(), false);
    readEnds(object, "arguments", argKinds, function.values.size(),
             function.arguments);
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      const Argument &argument = function.arguments[i];
      const std::string at = "/arguments/" + std::to_string(i);
      define(object, at, argument.value, defined);
      if (argument.kind == ArgKind::Parameter &&
          static_cast<size_t>(argument.index) >= kind.parameters.size())
        object.complain(at, "expected a parameter of the kind");
    }
    for (JsonObject &op : object.objects("ops"))
      readOp(op, function, defined);
    readEnds(object, "results", resultKinds, function.values.size(),
             function.results);
    for (size_t i = 0; i < function.results.size(); ++i) {
      const Result &result = function.results[i];
      const std::string at = "/results/" + std::to_string(i);
      if (!defined[result.value])
        object.complain(at, "expected a value that is defined");
      if (result.kind == ResultKind::ParameterGrad &&
          static_cast<size_t>(result.index) >= kind.parameters.size())
        object.complain(at, "expected a parameter of the kind");
    }
    object.finish();
  }

  void define(JsonObject &object, const std::string &at, ValueId value,
              std::vector<bool> &defined) {
    if (defined[value])
      object.complain(at, "expected a value that is defined once");
    defined[value] = true;
  }

  void readOp(JsonObject &object, Function &function,
              std::vector<bool> &defined) {
    Op op;
    IterationSpace &space = op.space;
    op.name = object.string("name");
    op.label = object.string("label");
    choose(object, "segment", segments, op.segment);
    choose(object, "kernel", kernels, space.kernel);
    space.causal = object.boolean("causal");
    if (object.has("window"))
      space.window = object.integer("window", 1, maxSize);
    if (object.has("chunk"))
      space.chunk = object.integer("chunk", 1, maxSize);
    const json &factors = array(object, "factors");
    for (size_t i = 0; i < factors.size(); ++i) {
      const json &entry = factors[i];
      Factor factor{};
      if (!entry.is_array() || entry.size() != 3 || !entry[0].is_string() ||
          entry[0].get_ref<const std::string &>().size() != 1 ||
          !roleOfLetter(entry[0].get_ref<const std::string &>()[0],
                        factor.role) ||
          space.factorIndex(entry[0].get_ref<const std::string &>()[0]) >= 0 ||
          !fromName(entry[1], factorKinds, factor.kind) ||
          !integerIn(entry[2], 1, maxSize, factor.size)) {
        object.complain("/factors/" + std::to_string(i),
                        "expected [letter, kind, size] with a new letter, but "
                        "got " +
                            JsonObject::shown(entry));
        continue;
      }
      factor.letter = entry[0].get_ref<const std::string &>()[0];
      space.factors.push_back(factor);
    }
    readSide(object, "operands", function, space, op.operands, space.operands);
    readSide(object, "results", function, space, op.results, space.results);
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (!defined[op.operands[i]])
        object.complain("/operands/" + std::to_string(i),
                        "expected a value that is defined before");
    for (size_t i = 0; i < op.results.size(); ++i)
      define(object, "/results/" + std::to_string(i), op.results[i], defined);
    const json &linear = array(object, "linear");
    for (const json &flag : linear)
      space.linear.push_back(flag.is_boolean() && flag.get<bool>());
    if (linear.size() != op.operands.size())
      object.complain("/linear", "expected one boolean per operand");
    const json &precision = array(object, "result_precision");
    for (const json &entry : precision)
      if (!fromName(entry, precisions, space.resultPrecision.emplace_back()))
        object.complain("/result_precision",
                        "expected names of precisions, but got " +
                            JsonObject::shown(entry));
    if (precision.size() != op.results.size())
      object.complain("/result_precision", "expected one name per result");
    object.finish();
    function.ops.push_back(std::move(op));
  }

  void readSide(JsonObject &object, const std::string &key,
                const Function &function, const IterationSpace &space,
                std::vector<ValueId> &ids,
                std::vector<std::vector<int>> &dims) {
    const json &side = array(object, key);
    for (size_t i = 0; i < side.size(); ++i) {
      int64_t id = 0;
      std::vector<int> map;
      bool good = side[i].is_array() && side[i].size() == 2 &&
                  integerIn(side[i][0], 0,
                            static_cast<int64_t>(function.values.size()) - 1,
                            id) &&
                  side[i][1].is_string();
      if (good)
        for (char letter : side[i][1].get_ref<const std::string &>()) {
          map.push_back(space.factorIndex(letter));
          good = good && map.back() >= 0;
        }
      if (!good || map.size() != function.values[id].dims.size()) {
        object.complain("/" + key + "/" + std::to_string(i),
                        "expected [value, letters] with a letter of a factor "
                        "per dim, but got " +
                            JsonObject::shown(side[i]));
        continue;
      }
      ids.push_back(static_cast<ValueId>(id));
      dims.push_back(std::move(map));
    }
  }

  /// Arguments and results: [kind, index, value].
  template <typename End>
  void readEnds(JsonObject &object, const std::string &key, int kinds,
                size_t values, std::vector<End> &ends) {
    const json &list = array(object, key);
    for (size_t i = 0; i < list.size(); ++i) {
      End end{};
      int64_t index = 0, value = 0;
      if (!list[i].is_array() || list[i].size() != 3 ||
          !fromName(list[i][0], kinds, end.kind) ||
          !integerIn(list[i][1], 0, 1 << 20, index) ||
          !integerIn(list[i][2], 0, static_cast<int64_t>(values) - 1, value)) {
        object.complain("/" + key + "/" + std::to_string(i),
                        "expected [kind, index, value], but got " +
                            JsonObject::shown(list[i]));
        continue;
      }
      end.index = static_cast<int32_t>(index);
      end.value = static_cast<ValueId>(value);
      ends.push_back(end);
    }
  }

  void readDims(JsonObject &object, const std::string &at, const json &list,
                size_t from, std::vector<Dim> &dims) {
    for (size_t i = from; i < list.size(); ++i) {
      Dim dim{};
      if (!list.is_array() || !list[i].is_array() || list[i].size() != 2 ||
          !integerIn(list[i][0], 1, maxSize, dim.size) ||
          !fromName(list[i][1], roles, dim.role)) {
        object.complain(at, "expected dims [size, role], but got " +
                                JsonObject::shown(list));
        return;
      }
      dims.push_back(dim);
    }
  }

  void readIntegers(JsonObject &object, const std::string &key,
                    std::vector<int64_t> &numbers) {
    for (const json &entry : array(object, key))
      if (!integerIn(entry, 0, maxSize, numbers.emplace_back()))
        object.complain("/" + key, "expected integers >= 0, but got " +
                                       JsonObject::shown(entry));
  }

  void readStack(JsonObject &root, Program &program) {
    const json &stack = array(root, "stack");
    for (size_t i = 0; i < stack.size(); ++i) {
      int64_t count = 0;
      int kind = -1;
      if (stack[i].is_array() && stack[i].size() == 2 &&
          stack[i][0].is_string())
        kind = kindIndex(program, stack[i][0].get<std::string>());
      if (kind < 0 || !integerIn(stack[i][1], 1, 1 << 20, count)) {
        root.complain("/stack/" + std::to_string(i),
                      "expected [kind, count], but got " +
                          JsonObject::shown(stack[i]));
        continue;
      }
      program.stack.push_back({kind, count});
    }
  }

  template <typename Enum>
  void choose(JsonObject &object, const std::string &key, int count,
              Enum &result) {
    const json &value = object.at(key);
    if (fromName(value, count, result) || JsonObject::isMissing(value))
      return;
    std::string wanted;
    for (int i = 0; i < count; ++i)
      wanted += (i ? ", " : "") + std::string(name(static_cast<Enum>(i)));
    object.complain("/" + key, "expected one of " + wanted + ", but got " +
                                   JsonObject::shown(value));
  }

  const json &array(JsonObject &object, const std::string &key) {
    static const json none = json::array();
    const json &value = object.at(key);
    if (value.is_array())
      return value;
    if (!JsonObject::isMissing(value))
      object.complain("/" + key, "expected an array, but got " +
                                     JsonObject::shown(value));
    return none;
  }
};

} // namespace

bool readProgram(std::string_view text, std::string_view file, Program &program,
                 Failure &failure) {
  const std::string where(file);
  const size_t before = failure.messages.size();
  failure.kind = FailureKind::Input;
  json value;
  if (!parseStrictly(text, where, value, failure))
    return false;
  Program read;
  ProgramReader().read(JsonObject(value, where + "#", failure), read);
  if (failure.messages.size() > before)
    return false;
  program = std::move(read);
  return true;
}

std::string programJson(const Program &program) {
  json kinds = json::array(), stack = json::array();
  for (const Kind &kind : program.kinds)
    kinds.push_back(kindJson(kind));
  for (const Run &run : program.stack)
    stack.push_back(json::array({program.kinds[run.kind].name, run.count}));
  json root = {{"schema", programSchema},
                        {"name", program.name},
                        {"family", program.family},
                        {"sequence", program.sequence},
                        {"vocab", program.vocab},
                        {"layers", program.layers},
                        {"heads", program.heads},
                        {"kv_heads", program.kvHeads},
                        {"head_dim", program.headDim},
                        {"hidden", program.hidden},
                        {"ffn", program.ffn},
                        {"kinds", std::move(kinds)},
                        {"stack", std::move(stack)}};
  if (program.experts > 0) {
    root["experts"] = program.experts;
    root["top_k"] = program.topK;
  }
  return canonicalJson(root);
}

} // namespace shardwright::cost

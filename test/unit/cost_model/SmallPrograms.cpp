#include "SmallPrograms.h"

#include "cost_model/program/SavedSet.h"

#include <algorithm>
#include <cassert>
#include <optional>

using namespace shardwright::cost;

namespace shardwright::test {

namespace {

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::vector<Dim> dimsOf(const std::map<char, int64_t> &sizes,
                        const std::string &letters) {
  std::vector<Dim> dims;
  for (char letter : letters) {
    Role role{};
    bool known = roleOfLetter(letter, role);
    assert(known);
    (void)known;
    dims.push_back({sizes.at(letter), role});
  }
  return dims;
}

bool has(const std::string &letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

} // namespace

ValueId FunctionBuilder::argument(ArgKind kind, int index,
                                  const std::string &letters,
                                  Precision precision) {
  function.values.push_back({dimsOf(sizes, letters), precision});
  ValueId value = static_cast<ValueId>(function.values.size() - 1);
  function.arguments.push_back({kind, index, value});
  return value;
}

void FunctionBuilder::result(ResultKind kind, int index, ValueId value) {
  function.results.push_back({kind, index, value});
}

std::vector<ValueId> FunctionBuilder::op(const std::string &name,
                                         Segment segment,
                                         const std::string &spec,
                                         const std::vector<ValueId> &operands,
                                         const Options &options) {
  size_t arrow = spec.find("->");
  std::vector<std::string> inputs = split(spec.substr(0, arrow), ',');
  std::vector<std::string> outputs = split(spec.substr(arrow + 2), ',');
  std::string allOutputs;
  for (const std::string &output : outputs)
    allOutputs += output;

  Op op;
  op.name = name;
  op.label = options.label;
  op.segment = segment;
  op.operands = operands;
  IterationSpace &space = op.space;
  space.kernel = options.kernel;
  space.causal = options.causal;
  auto dimMap = [&](const std::string &letters) {
    std::vector<int> map;
    for (char letter : letters) {
      int index = space.factorIndex(letter);
      if (index < 0) {
        FactorKind kind = FactorKind::Parallel;
        if (has(options.full, letter))
          kind = FactorKind::Full;
        else if (has(options.maximum, letter))
          kind = FactorKind::Max;
        else if (!has(allOutputs, letter) || has(options.sum, letter))
          kind = FactorKind::Sum;
        Role role{};
        roleOfLetter(letter, role);
        index = static_cast<int>(space.factors.size());
        space.factors.push_back({letter, role, kind, sizes.at(letter)});
      }
      map.push_back(index);
    }
    return map;
  };
  for (const std::string &input : inputs)
    space.operands.push_back(dimMap(input));
  for (const std::string &output : outputs)
    space.results.push_back(dimMap(output));
  space.linear = options.linear;
  space.linear.resize(inputs.size(), false);
  space.resultPrecision = options.precision;
  space.resultPrecision.resize(outputs.size(), Precision::Compute);
  for (size_t i = 0; i < outputs.size(); ++i) {
    function.values.push_back(
        {dimsOf(sizes, outputs[i]), space.resultPrecision[i]});
    op.results.push_back(static_cast<ValueId>(function.values.size() - 1));
  }
  function.ops.push_back(op);
  return op.results;
}

ValueId FunctionBuilder::contract(const std::string &name, Segment segment,
                                  const std::string &spec, ValueId lhs,
                                  ValueId rhs, Precision precision) {
  Options options;
  options.label = name;
  options.kernel = KernelClass::Gemm;
  options.linear = {true, true};
  options.precision = {precision};
  return op(name, segment, spec, {lhs, rhs}, options)[0];
}

ValueId FunctionBuilder::add(const std::string &name, Segment segment,
                             const std::string &letters, ValueId lhs,
                             ValueId rhs) {
  Options options;
  options.label = name;
  options.linear = {true, true};
  return op(name, segment, letters + "," + letters + "->" + letters, {lhs, rhs},
            options)[0];
}

namespace {

/// The forward values of one kind as its backward functions see them: saved,
/// recomputed (then kept) or arguments.
class BackwardBuilder {
public:
  BackwardBuilder(const Function &forward, const std::vector<Parameter> &params,
                  const std::vector<std::string> &paramLetters,
                  std::map<char, int64_t> sizes, const SavedSet &set)
      : forward(forward), params(params), paramLetters(paramLetters), set(set),
        dataGrad(sizes), weightGrad(sizes) {}

  /// The value `v` of the forward function inside the data gradient.
  ValueId data(ValueId v) {
    if (auto it = inData.find(v); it != inData.end())
      return it->second;
    return inData[v] = bring(dataGrad, v, false);
  }
  ValueId weight(ValueId v) {
    if (auto it = inWeight.find(v); it != inWeight.end())
      return it->second;
    return inWeight[v] = bring(weightGrad, v, true);
  }
  /// A value that the data gradient computed, inside the weight gradient.
  ValueId keep(ValueId gradient) {
    if (auto it = keptAs.find(gradient); it != keptAs.end())
      return it->second;
    int index = static_cast<int>(keptAs.size());
    dataGrad.result(ResultKind::Kept, index, gradient);
    const Value &value = dataGrad.function.values[gradient];
    weightGrad.function.values.push_back(value);
    ValueId id = static_cast<ValueId>(weightGrad.function.values.size() - 1);
    weightGrad.function.arguments.push_back({ArgKind::Kept, index, id});
    return keptAs[gradient] = id;
  }

  const Function &forward;
  const std::vector<Parameter> &params;
  const std::vector<std::string> &paramLetters;
  const SavedSet &set;
  FunctionBuilder dataGrad, weightGrad;

private:
  ValueId bring(FunctionBuilder &into, ValueId v, bool weight) {
    auto copyArgument = [&](ArgKind kind, int index) {
      into.function.values.push_back(forward.values[v]);
      ValueId id = static_cast<ValueId>(into.function.values.size() - 1);
      into.function.arguments.push_back({kind, index, id});
      return id;
    };
    for (const Argument &argument : forward.arguments)
      if (argument.value == v)
        return copyArgument(argument.kind, argument.index);
    auto saved = std::find(set.saved.begin(), set.saved.end(), v);
    if (saved != set.saved.end())
      return copyArgument(ArgKind::Saved,
                          static_cast<int>(saved - set.saved.begin()));
    if (weight)
      return keep(data(v));
    for (int index : set.recomputed) {
      const Op &source = forward.ops[index];
      if (std::find(source.results.begin(), source.results.end(), v) ==
          source.results.end())
        continue;
      Op clone = source;
      for (ValueId &operand : clone.operands)
        operand = data(operand);
      for (ValueId &result : clone.results) {
        into.function.values.push_back(forward.values[result]);
        ValueId id = static_cast<ValueId>(into.function.values.size() - 1);
        inData[result] = id;
        result = id;
      }
      into.function.ops.push_back(clone);
      return inData.at(v);
    }
    assert(false && "the saved set covers every needed value");
    return -1;
  }

  std::map<ValueId, ValueId> inData, inWeight, keptAs;
};

Parameter parameter(const std::map<char, int64_t> &sizes,
                    const std::string &hfName, const std::string &letters,
                    Segment segment) {
  Parameter result;
  result.hfName = hfName;
  result.dims = dimsOf(sizes, letters);
  result.segment = segment;
  result.decay = letters.size() > 1;
  result.init = letters.size() > 1 ? Init::Normal : Init::Ones;
  int64_t stride = 1;
  result.hfStrides.resize(result.dims.size());
  for (size_t i = result.dims.size(); i-- > 0;) {
    result.hfStrides[i] = stride;
    stride *= result.dims[i].size;
  }
  result.hfShape.push_back(stride);
  return result;
}

std::vector<ValueId> rmsNorm(FunctionBuilder &f, const std::string &label,
                             ValueId input, ValueId weight) {
  return f.op("rms_norm", Segment::Stream, "sbh,h->sbh,sb", {input, weight},
              {.label = label,
               .kernel = KernelClass::RowNorm,
               .full = "h",
               .precision = {Precision::Compute, Precision::Stat}});
}
ValueId rmsNormGrad(FunctionBuilder &f, ValueId dy, ValueId input,
                    ValueId weight, ValueId rstd) {
  return f.op("rms_norm_grad", Segment::Stream, "sbh,sbh,h,sb->sbh",
              {dy, input, weight, rstd},
              {.kernel = KernelClass::RowNorm, .full = "h"})[0];
}
ValueId rmsNormWeightGrad(FunctionBuilder &f, ValueId dy, ValueId input,
                          ValueId rstd) {
  return f.op("rms_norm_weight_grad", Segment::Stream, "sbh,sbh,sb->h",
              {dy, input, rstd},
              {.kernel = KernelClass::ColumnSum,
               .precision = {Precision::Grad}})[0];
}

Kind embedKind(const std::map<char, int64_t> &sizes, bool tied) {
  Kind kind;
  kind.name = "embed";
  kind.parameters = {parameter(sizes, "model.embed_tokens.weight", "vh",
                               Segment::Embed)};
  if (tied)
    kind.parameters[0].shared = "model.embed_tokens.weight";
  KindVariant variant;
  FunctionBuilder forward(sizes);
  ValueId ids = forward.argument(ArgKind::Tokens, 0, "sb", Precision::Index);
  ValueId table =
      forward.argument(ArgKind::Parameter, 0, "vh", Precision::Param);
  ValueId out = forward.op("embedding", Segment::Embed, "sb,vh->sbh",
                           {ids, table}, {.kernel = KernelClass::Gather})[0];
  forward.result(ResultKind::StreamOut, 0, out);
  variant.forward = forward.function;
  FunctionBuilder weightGrad(sizes);
  ids = weightGrad.argument(ArgKind::Tokens, 0, "sb", Precision::Index);
  ValueId dy = weightGrad.argument(ArgKind::StreamGrad, 0, "sbh");
  ValueId dtable = weightGrad.op("embedding_grad", Segment::Embed, "sb,sbh->vh",
                                 {ids, dy},
                                 {.kernel = KernelClass::Scatter,
                                  .linear = {false, true},
                                  .precision = {Precision::Grad}})[0];
  weightGrad.result(ResultKind::ParameterGrad, 0, dtable);
  variant.weightGrad = weightGrad.function;
  kind.variants.push_back(variant);
  return kind;
}

KindVariant denseVariant(const std::map<char, int64_t> &sizes,
                         const std::vector<Parameter> &params,
                         const std::vector<std::string> &letters,
                         Recompute policy) {
  enum { N1, WQ, WK, WV, WO, N2, WG, WU, WD };
  FunctionBuilder f(sizes);
  ValueId x = f.argument(ArgKind::StreamIn, 0, "sbh");
  std::vector<ValueId> w;
  for (size_t i = 0; i < letters.size(); ++i)
    w.push_back(f.argument(ArgKind::Parameter, static_cast<int>(i), letters[i],
                           Precision::Param));
  const Segment attn = Segment::Attention, mlp = Segment::Mlp,
                stream = Segment::Stream;
  auto norm1 = rmsNorm(f, "attn_norm", x, w[N1]);
  ValueId q = f.contract("q_proj", attn, "sbh,ngdh->sbngd", norm1[0], w[WQ]);
  ValueId k = f.contract("k_proj", attn, "sbh,ndh->sbnd", norm1[0], w[WK]);
  ValueId v = f.contract("v_proj", attn, "sbh,ndh->sbnd", norm1[0], w[WV]);
  ValueId qr = f.op("rope", attn, "sbngd->sbngd", {q},
                    {.label = "q_rope", .linear = {true}, .full = "d"})[0];
  ValueId kr = f.op("rope", attn, "sbnd->sbnd", {k},
                    {.label = "k_rope", .linear = {true}, .full = "d"})[0];
  auto core = f.op("attention", attn, "sbngd,tbnd,tbnd->sbngd,sbng",
                   {qr, kr, v},
                   {.label = "core_attention",
                    .kernel = KernelClass::Attention,
                    .full = "td",
                    .precision = {Precision::Compute, Precision::Stat},
                    .causal = true});
  ValueId a = f.contract("o_proj", attn, "sbngd,hngd->sbh", core[0], w[WO]);
  ValueId x2 = f.add("attn_residual", stream, "sbh", x, a);
  auto norm2 = rmsNorm(f, "mlp_norm", x2, w[N2]);
  ValueId gate = f.contract("gate", mlp, "sbh,fh->sbf", norm2[0], w[WG]);
  ValueId up = f.contract("up", mlp, "sbh,fh->sbf", norm2[0], w[WU]);
  ValueId act = f.op("swiglu", mlp, "sbf,sbf->sbf", {gate, up},
                     {.label = "act"})[0];
  ValueId down = f.contract("down", mlp, "sbf,hf->sbh", act, w[WD]);
  ValueId y = f.add("mlp_residual", stream, "sbh", x2, down);
  f.result(ResultKind::StreamOut, 0, y);

  SavedSet set = savedSet(f.function,
                          {x, norm1[0], norm1[1], qr, kr, v, core[0], core[1],
                           x2, norm2[0], norm2[1], gate, up, act},
                          policy);
  BackwardBuilder back(f.function, params, letters, sizes, set);
  FunctionBuilder &d = back.dataGrad, &wg = back.weightGrad;
  for (int op : set.recomputed)
    for (ValueId value : f.function.ops[op].results)
      back.data(value);
  ValueId dy = d.argument(ArgKind::StreamGrad, 0, "sbh");
  ValueId dact = d.contract("dact", mlp, "sbh,hf->sbf", dy, back.data(w[WD]));
  auto dgu = d.op("swiglu_grad", mlp, "sbf,sbf,sbf->sbf,sbf",
                  {dact, back.data(gate), back.data(up)}, {});
  ValueId dn2 = d.add(
      "dn2", mlp, "sbh",
      d.contract("dg", mlp, "sbf,fh->sbh", dgu[0], back.data(w[WG])),
      d.contract("du", mlp, "sbf,fh->sbh", dgu[1], back.data(w[WU])));
  ValueId dx2 =
      d.add("dx2", stream, "sbh", dy,
            rmsNormGrad(d, dn2, back.data(x2), back.data(w[N2]),
                        back.data(norm2[1])));
  ValueId dout =
      d.contract("dout", attn, "sbh,hngd->sbngd", dx2, back.data(w[WO]));
  auto dqkv = d.op("attention_grad", attn,
                   "sbngd,sbngd,tbnd,tbnd,sbngd,sbng->sbngd,tbnd,tbnd",
                   {dout, back.data(qr), back.data(kr), back.data(v),
                    back.data(core[0]), back.data(core[1])},
                   {.kernel = KernelClass::AttentionGrad,
                    .full = "td",
                    .sum = "g",
                    .causal = true});
  ValueId dq = d.op("rope", attn, "sbngd->sbngd", {dqkv[0]},
                    {.linear = {true}, .full = "d"})[0];
  ValueId dk = d.op("rope", attn, "sbnd->sbnd", {dqkv[1]},
                    {.linear = {true}, .full = "d"})[0];
  ValueId dn1 = d.add(
      "dn1b", attn, "sbh",
      d.add("dn1a", attn, "sbh",
            d.contract("dq", attn, "sbngd,ngdh->sbh", dq, back.data(w[WQ])),
            d.contract("dk", attn, "sbnd,ndh->sbh", dk, back.data(w[WK]))),
      d.contract("dv", attn, "sbnd,ndh->sbh", dqkv[2], back.data(w[WV])));
  ValueId dx = d.add("dx", stream, "sbh", dx2,
                     rmsNormGrad(d, dn1, back.data(x), back.data(w[N1]),
                                 back.data(norm1[1])));
  d.result(ResultKind::StreamGrad, 0, dx);

  const Precision grad = Precision::Grad;
  std::vector<ValueId> g(letters.size());
  ValueId wdy = back.keep(dy);
  g[N1] = rmsNormWeightGrad(wg, back.keep(dn1), back.weight(x),
                            back.weight(norm1[1]));
  ValueId n1 = back.weight(norm1[0]), n2 = back.weight(norm2[0]);
  g[WQ] = wg.contract("dwq", attn, "sbngd,sbh->ngdh", back.keep(dq), n1, grad);
  g[WK] = wg.contract("dwk", attn, "sbnd,sbh->ndh", back.keep(dk), n1, grad);
  g[WV] =
      wg.contract("dwv", attn, "sbnd,sbh->ndh", back.keep(dqkv[2]), n1, grad);
  g[WO] = wg.contract("dwo", attn, "sbh,sbngd->hngd", back.keep(dx2),
                      back.weight(core[0]), grad);
  g[N2] = rmsNormWeightGrad(wg, back.keep(dn2), back.weight(x2),
                            back.weight(norm2[1]));
  g[WG] = wg.contract("dwg", mlp, "sbf,sbh->fh", back.keep(dgu[0]), n2, grad);
  g[WU] = wg.contract("dwu", mlp, "sbf,sbh->fh", back.keep(dgu[1]), n2, grad);
  g[WD] = wg.contract("dwd", mlp, "sbh,sbf->hf", wdy, back.weight(act), grad);
  for (size_t i = 0; i < g.size(); ++i)
    wg.result(ResultKind::ParameterGrad, static_cast<int>(i), g[i]);

  for (size_t i = 0; i < set.saved.size(); ++i)
    f.result(ResultKind::Saved, static_cast<int>(i), set.saved[i]);
  return {policy, f.function, d.function, wg.function};
}

Kind denseKind(const std::map<char, int64_t> &sizes) {
  const std::string prefix = "model.layers.{}.";
  const std::vector<std::string> letters = {"h",    "ngdh", "ndh", "ndh", "hngd",
                                            "h",    "fh",   "fh",  "hf"};
  const char *names[] = {"input_layernorm", "self_attn.q_proj",
                         "self_attn.k_proj", "self_attn.v_proj",
                         "self_attn.o_proj", "post_attention_layernorm",
                         "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
  Kind kind;
  kind.name = "dense";
  for (size_t i = 0; i < letters.size(); ++i) {
    Segment segment = letters[i] == "h" ? Segment::Stream
                      : i < 5           ? Segment::Attention
                                        : Segment::Mlp;
    kind.parameters.push_back(parameter(
        sizes, prefix + names[i] + ".weight", letters[i], segment));
  }
  for (Recompute policy :
       {Recompute::None, Recompute::Selective, Recompute::Full})
    kind.variants.push_back(
        denseVariant(sizes, kind.parameters, letters, policy));
  return kind;
}

Kind headKind(const std::map<char, int64_t> &sizes, bool tied) {
  Kind kind;
  kind.name = "head";
  kind.parameters = {
      parameter(sizes, "model.norm.weight", "h", Segment::Stream),
      parameter(sizes, tied ? "model.embed_tokens.weight" : "lm_head.weight",
                "vh", Segment::Head)};
  if (tied)
    kind.parameters[1].shared = "model.embed_tokens.weight";
  const Precision stat = Precision::Stat;
  const KernelClass entropy = KernelClass::CrossEntropy;
  FunctionBuilder f(sizes);
  ValueId x = f.argument(ArgKind::StreamIn, 0, "sbh");
  ValueId labels = f.argument(ArgKind::Labels, 0, "sb", Precision::Index);
  ValueId wn = f.argument(ArgKind::Parameter, 0, "h", Precision::Param);
  ValueId wh = f.argument(ArgKind::Parameter, 1, "vh", Precision::Param);
  auto norm = rmsNorm(f, "final_norm", x, wn);
  ValueId logits =
      f.contract("logits", Segment::Head, "sbh,vh->sbv", norm[0], wh);
  ValueId max = f.op("max_logit", Segment::Loss, "sbv->sb", {logits},
                     {.label = "max", .kernel = entropy, .maximum = "v",
                      .precision = {stat}})[0];
  ValueId sum = f.op("sum_exp", Segment::Loss, "sbv,sb->sb", {logits, max},
                     {.label = "sum", .kernel = entropy,
                      .precision = {stat}})[0];
  ValueId target = f.op("target_logit", Segment::Loss, "sbv,sb->sb",
                        {logits, labels},
                        {.label = "target", .kernel = entropy,
                         .precision = {stat}})[0];
  ValueId loss = f.op("token_loss", Segment::Loss, "sb,sb,sb->",
                      {max, sum, target},
                      {.label = "loss", .kernel = entropy,
                       .precision = {stat}})[0];
  f.result(ResultKind::Loss, 0, loss);

  SavedSet set = savedSet(f.function, {x, norm[0], norm[1], logits, max, sum},
                          Recompute::None);
  std::vector<std::string> letters = {"h", "vh"};
  BackwardBuilder back(f.function, kind.parameters, letters, sizes, set);
  FunctionBuilder &d = back.dataGrad, &wg = back.weightGrad;
  ValueId dlogits = d.op("softmax_grad", Segment::Loss, "sbv,sb,sb,sb->sbv",
                         {back.data(logits), back.data(max), back.data(sum),
                          back.data(labels)},
                         {.kernel = entropy})[0];
  ValueId dn =
      d.contract("dn", Segment::Head, "sbv,vh->sbh", dlogits, back.data(wh));
  ValueId dx = rmsNormGrad(d, dn, back.data(x), back.data(wn),
                           back.data(norm[1]));
  d.result(ResultKind::StreamGrad, 0, dx);
  ValueId g0 = rmsNormWeightGrad(wg, back.keep(dn), back.weight(x),
                                 back.weight(norm[1]));
  ValueId g1 = wg.contract("dwh", Segment::Head, "sbv,sbh->vh",
                           back.keep(dlogits), back.weight(norm[0]),
                           Precision::Grad);
  wg.result(ResultKind::ParameterGrad, 0, g0);
  wg.result(ResultKind::ParameterGrad, 1, g1);
  for (size_t i = 0; i < set.saved.size(); ++i)
    f.result(ResultKind::Saved, static_cast<int>(i), set.saved[i]);
  kind.variants.push_back(
      {Recompute::None, f.function, d.function, wg.function});
  return kind;
}

} // namespace

Program twoGemms() {
  const std::map<char, int64_t> sizes = {
      {'s', 6}, {'b', 1}, {'h', 8}, {'f', 16}};
  Kind kind;
  kind.name = "mlp";
  kind.parameters = {parameter(sizes, "layers.{}.w1", "fh", Segment::Mlp),
                     parameter(sizes, "layers.{}.w2", "hf", Segment::Mlp)};
  FunctionBuilder f(sizes), d(sizes), w(sizes);
  ValueId x = f.argument(ArgKind::StreamIn, 0, "sbh");
  ValueId w1 = f.argument(ArgKind::Parameter, 0, "fh", Precision::Param);
  ValueId w2 = f.argument(ArgKind::Parameter, 1, "hf", Precision::Param);
  ValueId y1 = f.contract("up", Segment::Mlp, "sbh,fh->sbf", x, w1);
  ValueId y = f.contract("down", Segment::Mlp, "sbf,hf->sbh", y1, w2);
  f.result(ResultKind::StreamOut, 0, y);
  f.result(ResultKind::Saved, 0, y1);

  ValueId dy = d.argument(ArgKind::StreamGrad, 0, "sbh");
  w1 = d.argument(ArgKind::Parameter, 0, "fh", Precision::Param);
  w2 = d.argument(ArgKind::Parameter, 1, "hf", Precision::Param);
  ValueId dy1 = d.contract("dy1", Segment::Mlp, "sbh,hf->sbf", dy, w2);
  ValueId dx = d.contract("dx", Segment::Mlp, "sbf,fh->sbh", dy1, w1);
  d.result(ResultKind::StreamGrad, 0, dx);
  d.result(ResultKind::Kept, 0, dy1);

  x = w.argument(ArgKind::StreamIn, 0, "sbh");
  dy = w.argument(ArgKind::StreamGrad, 0, "sbh");
  y1 = w.argument(ArgKind::Saved, 0, "sbf");
  dy1 = w.argument(ArgKind::Kept, 0, "sbf");
  w.result(ResultKind::ParameterGrad, 0,
           w.contract("dw1", Segment::Mlp, "sbf,sbh->fh", dy1, x,
                      Precision::Grad));
  w.result(ResultKind::ParameterGrad, 1,
           w.contract("dw2", Segment::Mlp, "sbh,sbf->hf", dy, y1,
                      Precision::Grad));
  kind.variants.push_back(
      {Recompute::None, f.function, d.function, w.function});

  Program program;
  program.name = "two-gemms";
  program.family = "test";
  program.sequence = 6;
  program.layers = 1;
  program.hidden = 8;
  program.ffn = 16;
  program.kinds = {kind};
  program.stack = {{0, 1}};
  return program;
}

Program smallLlama(const LlamaSizes &sizes) {
  const std::map<char, int64_t> letters = {
      {'s', sizes.sequence}, {'t', sizes.sequence}, {'b', 1},
      {'h', sizes.hidden},   {'n', sizes.kvHeads},  {'g', sizes.group},
      {'d', sizes.headDim},  {'f', sizes.ffn},      {'v', sizes.vocab}};
  Program program;
  program.name = "small-llama";
  program.family = "llama";
  program.sequence = sizes.sequence;
  program.vocab = sizes.vocab;
  program.layers = sizes.layers;
  program.heads = sizes.kvHeads * sizes.group;
  program.kvHeads = sizes.kvHeads;
  program.headDim = sizes.headDim;
  program.hidden = sizes.hidden;
  program.ffn = sizes.ffn;
  program.kinds = {embedKind(letters, sizes.tied), denseKind(letters),
                   headKind(letters, sizes.tied)};
  program.stack = {{0, 1}, {1, sizes.layers}, {2, 1}};
  return program;
}

Plan planFor(const Program &program, int64_t pp, int64_t dp, int64_t tp,
             bool sp, int zero, int64_t microBatch, int64_t microbatches,
             Recompute policy) {
  Plan plan;
  plan.pp = pp;
  plan.dp = dp;
  plan.tp = tp;
  plan.sp = sp;
  plan.zero = zero;
  plan.microBatch = microBatch;
  plan.globalBatch = dp * microBatch * microbatches;
  plan.sequence = program.sequence;
  plan.modelName = program.name;
  plan.kvReplicas = kvReplicasOf(program, tp);
  setMesh(plan);
  plan.stages = evenStages(program, pp, policy);
  return plan;
}

} // namespace shardwright::test

#include "cost_model/partition/Assignment.h"
#include "SmallPrograms.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/partition/Layout.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

PlannedVariant planned(const Plan &plan, const Kind &kind,
                       Recompute policy = Recompute::None) {
  PlannedVariant result;
  std::string why;
  bool ok = planVariant(plan, kind, kind.variant(policy), result, why);
  INFO(why);
  REQUIRE(ok);
  return result;
}

/// "all_reduce dim", one word a step, in program order of the values.
std::map<std::string, int> count(const PlannedFunction &function) {
  std::map<std::string, int> counts;
  for (const auto &value : function.values)
    for (const ReshardStep &step : value.reshards.steps)
      ++counts[std::string(name(step.collective))];
  return counts;
}
using Counts = std::map<std::string, int>;

const PlannedOp &opNamed(const Function &function,
                         const PlannedFunction &planned,
                         const std::string &label) {
  for (size_t i = 0; i < function.ops.size(); ++i)
    if (function.ops[i].label == label)
      return planned.ops[i];
  throw std::runtime_error("no op " + label);
}

} // namespace

TEST_CASE("rule table") {
  Plan plan = planFor(smallLlama(), 1, 2, 4);
  const Axes none, dp{1}, tp{2};
  CHECK(axesOf(plan, Segment::Stream, Role::Batch) == dp);
  CHECK(axesOf(plan, Segment::Stream, Role::Seq) == none);
  CHECK(axesOf(plan, Segment::Attention, Role::Heads) == tp);
  CHECK(axesOf(plan, Segment::Attention, Role::Ffn) == none);
  CHECK(axesOf(plan, Segment::Mlp, Role::Ffn) == tp);
  for (Segment segment : {Segment::Embed, Segment::Head, Segment::Loss})
    CHECK(axesOf(plan, segment, Role::Vocab) == tp);
  CHECK(axesOf(plan, Segment::Update, Role::Flat) == none);
  CHECK(axesOf(plan, Segment::Update, Role::Batch) == none);
  plan.sp = true;
  plan.zero = 1;
  CHECK(axesOf(plan, Segment::Stream, Role::Seq) == tp);
  CHECK(axesOf(plan, Segment::Head, Role::Seq) == none);
  CHECK(axesOf(plan, Segment::Update, Role::Flat) == dp);
}

TEST_CASE("the vocabulary is padded to a multiple of 128 * tp") {
  CHECK(paddedVocab(50257, 1) == 50304);
  CHECK(paddedVocab(50257, 8) == 51200);
  CHECK(paddedVocab(1024, 8) == 1024);
  // Vocabularies with added tokens, which no degree divides.
  CHECK(paddedVocab(32001, 2) == 32256);
  CHECK(paddedVocab(49159, 2) == 49408);
  CHECK(paddedVocab(65535, 4) == 65536);
  CHECK(paddedVocab(151665, 8) == 152576);
  // Frameworks that do not pad (FrameworkFacts::padsVocabulary): their fullest
  // rank has ceil(vocab / tp) rows, ours at most 127 more.
  for (int64_t vocab : {1, 32000, 32001, 49159, 65535, 128256, 151665, 262144})
    for (int64_t tp : {1, 2, 3, 8, 16, 64}) {
      const int64_t rows = paddedVocab(vocab, tp) / tp;
      CHECK(paddedVocab(vocab, tp) % tp == 0);
      CHECK(rows >= ceilDiv(vocab, tp));
      CHECK(rows - ceilDiv(vocab, tp) < 128);
    }
  Plan plan = planFor(smallLlama(), 1, 2, 4, false, 0, 3);
  CHECK(plannedSize(plan, Role::Batch, 1) == 6);
  CHECK(plannedSize(plan, Role::Vocab, 1000) == 1024);
  CHECK(plannedSize(plan, Role::Seq, 16) == 16);
}

TEST_CASE("one rank has no collective and no axis") {
  Program program = smallLlama();
  Plan plan = planFor(program, 1, 1, 1);
  for (const Kind &kind : program.kinds)
    for (const KindVariant &variant : kind.variants) {
      PlannedVariant p = planned(plan, kind, variant.policy);
      for (const PlannedFunction *f : {&p.forward, &p.dataGrad, &p.weightGrad}) {
        CHECK(count(*f).empty());
        for (const Encoding &encoding : f->encodings) {
          CHECK(encoding.partialAxes.empty());
          for (const auto &axes : encoding.dims)
            CHECK(axes.empty());
        }
      }
    }
}

// Column then row split (Shoeybi et al., arXiv:1909.08053, figure 3): the only
// collective forward is f after the second product, backward g after the first.
TEST_CASE("two gemms under tp: one all-reduce forward, one backward") {
  Program program = twoGemms();
  Plan plan = planFor(program, 1, 1, 4);
  PlannedVariant p = planned(plan, program.kinds[0]);
  CHECK(count(p.forward) == Counts{{"all_reduce", 1}});
  CHECK(count(p.dataGrad) == Counts{{"all_reduce", 1}});
  CHECK(count(p.weightGrad) == Counts{});
  // y1 is [s, b, f/4]; its saved form is the same.
  const Encoding sharded{{{}, {}, {2}}, Partial::None, {}};
  CHECK(p.forward.results[1] == sharded);
  CHECK(p.forward.ops[0].local.factors[0].size == 6);
  CHECK(p.forward.ops[0].local.factorIndex('f') == 3);
  CHECK(p.forward.ops[0].local.factors[3].size == 4);
  CHECK(localShape(plan, program.kinds[0].variants[0].forward.values[3],
                   sharded) == std::vector<int64_t>{6, 1, 4});
  CHECK(localBytes(plan, program.kinds[0].variants[0].forward.values[3],
                   sharded) == Bytes(6 * 4 * 2));
}

TEST_CASE("a gradient stays partial over the data axis") {
  Program program = twoGemms();
  Plan plan = planFor(program, 1, 3, 4);
  PlannedVariant p = planned(plan, program.kinds[0]);
  CHECK(count(p.weightGrad) == Counts{});
  for (const Encoding &gradient : p.weightGrad.results) {
    CHECK(gradient.partial == Partial::Sum);
    CHECK(gradient.partialAxes == Axes{1});
  }
}

// Megatron, per layer: 2 all-reduces forward (behind o_proj and down), 2
// backward (in front of qkv and of gate/up), none for weights.
TEST_CASE("a transformer layer under tp has Megatron's collectives") {
  Program program = smallLlama();
  Plan plan = planFor(program, 1, 2, 4);
  const Kind &dense = program.kinds[1];
  PlannedVariant p = planned(plan, dense);
  CHECK(count(p.forward) == Counts{{"all_reduce", 2}});
  CHECK(count(p.dataGrad) == Counts{{"all_reduce", 2}});
  CHECK(count(p.weightGrad) == Counts{});

  // Full recomputation repeats the forward's collectives as far as a needed
  // value lies behind them: the one of o_proj, not the one of down.
  p = planned(plan, dense, Recompute::Full);
  CHECK(count(p.forward) == Counts{{"all_reduce", 2}});
  CHECK(count(p.dataGrad) == Counts{{"all_reduce", 3}});
  CHECK(count(p.weightGrad) == Counts{});

  p = planned(plan, dense, Recompute::Selective);
  CHECK(count(p.dataGrad) == Counts{{"all_reduce", 2}});
}

// Korthikanti et al., arXiv:2205.05198, section 4.2.2: forward 2 all-gathers
// and 2 reduce-scatters. Backward the conjugates. Gathered activations are not
// saved, so weight gradients gather the two norm outputs again; the two stream
// gradients that dwo and dwd use are kept as the data gradient gathered them.
TEST_CASE("a transformer layer under tp and sp scatters instead of reducing") {
  Program program = smallLlama();
  Plan plan = planFor(program, 1, 2, 4, true);
  const Kind &dense = program.kinds[1];
  PlannedVariant p = planned(plan, dense);
  CHECK(count(p.forward) ==
        Counts{{"all_gather", 2}, {"reduce_scatter", 2}});
  CHECK(count(p.dataGrad) ==
        Counts{{"all_gather", 2}, {"reduce_scatter", 2}});
  CHECK(count(p.weightGrad) == Counts{{"all_gather", 2}});

  // Full: attn_norm and mlp_norm are gathered and o_proj scattered once more.
  p = planned(plan, dense, Recompute::Full);
  CHECK(count(p.dataGrad) ==
        Counts{{"all_gather", 4}, {"reduce_scatter", 3}});
  // The norm outputs were gathered for the recomputation: nothing is left.
  CHECK(count(p.weightGrad) == Counts{});

  // Norm weights see only this rank's tokens: partial over tp too.
  p = planned(plan, dense);
  CHECK(p.weightGrad.results[0].partialAxes == Axes{1, 2});
  CHECK(p.weightGrad.results[1].partialAxes == Axes{1});
}

TEST_CASE("a saved value behind a partial is the finished one") {
  // Save o_proj itself: under sp its finished form is the scattered one.
  Program program = smallLlama();
  Kind dense = program.kinds[1];
  Function &forward = dense.variants[0].forward;
  for (const Op &op : forward.ops)
    if (op.label == "o_proj")
      forward.results.push_back({ResultKind::Saved, 13, op.results[0]});
  for (bool sp : {false, true}) {
    Plan plan = planFor(program, 1, 1, 4, sp);
    PlannedVariant p = planned(plan, dense);
    Counts expected = sp ? Counts{{"all_gather", 2}, {"reduce_scatter", 2}}
                         : Counts{{"all_reduce", 2}};
    CHECK(count(p.forward) == expected);
    CHECK(p.forward.results.back() == streamEncoding(plan));
  }
  // Saved and nothing else: finished by an all-reduce of its own.
  dense.variants[0].forward.results.clear();
  dense.variants[0].dataGrad = dense.variants[0].weightGrad = {};
  Function &alone = dense.variants[0].forward;
  while (alone.ops.back().label != "o_proj")
    alone.ops.pop_back();
  alone.results.push_back({ResultKind::Saved, 0, alone.ops.back().results[0]});
  PlannedVariant p = planned(planFor(program, 1, 1, 4, true), dense);
  CHECK(count(p.forward) == Counts{{"all_gather", 1}, {"all_reduce", 1}});
}

TEST_CASE("partials pass through adds of one segment and end at its border") {
  Program program = smallLlama();
  Plan plan = planFor(program, 1, 1, 4);
  const Kind &dense = program.kinds[1];
  PlannedVariant p = planned(plan, dense);
  const Function &dataGrad = dense.variants[0].dataGrad;
  const PlannedOp &sum = opNamed(dataGrad, p.dataGrad, "dn2");
  for (const Encoding &operand : sum.operands)
    CHECK(operand.partialAxes == Axes{2});
  CHECK(sum.results[0].partialAxes == Axes{2});
  const PlannedOp &border = opNamed(dataGrad, p.dataGrad, "dx2");
  for (const Encoding &operand : border.operands)
    CHECK(operand.partial == Partial::None);
}

TEST_CASE("a partial passes a product only through one operand, and never "
          "where the op is sharded by the same axis") {
  // a = x w (partial over tp, mlp), then a times a whole matrix: linear.
  FunctionBuilder f({{'s', 6}, {'b', 1}, {'h', 8}, {'f', 16}, {'d', 5}});
  ValueId x = f.argument(ArgKind::StreamIn, 0, "sbh");
  ValueId w1 = f.argument(ArgKind::Parameter, 0, "fh", Precision::Param);
  ValueId y = f.contract("up", Segment::Mlp, "sbh,fh->sbf", x, w1);
  ValueId back = f.contract("down", Segment::Mlp, "sbf,fh->sbh", y, w1);
  ValueId square =
      f.contract("square", Segment::Mlp, "sbh,sbh->sb", back, back);
  ValueId sharded =
      f.contract("again", Segment::Mlp, "sbh,fh->sbf", back, w1);
  ValueId rows = f.op("sum", Segment::Mlp, "sbh->h", {back},
                      {.label = "rows", .kernel = KernelClass::ColumnSum,
                       .linear = {true}})[0];
  f.result(ResultKind::Kept, 0, square);
  f.result(ResultKind::Kept, 1, sharded);
  f.result(ResultKind::Kept, 2, rows);
  Program program = twoGemms();
  Kind kind = program.kinds[0];
  kind.variants[0] = {Recompute::None, f.function, {}, {}};
  PlannedVariant p = planned(planFor(program, 1, 1, 4), kind);
  CHECK(opNamed(f.function, p.forward, "square").operands[0].partial ==
        Partial::None);
  CHECK(opNamed(f.function, p.forward, "again").operands[0].partial ==
        Partial::None);
  CHECK(opNamed(f.function, p.forward, "rows").operands[0].partial ==
        Partial::Sum);
  CHECK(p.forward.values[back].reshards.steps.size() == 1);
}

TEST_CASE("vocabulary parallel embedding, logits and cross entropy") {
  Program program = smallLlama();
  Plan plan = planFor(program, 1, 2, 4);
  PlannedVariant embed = planned(plan, program.kinds[0]);
  CHECK(count(embed.forward) == Counts{{"all_reduce", 1}});
  CHECK(count(embed.weightGrad) == Counts{});
  PlannedVariant head = planned(plan, program.kinds[2]);
  // Row maximum, sum of exponentials, target logit (D14).
  CHECK(count(head.forward) == Counts{{"all_reduce", 3}});
  CHECK(count(head.dataGrad) == Counts{{"all_reduce", 1}});
  CHECK(count(head.weightGrad) == Counts{});
  CHECK(head.forward.results[0].partialAxes == Axes{1}); // loss

  plan.sp = true;
  embed = planned(plan, program.kinds[0]);
  CHECK(count(embed.forward) == Counts{{"reduce_scatter", 1}});
  CHECK(count(embed.weightGrad) == Counts{{"all_gather", 1}});
  head = planned(plan, program.kinds[2]);
  CHECK(count(head.forward) == Counts{{"all_gather", 1}, {"all_reduce", 3}});
  CHECK(count(head.dataGrad) == Counts{{"reduce_scatter", 1}});
  CHECK(count(head.weightGrad) == Counts{{"all_gather", 1}});
}

TEST_CASE("steps that shrink stand behind their source, gathers before use") {
  Program program = smallLlama();
  Plan plan = planFor(program, 1, 1, 4, true);
  const Kind &dense = program.kinds[1];
  for (Recompute policy : {Recompute::None, Recompute::Full}) {
    PlannedVariant p = planned(plan, dense, policy);
    const KindVariant &variant = dense.variant(policy);
    const Function *functions[] = {&variant.forward, &variant.dataGrad,
                                   &variant.weightGrad};
    const PlannedFunction *plans[] = {&p.forward, &p.dataGrad, &p.weightGrad};
    for (int i = 0; i < 3; ++i)
      for (size_t v = 0; v < plans[i]->values.size(); ++v) {
        const auto &value = plans[i]->values[v];
        REQUIRE(value.before.size() == value.reshards.steps.size());
        for (const auto &use : value.uses)
          if (use.served > 0 && use.op >= 0)
            CHECK(value.before[use.served - 1] <= use.op);
        for (size_t step = 0; step < value.before.size(); ++step) {
          if (value.reshards.steps[step].collective != Collective::AllGather)
            continue;
          int first = static_cast<int>(functions[i]->ops.size());
          for (const auto &use : value.uses)
            if (use.served == static_cast<int>(step) + 1 && use.op >= 0)
              first = std::min(first, use.op);
          CHECK(value.before[step] == first);
        }
      }
  }
}

TEST_CASE("a size that does not divide is an answer, not a crash") {
  Program program = smallLlama({.kvHeads = 3});
  Plan plan = planFor(program, 1, 1, 4);
  PlannedVariant p;
  std::string why;
  CHECK_FALSE(planVariant(plan, program.kinds[1],
                          program.kinds[1].variants[0], p, why));
  CHECK(why.find("heads of 3 is not divisible by 4") != std::string::npos);
}

TEST_CASE("more tensor ranks than key/value heads: by hand") {
  // 2 key/value heads with 4 query heads each, on 4 ranks: a rank has one
  // key/value head, which its neighbour has too, and 2 of its query heads.
  const Program program = smallLlama({.kvHeads = 2, .group = 4});
  const Plan plan = planFor(program, 1, 2, 4);
  CHECK(plan.kvReplicas == 2);
  CHECK(plan.mesh == std::vector<MeshAxis>{
                         {"pp", 1}, {"dp", 2}, {"tp0", 2}, {"tp1", 2}});
  const Axes heads{2}, replicas{3}, tp{2, 3}, none;
  CHECK(axesOf(plan, Segment::Attention, Role::Heads) == heads);
  CHECK(axesOf(plan, Segment::Attention, Role::Group) == replicas);
  CHECK(axesOf(plan, Segment::Mlp, Role::Ffn) == tp);
  CHECK(axesOf(plan, Segment::Head, Role::Vocab) == tp);

  const Kind &dense = program.kinds[1];
  using Dims = std::vector<Axes>;
  CHECK(parameterEncoding(plan, dense.parameters[1]).dims ==
        Dims{heads, replicas, none, none}); // q_proj n g d h
  CHECK(parameterEncoding(plan, dense.parameters[2]).dims ==
        Dims{heads, none, none}); // k_proj n d h

  // Collectives inside a layer are those of any tp: two sums each way.
  PlannedVariant p = planned(plan, dense);
  CHECK(count(p.forward) == Counts{{"all_reduce", 2}});
  CHECK(count(p.dataGrad) == Counts{{"all_reduce", 2}});
  CHECK(count(p.weightGrad).empty());
  // A rank computes its whole key/value head: 2 * 2 sbndh flops of k and v.
  const PlannedOp &k = opNamed(dense.variants[0].forward, p.forward, "k_proj");
  const PlannedOp &q = opNamed(dense.variants[0].forward, p.forward, "q_proj");
  CHECK(flopsOf(k.local) == Flops(2 * 16 * 1 * 1 * 3 * 24));
  CHECK(flopsOf(q.local) == 2 * flopsOf(k.local));

  // The replicas sum the gradients of k_proj and v_proj once a step.
  const std::vector<Axes> extra =
      extraReduceAxesOf(plan, dense, dense.variants[0], p);
  CHECK(extra == std::vector<Axes>{
                     none, none, replicas, replicas, none, none, none, none,
                     none});
  const ParameterBlock block = parameterBlock(plan, dense);
  REQUIRE(block.buckets.back().extraReduceAxes == replicas);
  CHECK(block.buckets.back().parameters == std::vector<int>{2, 3});
  CHECK(block.buckets.back().elements == 256); // 2 * 3 * 24, padded to 128
  const Ledger ledger = predictLedger(program, plan, 0);
  const LedgerEntry &sum = ledger.collectives.at(
      {Collective::AllReduce, "tp1", Phase::Reduce});
  CHECK(sum.calls == program.layers);
  CHECK(sum.payload == program.layers * Bytes(256 * 4));
}

TEST_CASE("one key/value head: all tensor ranks are its replicas") {
  const Program program = smallLlama({.kvHeads = 1, .group = 8});
  const Plan plan = planFor(program, 1, 1, 4, true);
  CHECK(plan.mesh.back() == MeshAxis{"tp", 4});
  CHECK(axesOf(plan, Segment::Attention, Role::Heads).empty());
  CHECK(axesOf(plan, Segment::Attention, Role::Group) == Axes{2});
  PlannedVariant p = planned(plan, program.kinds[1]);
  // As with split heads: gathered before, scattered behind, twice each way.
  CHECK(count(p.forward) == Counts{{"all_gather", 2}, {"reduce_scatter", 2}});
}

TEST_CASE("gradients of replicated heads are whole where an op wants them so") {
  // Recomputed or not, every kept partial is one that the weight gradient may
  // carry: the plan of each policy has no partial parameter but k and v.
  const Program program = smallLlama({.kvHeads = 2, .group = 4});
  const Kind &dense = program.kinds[1];
  for (const KindVariant &variant : dense.variants)
    for (bool sp : {false, true}) {
      const Plan plan = planFor(program, 1, 1, 4, sp);
      PlannedVariant p = planned(plan, dense, variant.policy);
      const auto extra = extraReduceAxesOf(plan, dense, variant, p);
      for (size_t i = 0; i < extra.size(); ++i) {
        INFO(dense.parameters[i].hfName << (sp ? " sp" : ""));
        const bool kv = i == 2 || i == 3,
                   norm = dense.parameters[i].dims.size() == 1;
        CHECK(extra[i] == (kv            ? Axes{3}
                           : norm && sp  ? Axes{2, 3}
                                         : Axes{}));
      }
    }
}

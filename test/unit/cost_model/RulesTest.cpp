#include "cost_model/base/Sha256.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/program/ModelDigest.h"
#include "cost_model/rules/Rules.h"
#include "SmallPrograms.h"
#include "Violations.h"

#include <catch2/catch.hpp>

#include <functional>
#include <set>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

struct Case {
  std::string rule;
  std::function<void(Program &, Plan &)> accepted, rejected;
  std::string message;            ///< part of it
  std::vector<std::string> legal; ///< of the violation
};

Program program() {
  return smallLlama({.hidden = 64, .kvHeads = 4, .group = 2, .headDim = 8,
                     .ffn = 48, .layers = 6});
}
Plan plan() { return planFor(program(), 2, 2, 4, true, 1, 2, 4); }

void remesh(Plan &p) { setMesh(p); }

/// Gives every layer 8 experts of width 20.
void addExperts(Program &m) {
  m.experts = 8;
  Parameter up;
  up.dims = {{8, Role::Experts}, {20, Role::Ffn}, {m.hidden, Role::Hidden}};
  up.segment = Segment::Experts;
  m.kinds[1].parameters.push_back(up);
}

/// Lets every query of a layer see at most `width` keys.
void window(Program &m, int64_t width) {
  for (KindVariant &variant : m.kinds[1].variants)
    for (Op &op : variant.forward.ops)
      if (op.space.kernel == KernelClass::Attention)
        op.space.window = width;
}

const std::vector<Case> &cases() {
  using P = Program &;
  using Q = Plan &;
  static const std::vector<Case> all = {
      {"degrees_positive",
       [](P, Q p) { p.microBatch = 1; },
       [](P, Q p) { p.microBatch = 0; },
       "expected micro batch >= 1, but got 0",
       {}},
      {"model_matches",
       [](P m, Q p) { p.modelSha256 = modelDigest(m); },
       [](P, Q p) { p.modelName = "other"; },
       "but got 'other'",
       {"small-llama"}},
      {"sequence_matches",
       [](P, Q) {},
       [](P, Q p) { p.sequence = 32; },
       "that of the model (16), but got 32",
       {"16"}},
      {"mesh_equals_degrees",
       [](P, Q) {},
       [](P, Q p) { std::swap(p.mesh[1], p.mesh[2]); },
       "[pp=2, dp=2, tp=4] like the degrees, but got [pp=2, tp=4, dp=2]",
       {"[pp=2, dp=2, tp=4]"}},
      {"heads_divisible_by_tp",
       [](P m, Q) { m.heads = 52; },
       [](P m, Q p) {
         m.heads = 52;
         m.kvHeads = 8;
         p.tp = 8;
         remesh(p);
       },
       "attention heads (52) to be a multiple of tp, but got tp = 8; "
       "nearest legal: tp = 2, tp = 4, tp = 13, tp = 26",
       {"tp = 2", "tp = 4", "tp = 13", "tp = 26"}},
      {"kv_heads_divisible_by_tp",
       [](P m, Q) { m.kvHeads = 2; },
       [](P m, Q) {
         m.heads = 24;
         m.kvHeads = 6;
       },
       "the number of key/value heads (6) or to be a multiple of it, but got "
       "tp "
       "= 4",
       {"tp = 2", "tp = 3", "tp = 6", "tp = 12"}},
      {"kv_replicas_match",
       [](P m, Q p) {
         m.kvHeads = 2;
         p.kvReplicas = 2;
         remesh(p);
       },
       [](P m, Q) { m.kvHeads = 2; },
       "parallel.kv_replicas = 2 with tp = 4 and 2 key/value heads, but got 1",
       {"2"}},
      {"ffn_divisible_by_tp",
       [](P m, Q) { m.ffn = 44; },
       [](P m, Q) { m.ffn = 45; },
       "feed-forward width (45)",
       {"tp = 1", "tp = 3", "tp = 5", "tp = 9"}},
      {"sp_needs_tp",
       [](P, Q p) {
         p.tp = 2;
         remesh(p);
       },
       [](P, Q p) {
         p.tp = 1;
         remesh(p);
       },
       "expected tp > 1",
       {"sp = false"}},
      {"sequence_divisible_by_tp",
       [](P m, Q p) {
         m.sequence = p.sequence = 18;
         p.sp = false;
       },
       [](P m, Q p) { m.sequence = p.sequence = 18; },
       "the sequence length (18) to be a multiple of tp, but got tp = 4",
       {"tp = 2", "tp = 3", "tp = 6", "tp = 9"}},
      {"batch_divisible",
       [](P, Q p) { p.globalBatch = 12; },
       [](P, Q p) { p.globalBatch = 18; },
       "(18) to be a multiple of dp * micro, but got dp = 2, micro = 2",
       {"micro = 1", "micro = 3", "micro = 9", "global = 16", "global = 20"}},
      {"pp_at_most_layers",
       [](P m, Q p) {
         p.pp = 6;
         p.stages = evenStages(m, 6, Recompute::None);
         remesh(p);
       },
       [](P m, Q p) {
         p.pp = 7;
         p.stages = evenStages(m, 7, Recompute::None);
         remesh(p);
       },
       "number of layers (6), but got pp = 7",
       {"1..6"}},
      {"stages_equal_pp",
       [](P, Q) {},
       [](P m, Q p) { p.stages = evenStages(m, 3, Recompute::None); },
       "(pp = 2), but got 3 stages",
       {"2"}},
      {"stages_not_empty",
       [](P, Q) {},
       [](P, Q p) { p.stages[1].runs.clear(); },
       "(6 layers, 2 stages), but got none on stage 1",
       {}},
      {"stage_kinds_known",
       [](P, Q) {},
       [](P, Q p) { p.stages[1].runs[0].kind = "moe"; },
       "on stage 1, but got 'moe'",
       {"embed", "dense", "head"}},
      {"recompute_known",
       [](P, Q p) { p.stages[0].runs[1].recompute = Recompute::Full; },
       [](P, Q p) { p.stages[0].runs[0].recompute = Recompute::Full; },
       "that 'embed' has on stage 0, but got 'full'",
       {"none"}},
      // 30 layers over 4 stages must not become 4 * 7.
      {"stages_cover_stack",
       [](P m, Q p) {
         m = smallLlama({.layers = 30});
         p.pp = 4;
         p.stages = evenStages(m, 4, Recompute::None);
         remesh(p);
       },
       [](P m, Q p) {
         m = smallLlama({.layers = 30});
         p.pp = 4;
         p.stages = evenStages(smallLlama({.layers = 28}), 4, Recompute::None);
         remesh(p);
       },
       "[1 embed, 30 dense, 1 head], but got [1 embed, 28 dense, 1 head] split "
       "7+7+7+7; legal here: 7+8+8+7",
       {"7+8+8+7"}},
      {"embedding_on_first_stage",
       [](P, Q) {},
       [](P, Q p) { std::swap(p.stages[0].runs[0], p.stages[1].runs[0]); },
       "'embed' on the first stage, but got it on stage 1",
       {"0"}},
      {"head_on_last_stage",
       [](P, Q) {},
       [](P, Q p) { std::swap(p.stages[0].runs[1], p.stages[1].runs[1]); },
       "'head' on the last stage, but got it on stage 0",
       {"1"}},
      {"zero_known",
       [](P, Q p) { p.zero = 3; },
       [](P, Q p) { p.zero = 4; },
       "expected zero stage 0, 1, 2 or 3, but got 4",
       {"0", "1", "2", "3"}},
      {"zero_group",
       [](P, Q p) {
         p.dp = 4;
         p.zeroRanks = 2;
         p.zero = 3;
         setMesh(p);
       },
       [](P, Q p) { p.zeroRanks = 3; },
       "but got 3 with zero = ",
       {}},
      // 16 positions, tp 4 with sp: 2 cp = 4 chunks, cp * tp = 8 parts.
      {"sequence_divisible_by_cp",
       [](P, Q p) {
         p.cp = 2;
         remesh(p);
       },
       [](P m, Q p) {
         m.sequence = p.sequence = 20;
         p.cp = 2;
         remesh(p);
       },
       "the sequence length (20) to be a multiple of 8 with cp = 2 and tp = 4, "
       "but got a rest of 4",
       {"sequence = 16", "sequence = 24"}},
      {"heads_divisible_by_cp",
       [](P, Q p) {
         p.tp = 2;
         p.cp = 2;
         p.cpKind = CpKind::AllToAll;
       },
       [](P, Q p) {
         p.cp = 3;
         p.cpKind = CpKind::AllToAll;
       },
       "key/value heads (4) to be a multiple of tp * cp under cp_kind a2a, but "
       "got tp = 4, cp = 3",
       {"cp = 1"}},
      // 8 query heads on 8 ranks, 4 key/value heads: each on two of them.
      {"heads_repeated_for_cp",
       [](P, Q p) {
         p.tp = 2;
         p.cp = 2;
         p.cpKind = CpKind::AllToAll;
       },
       [](P, Q p) {
         p.cp = 2;
         p.cpKind = CpKind::AllToAll;
       },
       "key/value heads (4) to be at least tp * cp under cp_kind a2a, but got "
       "tp = 4, cp = 2; DeepSpeed repeats heads before that exchange",
       {"cp = 1"}},
      {"whole_sequences",
       [](P, Q p) {
         p.cp = 2;
         p.cpKind = CpKind::AllGather;
       },
       [](P m, Q p) {
         p.cp = 2;
         p.cpKind = CpKind::AllGather;
         for (Kind &kind : m.kinds)
           for (Op &op : kind.variants[0].forward.ops)
             for (Factor &factor : op.space.factors)
               if (kind.name == "head" && factor.role == Role::Seq)
                 factor.kind = FactorKind::Full;
       },
       "of 'head', which reads whole sequences, but got cp = 2",
       {"cp = 1"}},
      {"ring_sees_all",
       [](P m, Q p) {
         window(m, 8);
         p.cp = 2;
         p.cpKind = CpKind::AllGather;
       },
       [](P m, Q p) {
         window(m, 8);
         p.cp = 2;
       },
       "with the sliding window of 'dense' (8 positions), but got p2p",
       {"all_gather", "a2a"}},
      {"experts_divisible_by_ep",
       [](P m, Q p) {
         m.experts = 8;
         p.ep = 4;
       },
       [](P m, Q p) {
         m.experts = 6;
         p.ep = 4;
       },
       "experts (6) to be a multiple of ep, but got ep = 4",
       {"ep = 2", "ep = 3", "ep = 6"}},
      {"expert_ffn_divisible_by_etp",
       [](P m, Q p) {
         addExperts(m);
         p.etp = 4;
       },
       [](P m, Q p) {
         addExperts(m);
         p.etp = 8;
       },
       "width of an expert (20) to be a multiple of etp, but got etp = 8",
       {"etp = 4", "etp = 5", "etp = 10", "etp = 20"}},
      {"expert_ranks",
       [](P, Q p) { p.ep = 8; },
       [](P, Q p) { p.ep = 3; },
       "dp * cp * tp (8) to be a multiple of ep * etp, but got ep = 3",
       {"ep = 1", "ep = 2", "ep = 4", "ep = 8"}},
      {"non_nested_axes",
       [](P, Q p) {
         p.tp = 6;
         p.ep = 2;
       },
       [](P, Q p) {
         p.tp = 6;
         p.ep = 4;
       },
       "(dp, cp, tp) = (2, 1, 6) and of (ep, etp) to divide one another from "
       "the innermost rank on, but got ep = 4, etp = 1",
       {}},
      {"experts_tp_needs_sp",
       [](P m, Q) { m.experts = 8; },
       [](P m, Q p) {
         m.experts = 8;
         p.sp = false;
       },
       "experts and tp = 4, but got sp = false",
       {"sp = true", "tp = 1"}},
      {"schedule_fits",
       [](P m, Q p) {
         p.pp = 2;
         p.schedule = ScheduleKind::Interleaved;
         p.chunks = 2;
         p.stages = evenStages(m, 4, Recompute::None);
       },
       [](P, Q p) { p.chunks = 2; },
       "expected chunks = 1 for schedule 1f1b, but got 2",
       {"chunks = 1"}},
      {"compiled_by_native", [](P, Q p) { p.zero = 1; },
       [](P, Q p) { p.zero = 3; },
       "expected a plan that `compile` takes under native, but got anything but "
       "ZeRO 0 and 1 over all data ranks",
       {}},
      {"narrow_extents",
       [](P m, Q p) {
         m = smallLlama({.hidden = 64, .kvHeads = 4, .group = 2, .headDim = 16,
                         .ffn = 64, .layers = 6});
         p.dtypes.products = Narrow::Fp8;
       },
       [](P, Q p) { p.dtypes.products = Narrow::Fp8; },
       "the key/value heads' width of a rank to be a multiple of 16 for "
       "products in fp8, but got 32 / 4 = 8",
       {"tp = 1", "tp = 2"}},
      {"reduce_equals_grad",
       [](P, Q p) { p.dtypes.reduce = p.dtypes.grad = DType::BF16; },
       [](P, Q p) { p.dtypes.reduce = DType::BF16; },
       "(f32), but got bf16",
       {"f32"}},
      {"counts_fit",
       [](P, Q p) { p.globalBatch = int64_t(1) << 30; },
       [](P m, Q p) {
         m = smallLlama({.sequence = 1 << 20, .hidden = 1 << 14, .kvHeads = 64,
                         .headDim = 256, .ffn = 1 << 16, .layers = 6});
         p.sequence = 1 << 20;
         p.globalBatch = 1 << 16;
       },
       "expected a rank's flops of one step to be below 9e18",
       {}},
  };
  return all;
}

} // namespace

TEST_CASE("the plan that the cases start from is legal") {
  CHECK(checkPlan(program(), plan()).empty());
}

TEST_CASE("every rule has one accepted and one rejected plan") {
  std::set<std::string> tested;
  for (const Case &c : cases()) {
    INFO(c.rule);
    tested.insert(c.rule);
    Program m = program();
    Plan p = plan();
    c.accepted(m, p);
    const auto check = [&] { // as if it had to run
      return checkPlan(m, p, ModelCheck::NameAndSha256, Framework::Native);
    };
    CHECK(!find(check(), c.rule));

    m = program();
    p = plan();
    c.rejected(m, p);
    const std::optional<Violation> violation = find(check(), c.rule);
    REQUIRE(violation);
    INFO(violation->message);
    CHECK(violation->message.find(c.message) != std::string::npos);
    CHECK(violation->message.find("but got") != std::string::npos);
    CHECK(violation->legal == c.legal);
  }
  size_t ours = 0;
  for (const Rule &rule : rules()) {
    const bool native = rule.whose == "all" ||
                        rule.whose.find("native") != std::string_view::npos;
    ours += native; // others: "frameworks run what is in their code"
    CHECK(tested.count(std::string(rule.name)) == native);
    CHECK_FALSE(rule.formula.empty());
    CHECK_FALSE(rule.cause.empty());
  }
  CHECK(tested.size() == ours);
}

TEST_CASE("all that is not compiled is said where it has to run, and only there") {
  Program m = program();
  m.experts = 8;
  Plan p = plan();
  p.schedule = ScheduleKind::ZbH1;
  p.cp = 2;
  p.offloadOptimizer = p.offloadActivations = true;
  p.dtypes.products = Narrow::Fp8;
  const auto said = [&](std::optional<Framework> framework) {
    int count = 0;
    for (const Violation &violation :
         checkPlan(m, p, ModelCheck::NameOnly, framework))
      count += violation.rule == "compiled_by_native";
    return count;
  };
  CHECK(said(std::nullopt) == 0);
  CHECK(said(Framework::MegatronCore) == 0);
  CHECK(said(Framework::Native) == 6);
}

TEST_CASE("all violated rules are reported at once, in table order") {
  Plan p = plan();
  p.tp = 3; // mesh, heads, kv heads and sequence; ffn 48 is divisible
  p.cp = 2;
  std::vector<std::string> found;
  for (const Violation &violation : checkPlan(program(), p))
    found.push_back(violation.rule);
  CHECK(found == std::vector<std::string>{
                     "mesh_equals_degrees", "heads_divisible_by_tp",
                     "kv_heads_divisible_by_tp", "sequence_divisible_by_tp",
                     "sequence_divisible_by_cp"});
}

TEST_CASE("of many legal values the nearest are named") {
  // 1680 has 40 divisors.
  const Program m = smallLlama({.kvHeads = 1680, .group = 1, .headDim = 2});
  const auto legal = [&](int64_t tp) {
    const Plan p = planFor(m, 1, 1, tp, false, 0, 1, 1);
    const std::optional<Violation> violation =
        find(checkPlan(m, p), "heads_divisible_by_tp");
    return violation ? violation->legal : std::vector<std::string>();
  };
  using Texts = std::vector<std::string>;
  CHECK(legal(16).empty());
  CHECK(legal(17) == Texts{"tp = 15", "tp = 16", "tp = 20", "tp = 21"});
  CHECK(legal(1000) == Texts{"tp = 560", "tp = 840", "tp = 1680"});
  CHECK(legal(4096) == Texts{"tp = 840", "tp = 1680"});
}

TEST_CASE("many empty stages are one message") {
  Program m = program(); // 6 layers
  Plan p = planFor(m, 2, 1, 1, false, 0, 1, 4);
  p.schedule = ScheduleKind::Interleaved;
  p.chunks = 16;
  p.stages = evenStages(m, 32, Recompute::None);
  int empty = 0;
  for (const Violation &violation : checkPlan(m, p))
    if (violation.rule == "stages_not_empty") {
      ++empty;
      CHECK(violation.message.find("(6 layers, 32 stages)") !=
            std::string::npos);
      CHECK(violation.message.find(" more") != std::string::npos);
      CHECK(violation.legal ==
            std::vector<std::string>{"chunks = 2..3"});
    }
  CHECK(empty == 1);
}

TEST_CASE("extents of products in 8 bits, after sharding") {
  // Sequences of 1472 positions on 8 parts: 184 tokens, which 16 does not
  // divide; two sequences a microbatch are 368, which it does.
  Program m = smallLlama({.sequence = 1472, .hidden = 128, .kvHeads = 8,
                          .group = 1, .headDim = 16, .ffn = 256, .layers = 2});
  Plan p = planFor(m, 1, 1, 1, false, 0, 1, 1);
  p.dtypes.products = Narrow::Fp8;
  CHECK(!find(checkPlan(m, p), "narrow_extents"));
  p.cp = 8;
  const std::vector<Violation> violations = checkPlan(m, p);
  const std::optional<Violation> violation = find(violations, "narrow_extents");
  REQUIRE(violation);
  CHECK(violation->message ==
        "expected the tokens of a microbatch of a rank to be a multiple of 16 "
        "for products in fp8, but got 1472 / 8 = 184; nearest legal: cp = 2, "
        "cp = 4");
  p.microBatch = 2;
  CHECK(!find(checkPlan(m, p), "narrow_extents"));
  p.cp = 1;
  p.dtypes.products = Narrow::Mxfp8; // 2944 = 92 * 32
  CHECK(!find(checkPlan(m, p), "narrow_extents"));
  p.tp = 8; // ffn 256 / 8 = 32, heads 16: all are said
  std::set<std::string> said;
  for (const Violation &v : checkPlan(m, p))
    if (v.rule == "narrow_extents")
      said.insert(v.message.substr(0, v.message.find(" of a rank")));
  CHECK(said == std::set<std::string>{"expected the query heads' width",
                                      "expected the key/value heads' width"});
  p.tp = 1;
  p.dtypes.products = Narrow::Fp8Block; // 2944 = 23 * 128
  CHECK(!find(checkPlan(m, p), "narrow_extents"));
  m.hidden = 2880;
  CHECK(find(checkPlan(m, p), "narrow_extents"));
  p.dtypes.products = Narrow::Mxfp8;
  CHECK(!find(checkPlan(m, p), "narrow_extents"));
}

TEST_CASE("what holds of every reading of a file") {
  const Program m = program();
  Plan one = plan(), other = plan();
  other.tp = one.tp = 3;
  other.dp = 3; // unreadable: batch_divisible depends on it
  std::vector<std::string> rules;
  for (const Violation &violation : violationsOfAll(m, {one, other}))
    rules.push_back(violation.rule);
  CHECK(rules == std::vector<std::string>{"heads_divisible_by_tp",
                                          "kv_heads_divisible_by_tp",
                                          "sequence_divisible_by_tp"});
}

TEST_CASE("unsupported is told apart from wrong") {
  Plan p = plan();
  p.dtypes.reduce = DType::BF16;
  CHECK(worstKind(checkPlan(program(), p)) == FailureKind::Unsupported);
  p.sequence = 7;
  CHECK(worstKind(checkPlan(program(), p)) == FailureKind::Input);
}

TEST_CASE("the model's digest is compared unless the caller knows better") {
  Plan p = plan();
  p.modelSha256 = std::string(64, '0');
  CHECK(find(checkPlan(program(), p), "model_matches"));
  CHECK(checkPlan(program(), p, ModelCheck::NameOnly).empty());
  p.modelSha256 = "";
  CHECK(checkPlan(program(), p).empty());
  // A copy under another name is the same model.
  p.modelSha256 = modelDigest(program());
  Program renamed = program();
  renamed.name = "copy";
  CHECK(checkPlan(renamed, p).empty());
}

TEST_CASE("a legal plan can be planned, whatever the degrees") {
  Program m = program();
  int legal = 0;
  for (int64_t pp : {1, 2, 3, 6})
    for (int64_t dp : {1, 2, 3})
      for (int64_t tp : {1, 2, 3, 4, 8})
        for (bool sp : {false, true})
          for (int zero : {0, 1})
            for (Recompute policy : {Recompute::None, Recompute::Full}) {
              Plan p = planFor(m, pp, dp, tp, sp, zero, 1, 4, policy);
              if (!checkPlan(m, p).empty())
                continue;
              ++legal;
              for (const Ledger &ledger : predictLedgers(m, p))
                CHECK(ledger.memory.total() > Bytes(0));
            }
  // tp 1 without sp; tp 2, 4 and 8 (two ranks a key/value head) with and
  // without: 7 of 10.
  CHECK(legal == 4 * 3 * 7 * 2 * 2);
}

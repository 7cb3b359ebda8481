//===- ExpertsTest.cpp - Experts and latent attention: work and ledgers ---===//
#include "ExpertModels.h"

#include "cost_model/partition/Layout.h"
#include "cost_model/partition/Ledger.h"
#include "cost_model/rules/Rules.h"
#include "cost_model/search/ProgramEstimator.h"
#include "test/unit/cost_model/BoundProbe.h"

#include <catch2/catch.hpp>

#include <random>

using namespace shardwright;
using namespace shardwright::cost;

namespace {

Plan planOf(const Program &program, int64_t dp, int64_t tp, int64_t ep,
            int64_t etp, Recompute policy = Recompute::None) {
  Plan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.ep = ep;
  plan.etp = etp;
  plan.sp = tp > 1;
  plan.globalBatch = dp;
  plan.sequence = program.sequence;
  plan.stages = evenStages(program, 1, policy);
  setMesh(plan);
  return plan;
}

LedgerEntry entryOf(const Ledger &ledger, Collective collective,
                    const std::string &axis, Phase phase) {
  auto found = ledger.collectives.find({collective, axis, phase});
  return found == ledger.collectives.end() ? LedgerEntry() : found->second;
}

} // namespace

TEST_CASE("every policy of an expert layer has its three functions") {
  for (const std::string *config :
       {&mixtral, &deepseekV3, &gptOss, &dbrx, &glm45, &scout}) {
    const Program program = programOf(*config, 128);
    for (const Kind &kind : program.kinds) {
      if (!takesStream(kind) || !givesStream(kind))
        continue;
      CHECK(kind.variants.size() == 3);
      for (const KindVariant &variant : kind.variants) {
        CHECK_FALSE(variant.forward.empty());
        CHECK_FALSE(variant.dataGrad.empty());
        size_t gradients = 0;
        for (const Result &result : variant.weightGrad.results)
          gradients += result.kind == ResultKind::ParameterGrad;
        CHECK(gradients == kind.parameters.size());
      }
    }
  }
}

TEST_CASE("keys and values of latent attention come from narrow latents") {
  const Program program = programOf(deepseekV3, 128);
  const Kind &moe = program.kinds[kindIndex(program, "moe")];
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Parameter &parameter : moe.parameters)
    for (const Dim &dim : parameter.dims)
      shapes[parameter.hfName + "+" + std::to_string(parameter.hfOffset)]
          .push_back(dim.size);
  using Shape = std::vector<int64_t>;
  const std::string a = "model.layers.{}.self_attn.";
  CHECK(shapes[a + "q_a_proj.weight+0"] == Shape{1536, 7168});
  CHECK(shapes[a + "q_b_proj.weight+0"] == Shape{128, 1, 128, 1536});
  CHECK(shapes[a + "kv_a_proj_with_mqa.weight+0"] == Shape{512, 7168});
  // Row 512 of the same tensor on: the rotary key that all heads share.
  CHECK(shapes[a + "kv_a_proj_with_mqa.weight+" + std::to_string(512 * 7168)] ==
        Shape{64, 7168});
  CHECK(shapes[a + "kv_b_proj.weight+0"] == Shape{128, 128, 512});
  CHECK(shapes[a + "kv_b_proj.weight+" + std::to_string(128 * 512)] ==
        Shape{128, 128, 512});
  CHECK(shapes[a + "o_proj.weight+0"] == Shape{7168, 128, 1, 128});
  CHECK(shapes["model.layers.{}.mlp.gate.e_score_correction_bias+0"] ==
        Shape{256});
}

TEST_CASE("flops of an expert layer: top-k of the experts work on a token") {
  // Mixtral, one token forward: q and o 2 * 4096^2, k and v 2 * 4096 * 1024,
  // router 8 * 4096, two experts of 3 * 4096 * 14336; head 32000 * 4096;
  // attention 2 * 2 * 4096 * (s + 1) / 2. Twice that as multiply-adds, three
  // times for training.
  const int64_t s = 4096;
  const Program program = programOf(mixtral, s);
  const double layer = 2 * 4096.0 * 4096 + 2 * 4096.0 * 1024 + 8 * 4096.0 +
                       2 * 3 * 4096.0 * 14336 +
                       2 * 4096.0 * (s + 1) / 2; // scores and values
  const double token = 3 * 2 * (32 * layer + 32000.0 * 4096);
  CHECK(modelFlopsPerToken(program, FlopsConvention::CausalHalved) ==
        Approx(token).epsilon(1e-12));
}

TEST_CASE("Mixtral 8x7B on 8 ranks with ep 8, by hand") {
  const Program program = programOf(mixtral, 4096);
  const Plan plan = planOf(program, 8, 1, 8, 1);
  REQUIRE(checkPlan(program, plan).empty());
  const Ledger ledger = predictLedger(program, plan, 0);

  // One sequence of 4,096 tokens a rank, two choices: 8,192 rows of 4,096 bf16
  // numbers, 64 MiB; per layer there and back. With them go a weight and an
  // expert of every row, 4 bytes each. Backward the same way without experts,
  // and the weights' gradients come back.
  const int64_t rows = 4096 * 2, wide = rows * 4096 * 2, narrow = rows * 4;
  CHECK(wide == 67108864);
  LedgerEntry forward =
      entryOf(ledger, Collective::AllToAll, "ep", Phase::Forward);
  CHECK(forward.calls == 32 * 4);
  CHECK(forward.payload == Bytes(32 * (2 * wide + 2 * narrow)));
  LedgerEntry backward =
      entryOf(ledger, Collective::AllToAll, "ep", Phase::DataGrad);
  CHECK(backward.calls == 32 * 3);
  CHECK(backward.payload == Bytes(32 * (2 * wide + narrow)));
  CHECK(entryOf(ledger, Collective::AllToAll, "ep", Phase::WeightGrad).calls ==
        0);

  // One expert a layer: 3 * 4096 * 14336; attention 2 * 4096^2 + 2 * 4096 *
  // 1024, two norms, a router of 8 * 4096.
  const int64_t expert = 3 * 4096 * 14336;
  const int64_t rest = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 2 * 4096 + 8 * 4096;
  const int64_t parameters = 32 * (expert + rest) + 2 * 32000 * 4096 + 4096;
  CHECK(ledger.memory.parameters == Bytes(2 * parameters));

  // Experts' gradients are whole on their rank; all others are summed over dp.
  int64_t reduced = 0;
  for (const auto &[key, entry] : ledger.collectives)
    if (key.phase == Phase::Reduce) {
      CHECK(key.axis == "dp");
      reduced += entry.payload.count();
    }
  CHECK(reduced == 4 * (parameters - 32 * expert));
}

TEST_CASE("two groups of experts: their gradients are summed over edp alone") {
  const Program program = programOf(mixtral, 1024);
  Plan plan = planOf(program, 16, 1, 8, 1);
  plan.zero = 1;
  REQUIRE(checkPlan(program, plan).empty());
  const Ledger ledger = predictLedger(program, plan, 0);
  const int64_t expert = 3 * 4096 * 14336;
  LedgerEntry experts =
      entryOf(ledger, Collective::ReduceScatter, "edp", Phase::Reduce);
  CHECK(experts.calls == 32);
  CHECK(experts.payload == Bytes(32 * 4 * expert));
  CHECK(entryOf(ledger, Collective::AllGather, "edp", Phase::Update).payload ==
        Bytes(32 * 2 * expert / 2));
  CHECK(entryOf(ledger, Collective::ReduceScatter, "dp", Phase::Reduce).calls >
        0);
  // Two of 16 ranks hold the same expert: half of its state each.
  const ParameterBlock block =
      parameterBlock(plan, program.kinds[kindIndex(program, "moe")]);
  CHECK(block.buckets.back().shards == 2);
  CHECK(block.buckets.front().shards == 16);
}

TEST_CASE("tensor parallel experts gather rows and scatter their sums") {
  const Program program = programOf(mixtral, 1024);
  const Plan plan = planOf(program, 2, 2, 2, 2);
  REQUIRE(checkPlan(program, plan).empty());
  const Ledger ledger = predictLedger(program, plan, 0);
  // 1,024 tokens over 2 tensor ranks: 1,024 rows a rank, 8 MiB.
  const int64_t wide = 1024 * 4096 * 2;
  CHECK(entryOf(ledger, Collective::AllToAll, "ep", Phase::Forward).payload ==
        Bytes(32 * (2 * wide + 2 * 1024 * 4)));
  // Rows are gathered over etp behind it (with their weights and experts), on
  // the axis that is also tp.
  CHECK(entryOf(ledger, Collective::AllGather, "tp", Phase::Forward).payload >=
        Bytes(32 * (wide + 2 * 1024 * 4)));
  CHECK(entryOf(ledger, Collective::ReduceScatter, "tp", Phase::Forward)
            .payload >= Bytes(32 * 2 * wide));
}

TEST_CASE("full recomputation sends the rows again") {
  const Program program = programOf(mixtral, 1024);
  const Ledger none = predictLedger(program, planOf(program, 8, 1, 8, 1), 0);
  const Ledger full =
      predictLedger(program, planOf(program, 8, 1, 8, 1, Recompute::Full), 0);
  // There again, with weights and experts, but not back.
  CHECK(entryOf(full, Collective::AllToAll, "ep", Phase::DataGrad).calls ==
        entryOf(none, Collective::AllToAll, "ep", Phase::DataGrad).calls +
            32 * 3);
  CHECK(full.memory.saved < none.memory.saved);
}

TEST_CASE("plans of DeepSeek-V3 are legal and their stages hold the stack") {
  const Program program = programOf(deepseekV3, 4096);
  Plan plan = planOf(program, 64, 1, 64, 1);
  plan.pp = 16;
  plan.globalBatch = 64 * 16;
  plan.zero = 1;
  plan.stages = evenStages(program, 16, Recompute::Full);
  setMesh(plan);
  CHECK(checkPlan(program, plan).empty());
  plan.tp = 8;
  plan.sp = true;
  setMesh(plan);
  CHECK(checkPlan(program, plan).empty());
  CHECK(predictLedgers(program, plan).size() == 16);
  plan.ep = 96; // 256 experts
  CHECK_FALSE(checkPlan(program, plan).empty());
}

TEST_CASE("no completion of partial plans of experts beats its bounds") {
  std::mt19937 random(30);
  const auto pick = [&](auto... options) {
    const std::common_type_t<decltype(options)...> values[] = {options...};
    return values[random() % sizeof...(options)];
  };
  const std::vector<std::string> profiles = shippedProfileNames();
  double tightness = 0, roughness = 0;
  int64_t probes = 0;
  for (int question = 0; question < 12; ++question) {
    const std::string *configs[] = {&deepseekV3, &mixtral, &qwen3Small};
    const Program program = programOf(*configs[question % 3], 4096);
    const bool first = question < 3; // as a user of Megatron asks
    const char *cluster =
        first ? "dgx-h100" : pick("dgx-h100", "dgx-a100", "gb200-nvl72");
    const std::string name =
        first ? "megatron-core" : profiles[random() % profiles.size()];
    Failure failure;
    Hardware whole, hardware;
    Profile profile;
    REQUIRE(readHardware(shippedHardware(cluster), cluster, whole, failure));
    SearchOptions options;
    options.gpus = first ? 512 : pick(8, 64, 512);
    if (!resized(whole, options.gpus, hardware, failure))
      continue;
    REQUIRE(readProfile(shippedProfile(name), name, profile, failure));
    options.globalBatch = 3 * options.gpus;
    setModel(options, program);
    allow(options, Framework::MegatronCore, hardware);
    if (!first) { // all that any framework runs
      options.cpKinds.assign(std::begin(cpKinds), std::end(cpKinds));
      options.copies = {1, 2, 3};
      options.zero = options.zeroUnderPipeline = {0, 1, 2, 3};
      options.orders = {MeshOrder::PpDp, MeshOrder::DpPp};
      options.schedules.assign(std::begin(scheduleKinds),
                               std::end(scheduleKinds));
    }

    Plan base;
    base.sequence = program.sequence;
    base.globalBatch = options.globalBatch;
    base.dtypes = profile.dtypes;
    BoundProbe probe(program, hardware, profile, base, options);
    CAPTURE(program.name, cluster, name, options.gpus);
    REQUIRE(!probe.empty());
    for (int64_t seen = 0, wanted = randomPlans(800); seen < wanted;)
      seen += probe.draw(random);
    tightness += probe.tightness;
    roughness += probe.roughness;
    probes += probe.probes;
  }
  CHECK(tightness / static_cast<double>(5 * probes) > 0.4);
  CHECK(roughness / static_cast<double>(2 * probes) > 0.25);
}

namespace {

struct Priced {
  double time;
  Bytes memory;
};
/// The search finds the best of `all` within several limits of memory, and
/// counts `considered`.
void findsTheBest(const ProgramEstimator &estimator, SearchOptions options,
                  const std::vector<Priced> &all, size_t considered) {
  Bytes most(0);
  for (const Priced &priced : all)
    most = std::max(most, priced.memory);
  for (int64_t percent : {100, 60, 40, 20}) {
    options.memoryLimit = Bytes(most.count() / 100 * percent + 1);
    double best = 0;
    for (const Priced &priced : all)
      if (priced.memory < options.memoryLimit &&
          (best == 0 || priced.time < best))
        best = priced.time;
    const SearchResult result = search(estimator, options);
    CAPTURE(percent, all.size());
    REQUIRE((best > 0) == !result.plans.empty());
    CHECK(result.counters.considered == static_cast<int64_t>(considered));
    if (best == 0)
      continue;
    CHECK(result.counters.proven);
    CHECK(result.plans[0].estimate.stepTime.count() == Approx(best));
  }
}

} // namespace

TEST_CASE("the search over expert degrees agrees with brute force") {
  // One dense and three expert layers: stages differ in what they hold.
  ModelShape shape;
  shape.name = "tiny";
  shape.layers = 4;
  shape.hidden = 512;
  shape.ffn = 1024;
  shape.heads = 8;
  shape.vocab = 4096;
  shape.sequence = 512;
  shape.gated = true;
  shape.experts = 8;
  shape.topK = 2;
  shape.expertFfn = 512;
  shape.denseLayers = 1;
  Program program;
  Failure failure;
  REQUIRE(programFromSpec(specFromShape(shape), 512, program, failure));
  Hardware node, hardware;
  REQUIRE(readHardware(shippedHardware("dgx-h100"), "h", node, failure));
  REQUIRE(resized(node, 8, hardware, failure));
  Profile profile;
  REQUIRE(readProfile(shippedProfile("native"), "p", profile, failure));
  Plan base;
  base.globalBatch = 8;
  base.sequence = 512;
  base.dtypes = profile.dtypes;
  const ProgramEstimator estimator(program, hardware, profile, base);

  SearchOptions options;
  options.gpus = 8;
  options.globalBatch = 8;
  setModel(options, program);
  options.top = 1;
  auto fix = [&](Field field, int64_t value) {
    options.ranges[static_cast<int>(field)] = {value, value};
  };
  fix(Field::Schedule, static_cast<int64_t>(ScheduleKind::OneFOneB));
  fix(Field::FullLayers, -1);

  std::vector<Priced> all;
  for (int64_t tp : divisors(8))
    for (int64_t pp : divisors(8 / tp)) {
      if (pp > 4)
        continue;
      const int64_t dp = 8 / tp / pp;
      Candidate c;
      c.dp = dp;
      c.tp = tp;
      c.pp = pp;
      c.sp = tp > 1;
      for (int64_t ep : divisors(dp * tp))
        for (int64_t etp : divisors(dp * tp / ep))
          for (int64_t micro : divisors(8 / dp))
            for (int zero = 0; zero <= (dp > 1 ? 1 : 0); ++zero)
              for (Recompute policy : options.policies)
                for (const Split &split : splits(4, pp, {})) {
                  c.ep = ep;
                  c.etp = etp;
                  c.microBatch = micro;
                  c.zero = zero;
                  c.recompute = policy;
                  c.firstLayers = split.first;
                  c.lastLayers = split.last;
                  if (!estimator.check(c, Depth::Complete).empty())
                    continue;
                  all.push_back({estimator.estimate(c).stepTime.count(),
                                 estimator.memory(c)});
                }
    }
  REQUIRE(all.size() > 100);
  findsTheBest(estimator, options, all, all.size());
}

namespace {

/// Every legal candidate of a question about a model with experts but for the
/// layers that recompute in full, by loops that share nothing with the search.
std::vector<Candidate> everyLeaf(const ProgramEstimator &estimator,
                                      const SearchOptions &options,
                                      const Program &program) {
  std::vector<Candidate> all;
  const auto splitsOf = [&](Candidate c) {
    for (const Split &split : splits(program.layers, stageCount(c), {})) {
      c.firstLayers = split.first;
      c.lastLayers = split.last;
      all.push_back(c);
    }
  };
  const auto statesOf = [&](Candidate c) {
    for (int zero : c.pp > 1 ? options.zeroUnderPipeline : options.zero)
      for (ScheduleKind schedule : options.schedules)
        for (int64_t chunks = 1; chunks <= program.layers; ++chunks) {
          c.zero = zero;
          c.schedule = schedule;
          c.chunks = chunks;
          c.recompute = options.policies.front();
          if ((zero > 0 && c.dp * c.cp == 1) ||
              (schedule != ScheduleKind::OneFOneB && c.pp == 1) ||
              (chunks > 1 && (c.pp == 1 || stageCount(schedule, c.pp, chunks) >
                                               program.layers)) ||
              !estimator.check(c, Depth::Complete).empty())
            continue;
          for (Recompute policy : options.policies) {
            c.recompute = policy;
            if (policy != Recompute::None) // full on no layer
              splitsOf(c);
          }
        }
  };
  const int64_t gpus = options.gpus;
  for (int64_t tp : divisors(gpus))
    for (int64_t pp : divisors(gpus / tp))
      for (int64_t cp : divisors(gpus / tp / pp)) {
        if (pp > program.layers || (cp > 1 && options.cpKinds.empty()))
          continue;
        Candidate c;
        c.dp = gpus / tp / pp / cp;
        c.tp = tp;
        c.pp = pp;
        c.cp = cp;
        c.sp = tp > 1;
        if (options.globalBatch % c.dp != 0)
          continue;
        for (int64_t ep : divisors(gpus / pp))
          for (int64_t etp : divisors(gpus / pp / ep))
            for (int64_t micro : divisors(options.globalBatch / c.dp))
              for (CpKind kind : cp > 1 ? options.cpKinds
                                        : std::vector<CpKind>{CpKind::P2P}) {
                c.ep = ep;
                c.etp = etp;
                c.microBatch = micro;
                c.cpKind = kind;
                statesOf(c);
              }
      }
  return all;
}

} // namespace

TEST_CASE("brute force finds the same best plan of random models with experts") {
  std::mt19937 random(11);
  const auto pick = [&](auto... options) {
    const std::common_type_t<decltype(options)...> values[] = {options...};
    return values[random() % sizeof...(options)];
  };
  const std::vector<std::string> profiles = shippedProfileNames();
  int64_t candidates = 0;
  for (int question = 0; question < 100; ++question) {
    ModelShape shape;
    shape.name = "tiny";
    shape.layers = pick(2, 3);
    shape.hidden = pick(256, 1024);
    shape.ffn = 1024;
    shape.heads = 8;
    shape.vocab = 4096;
    shape.sequence = pick(256, 2048);
    shape.gated = true;
    shape.experts = pick(2, 4, 8);
    shape.topK = pick(1, 2);
    shape.expertFfn = pick(128, 512);
    shape.denseLayers = pick(0, 1);
    Program program;
    Failure failure;
    REQUIRE(programFromSpec(specFromShape(shape), shape.sequence, program,
                            failure));
    const char *cluster = pick("dgx-h100", "dgx-a100", "gb200-nvl72");
    const std::string name = profiles[random() % profiles.size()];
    Hardware node, hardware;
    Profile profile;
    REQUIRE(readHardware(shippedHardware(cluster), cluster, node, failure));
    SearchOptions options;
    options.gpus = pick(4, 8);
    REQUIRE(resized(node, options.gpus, hardware, failure));
    REQUIRE(readProfile(shippedProfile(name), name, profile, failure));
    options.globalBatch = 4 * pick(1, 2);
    setModel(options, program);
    if (random() % 2)
      options.zero = options.zeroUnderPipeline = {0, 1, 2, 3};
    if (options.gpus == 4) {
      options.cpKinds.assign(std::begin(cpKinds), std::end(cpKinds));
      options.schedules = {ScheduleKind::OneFOneB, ScheduleKind::GPipe,
                           ScheduleKind::Interleaved, ScheduleKind::ZbH1,
                           ScheduleKind::DualPipeV};
    }
    Plan base;
    base.globalBatch = options.globalBatch;
    base.sequence = shape.sequence;
    base.dtypes = profile.dtypes;
    const ProgramEstimator estimator(program, hardware, profile, base,
                                     Framework::Native, options);
    const std::vector<Candidate> leaves =
        everyLeaf(estimator, options, program);
    std::vector<Priced> all; // with every choice of layers of every stage
    for (Candidate c : leaves) {
      const std::vector<int64_t> counts = layersPerStage(c, program.layers);
      if (c.recompute == Recompute::Full)
        c.full.assign(counts.size(), 0);
      for (size_t stage = 0; stage < counts.size();) {
        all.push_back({estimator.time(c).count(), estimator.memory(c)});
        for (stage = 0; stage < c.full.size() && c.full[stage] == counts[stage];
             ++stage)
          c.full[stage] = 0;
        if (stage >= c.full.size())
          break;
        ++c.full[stage];
      }
    }
    CAPTURE(question, cluster, name, options.gpus, all.size());
    REQUIRE(all.size() > 100);
    candidates += static_cast<int64_t>(all.size());
    findsTheBest(estimator, options, all, leaves.size());
  }
  CHECK(candidates > 200000);
}

// The search over the real cost model: brute force agrees, bounds and memory
// answers are admissible.
#include "Recomputing.h"
#include "SmallPrograms.h"

#include "cost_model/search/ProgramEstimator.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <thread>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

struct Setting {
  Program program;
  Hardware hardware;
  Profile profile;
  Plan base;
  SearchOptions options;
};

/// `program` with every other layer of a second kind: twice as wide a
/// feed-forward part, and attention within a window.
void alternate(Program &program, LlamaSizes sizes) {
  sizes.ffn *= 2;
  const Program other = smallLlama(sizes);
  const int dense = kindIndex(program, "dense");
  Kind wide = other.kinds[kindIndex(other, "dense")];
  wide.name = "wide";
  for (KindVariant &variant : wide.variants)
    for (Function *function :
         {&variant.forward, &variant.dataGrad, &variant.weightGrad})
      for (Op &op : function->ops)
        if (op.space.causal)
          op.space.window = 5;
  program.kinds.push_back(wide);
  std::vector<Run> stack;
  for (const Run &run : program.stack)
    for (int64_t i = 0; i < run.count; ++i)
      stack.push_back({run.kind == dense && i % 2 == 1
                           ? static_cast<int32_t>(program.kinds.size()) - 1
                           : run.kind,
                       1});
  program.stack = stack;
}

/// Plans of the largest question that brute force answers: without limit, or what
/// the environment allows (SHARDWRIGHT_BRUTE_FORCE, of slow builds).
size_t mostPlans() {
  const char *allowed = std::getenv("SHARDWRIGHT_BRUTE_FORCE");
  return allowed ? static_cast<size_t>(std::atoll(allowed)) : SIZE_MAX;
}

/// A question on `gpus` GPUs of `cluster`.
Setting setting(const LlamaSizes &sizes, const char *cluster,
                const char *profile, int64_t gpus, int64_t globalBatch) {
  Setting s;
  Failure failure;
  Hardware whole;
  s.program = smallLlama(sizes);
  REQUIRE(readHardware(shippedHardware(cluster), cluster, whole, failure));
  REQUIRE(resized(whole, gpus, s.hardware, failure));
  REQUIRE(readProfile(shippedProfile(profile), profile, s.profile, failure));
  s.base.sequence = sizes.sequence;
  s.base.globalBatch = globalBatch;
  s.base.dtypes = s.profile.dtypes;
  s.options.gpus = gpus;
  s.options.globalBatch = globalBatch;
  s.options.layers = s.program.layers;
  s.options.policies = searchedPolicies(s.program);
  s.options.memoryLimit = s.hardware.device.usable;
  return s;
}

/// Every legal candidate but for the layers that recompute in full, without the
/// search's own enumeration.
std::vector<Candidate> everyCandidate(const Setting &s) {
  std::vector<Candidate> all;
  const int64_t gpus = s.options.gpus, layers = s.options.layers;
  auto add = [&](Candidate c) {
    Plan plan = planAt(s.program, s.base, c);
    plan.zero = std::min(plan.zero, 1); // more is no native plan
    if (checkPlan(s.program, plan).empty())
      all.push_back(c);
  };
  auto layouts = [&](Candidate c) {
    const int64_t stages = c.schedule == ScheduleKind::DualPipe
                               ? c.pp
                               : c.pp * c.chunks;
    for (int64_t first = 1; first <= layers; ++first)
      for (int64_t last = 1; last <= layers; ++last) {
        int64_t left = stages == 1 ? 0 : layers - first - last;
        if (stages == 1 ? first != layers || last != layers
                        : (stages == 2 ? left != 0 : left < stages - 2))
          continue;
        c.firstLayers = first;
        c.lastLayers = last;
        add(c);
      }
  };
  auto policies = [&](Candidate c) {
    for (Recompute policy : {Recompute::Selective, Recompute::Full}) {
      c.recompute = policy; // none is full on no layer
      layouts(c);
    }
  };
  const auto choices = [](const auto &free) {
    using Value = std::decay_t<decltype(free[0])>;
    std::vector<std::optional<Value>> list(free.begin(), free.end());
    if (list.empty())
      list.push_back(std::nullopt);
    return list;
  };
  const auto states = [&](Candidate c) {
    for (int zero : s.options.zero)
      for (int64_t ranks = 0; ranks < c.dp; ++ranks)
        for (int offload = 0; offload < 2; ++offload)
          for (auto gradients : choices(s.options.gradients))
            for (ScheduleKind schedule : s.options.schedules)
              for (int64_t chunks = 1; chunks <= layers; ++chunks) {
                const auto in = [&](const std::vector<int> &stages) {
                  return std::find(stages.begin(), stages.end(), zero) !=
                         stages.end();
                };
                if ((zero > 0 && c.dp * c.cp == 1) ||
                    (ranks > 0 &&
                     (!in(s.options.copies) || c.dp % ranks != 0)) ||
                    (offload && !in(s.options.offload)) ||
                    (schedule != ScheduleKind::OneFOneB && c.pp == 1) ||
                    (chunks > 1 && c.pp * chunks > layers &&
                     schedule != ScheduleKind::DualPipe))
                  continue;
                c.zero = zero;
                c.zeroRanks = ranks;
                c.offload = offload == 1;
                c.gradients = gradients;
                c.schedule = schedule;
                c.chunks = chunks;
                // Of groups the smallest that can be, written down if not pp.
                const int64_t count =
                    s.options.globalBatch / (c.dp * c.microBatch);
                c.group = 0;
                if (schedule == ScheduleKind::Interleaved) {
                  c.group = c.pp;
                  while (c.group < count && count % c.group != 0 &&
                         count % c.group < c.pp)
                    ++c.group;
                  c.group = c.group == c.pp ? 0 : c.group;
                }
                policies(c);
              }
  };
  for (int64_t tp = 1; tp <= gpus; ++tp)
    for (int64_t pp = 1; pp <= gpus; ++pp)
      for (int64_t cp = 1; cp <= gpus; ++cp)
        for (int64_t micro = 1; micro <= s.options.globalBatch; ++micro)
          for (int sp = 0; sp < 2; ++sp)
            for (CpKind kind : cpKinds)
              for (MeshOrder order : s.options.orders)
                for (auto products : choices(s.options.products)) {
                  const auto &kinds = s.options.cpKinds;
                  if (gpus % (tp * pp * cp) != 0 || (sp == 1 && tp == 1) ||
                      (cp == 1 ? kind != CpKind::P2P
                               : std::find(kinds.begin(), kinds.end(), kind) ==
                                     kinds.end()))
                    continue;
                  Candidate c;
                  c.tp = tp;
                  c.pp = pp;
                  c.cp = cp;
                  c.cpKind = kind;
                  c.dp = gpus / tp / pp / cp;
                  c.microBatch = micro;
                  c.sp = sp == 1;
                  c.order = order;
                  c.products = products;
                  if (order == MeshOrder::DpPp &&
                      (c.dp == 1 || pp == 1 ||
                       cp * tp % s.options.nodeRanks == 0))
                    continue;
                  states(c);
                }
  return all;
}

} // namespace

TEST_CASE("search equals brute force over the cost model") {
  struct {
    LlamaSizes sizes;
    const char *cluster, *profile;
    int64_t gpus, globalBatch;
    bool alternating = false, wide = false;
    bool open = false; ///< parts, copies, hosts, orders and types are free
  } cases[] = {
      {{16, 48, 4, 1, 4, 40, 500, 3, true},
       "dgx-h100",
       "megatron-core",
       4,
       2,
       true,
       false,
       true},
      {{512, 1024, 4, 2, 64, 1024, 4000, 2, false},
       "dgx-h100",
       "megatron-core",
       16,
       2,
       false,
       false,
       true},
      {{64, 256, 2, 2, 64, 512, 1000, 2, false},
       "gb200-nvl72",
       "fsdp",
       4,
       2,
       true,
       true,
       true},
      {{16, 24, 4, 2, 3, 40, 1000, 5, true}, "dgx-h100", "native", 4, 4, true},
      {{}, "dgx-h100", "native", 4, 8, false, true},
      {{128, 512, 4, 2, 64, 1024, 4000, 4, false},
       "dgx-a100",
       "fsdp",
       4,
       8,
       false,
       true},
      {{16, 24, 4, 2, 3, 40, 1000, 4, true},
       "dgx-h100",
       "megatron-core",
       8,
       8,
       true,
       true},
      {{32, 24, 2, 2, 6, 40, 500, 3, true}, "dgx-a100", "megatron-core", 8, 8},
      {{128, 512, 4, 2, 64, 1024, 4000, 4, false},
       "dgx-h100",
       "megatron-core",
       4,
       6,
       false,
       true},
      {{16, 24, 4, 2, 3, 40, 1000, 5, false}, "host", "native", 6, 6},
      {{128, 512, 4, 2, 64, 1024, 4000, 4, false},
       "dgx-h100",
       "megatron-core",
       8,
       16},
      {{256, 1024, 8, 1, 128, 2048, 32000, 6, false},
       "dgx-h100",
       "native",
       16,
       16},
  };
  std::mt19937 random(7);
  int open = 0, closed = 0, skipped = 0;
  int64_t recomputing = 0;
  for (const auto &c : cases) {
    CAPTURE(c.cluster, c.profile, c.gpus, c.sizes.layers);
    Setting s = setting(c.sizes, c.cluster, c.profile, c.gpus, c.globalBatch);
    if (c.alternating)
      alternate(s.program, c.sizes);
    if (c.wide) {
      s.options.zero = s.options.zeroUnderPipeline = {0, 1, 2, 3};
      s.options.schedules.assign(std::begin(scheduleKinds),
                                 std::end(scheduleKinds));
    }
    if (c.open) {
      s.options.cpKinds.assign(std::begin(cpKinds), std::end(cpKinds));
      s.options.copies = s.options.zero;
      std::erase(s.options.copies, 0);
      s.options.offload = s.options.copies;
      s.options.orders = {MeshOrder::PpDp, MeshOrder::DpPp};
      s.options.nodeRanks = s.hardware.ranksPerNode();
      s.options.products = {Narrow::None, Narrow::Fp8};
      s.options.gradients = {DType::F32, DType::BF16};
    }
    if (std::string(c.cluster) == "host")
      s.base.dtypes = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32};
    std::vector<Candidate> all = everyCandidate(s);
    REQUIRE(!all.empty());
    if (all.size() > mostPlans()) {
      ++skipped;
      continue;
    }
    ++(c.open ? open : closed);

    const Machine machine{s.program, s.hardware, s.profile, s.base};
    std::vector<Bytes> memories; // the least that leaves can need
    for (Candidate leaf : all) {
      std::vector<Bytes> least = machine.memory(leaf);
      if (leaf.recompute == Recompute::Full) {
        leaf.recompute = Recompute::None;
        const std::vector<Bytes> none = machine.memory(leaf);
        for (size_t rank = 0; rank < least.size(); ++rank)
          least[rank] = std::min(least[rank], none[rank]);
      }
      memories.push_back(*std::max_element(least.begin(), least.end()));
    }
    std::sort(memories.begin(), memories.end());
    /// Times of plans, straight from the cost model, without caches of the search.
    std::map<std::string, Estimate> times;
    /// The points of all leaves within `limit`.
    const auto pointsWithin = [&](Bytes limit, bool alike) {
      std::vector<RankedPlan> points;
      for (const Candidate &leaf : all) {
        RankedPlan ranked;
        const std::optional<Candidate> point =
            machine.settled(leaf, limit, alike, ranked.memory);
        if (!point)
          continue;
        ranked.candidate = *point;
        ranked.plan = planAt(s.program, s.base, *point);
        ranked.text = canonicalText(ranked.plan);
        const auto [entry, isNew] = times.try_emplace(ranked.text);
        if (isNew)
          entry->second =
              estimateTime(s.program, s.hardware, s.profile, ranked.plan);
        ranked.estimate = entry->second;
        points.push_back(std::move(ranked));
      }
      std::sort(points.begin(), points.end(),
                [](const auto &a, const auto &b) { return a.before(b); });
      return points;
    };

    // Limits that exclude nothing, half, nearly all and all plans.
    const Bytes limits[] = {s.options.memoryLimit,
                            memories[memories.size() / 2],
                            memories[memories.size() / 20], memories.front()};
    for (Bytes limit : limits) {
      s.options.alike = limit == limits[2];
      CAPTURE(limit.count(), s.options.alike);
      s.options.memoryLimit = limit;
      s.options.top = 4;
      ProgramEstimator estimator(s.program, s.hardware, s.profile, s.base,
                                 Framework::Native, s.options);
      SearchResult result = search(estimator, s.options);
      SearchOptions several = s.options;
      several.threads = 3;
      const SearchResult same = search(estimator, several);
      CHECK(same.counters == result.counters);
      REQUIRE(same.plans.size() == result.plans.size());
      CHECK(result.counters.considered == static_cast<int64_t>(all.size()));
      CHECK(result.counters.considered ==
            result.counters.pruned + result.counters.unfit +
                result.counters.evaluated);
      const std::vector<RankedPlan> points =
          pointsWithin(limit, s.options.alike);
      REQUIRE(result.plans.size() == std::min<size_t>(4, points.size()));
      for (size_t i = 0; i < result.plans.size(); ++i) {
        CHECK(result.plans[i].text == points[i].text);
        CHECK(same.plans[i].text == points[i].text);
        CHECK(result.plans[i].memory == points[i].memory);
        CHECK(result.plans[i].estimate.stepTime == points[i].estimate.stepTime);
      }
      recomputing += std::count_if(
          points.begin(), points.end(), [](const RankedPlan &ranked) {
            const std::vector<int64_t> &full = ranked.candidate.full;
            return std::any_of(full.begin(), full.end(),
                               [](int64_t layers) { return layers > 0; });
          });

      // Bounds: of every depth of every plan, never above it.
      FullRule rule;
      rule.limit = limit;
      rule.alike = s.options.alike;
      for (const RankedPlan &ranked : points) {
        if (random() % 8 != 0)
          continue;
        CAPTURE(ranked.text);
        Candidate leaf = ranked.candidate;
        leaf.full.clear();
        const double time = ranked.estimate.stepTime.count() * (1 + 1e-9);
        for (Depth depth : {Depth::Mesh, Depth::Batch, Depth::State,
                            Depth::Policy, Depth::Complete}) {
          CAPTURE(static_cast<int>(depth));
          REQUIRE(estimator.lowerBound(leaf, depth, rule).count() <= time);
          REQUIRE(estimator.mayFit(leaf, depth, ranked.memory + Bytes(1)));
        }
        for (Rough rough : roughs)
          REQUIRE(estimator.roughBound(leaf, rough).count() <= time);
        REQUIRE(estimator.memory(ranked.candidate) == ranked.memory);
      }
    }
    s.options.alike = false;
    ProgramEstimator estimator(s.program, s.hardware, s.profile, s.base,
                                 Framework::Native, s.options);
    std::optional<RankedPlan> tiny = smallest(estimator, s.options);
    REQUIRE(tiny);
    CHECK(tiny->memory == memories.front());
  }
  CHECK(open > 0);
  CHECK(closed > 0);
  CHECK(recomputing > (skipped > 0 ? 0 : 300)); // some of their layers
}

TEST_CASE("an even split of the family is the plan's even split") {
  Program program = smallLlama({16, 24, 4, 2, 3, 40, 1000, 7, false});
  for (int64_t pp = 1; pp <= 7; ++pp)
    for (int64_t full = -1; full < 7; ++full) {
      Candidate candidate;
      candidate.pp = pp;
      std::vector<int64_t> counts = layersPerStage(candidate, 7);
      if (full == 0)
        continue;
      std::vector<int64_t> ofStage;
      if (full >= 0)
        ofStage.assign(counts.size(), full);
      CHECK(stagesWith(program, counts, Recompute::Full, ofStage) ==
            evenStages(program, pp, Recompute::Full, full));
    }
}

namespace {

/// Seconds that this thread has computed: other work on the machine is not in
/// them.
double threadSeconds() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace

TEST_CASE("a second thread takes work off the first") {
  if (std::thread::hardware_concurrency() < 2)
    return;
  Setting s = setting({2048, 4096, 8, 4, 128, 11008, 32000, 48, false},
                      "dgx-h100", "megatron-core", 4096, 12288);
  allow(s.options, Framework::MegatronCore, s.hardware);
  const auto seconds = [&](int threads) {
    s.options.threads = threads;
    const ProgramEstimator estimator(s.program, s.hardware, s.profile, s.base,
                                     Framework::MegatronCore, s.options);
    const double before = threadSeconds();
    const SearchResult result = search(estimator, s.options);
    REQUIRE(result.counters.proven);
    return threadSeconds() - before;
  };
  // Nothing says that the other thread runs at once: one of many tries will.
  double best = 1;
  for (int i = 0; i < 40 && best > 0.85; ++i) {
    const double alone = seconds(1);
    best = std::min(best, seconds(2) / alone);
  }
  CHECK(best <= 0.85);
}

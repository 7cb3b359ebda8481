#include "tools/shardwright/PlanJson.h"

#include "cost_model/partition/Assignment.h"
#include "cost_model/partition/LedgerJson.h"
#include "cost_model/search/Report.h"

#include <cmath>
#include <map>

namespace shardwright::tools {

using namespace cost;

namespace {

/// JSON has no infinity; nlohmann would write null, which says "unknown".
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json parallelJson(const Program &program, const Plan &plan) {
  return {{"dp", plan.dp},
          {"tp", plan.tp},
          {"pp", plan.pp},
          {"cp", plan.cp},
          {"cp_kind", plan.cp > 1 ? name(plan.cpKind) : "none"},
          {"ep", plan.ep},
          {"etp", plan.etp},
          {"kv_replicas", plan.kvReplicas},
          {"padded_vocab", paddedVocab(program.vocab, plan.tp)},
          {"vp", plan.chunks},
          {"sp", plan.sp},
          {"zero", plan.zero},
          {"zero_ranks", zeroDataRanks(plan)},
          {"offload", plan.offloadOptimizer && plan.offloadActivations ? "both"
                      : plan.offloadOptimizer                     ? "optimizer"
                      : plan.offloadActivations ? "activations"
                                                : "none"},
          {"order", plan.order == MeshOrder::PpDp ? "pp-dp" : "dp-pp"},
          {"products", name(plan.dtypes.products)},
          {"gradients", name(plan.dtypes.grad)},
          {"microbatch", plan.microBatch},
          {"microbatches", plan.microbatches()},
          {"global_batch", plan.globalBatch},
          {"sequence", plan.sequence},
          {"schedule", name(plan.schedule)},
          {"microbatch_group", groupOf(plan)},
          {"recompute", recomputeRange(program, plan)},
          {"recompute_layers_per_stage", fullLayersOf(program, plan)},
          {"layers_per_stage", layersOf(program, plan)}};
}

} // namespace

Json pricedPlanJson(const Program &program, const Plan &plan,
                    const Estimate &estimate, Bytes limit,
                    FlopsConvention chosen) {
  Json terms = Json::object();
  for (const Term &term : estimate.terms)
    terms[term.name] = number(term.time.count());
  const double perToken =
      modelFlopsPerToken(program, FlopsConvention::CausalHalved);
  Json mfus = Json::object();
  for (FlopsConvention convention : flopsConventions)
    mfus[std::string(name(convention))] =
        number(estimate.modelFlopsUtilization *
               modelFlopsPerToken(program, convention) / perToken);
  size_t fullest = 0;
  Bytes memory = fullestStage(estimate, fullest);
  return {{"parallel", parallelJson(program, plan)},
          {"gpus", plan.ranks()},
          {"step_time_seconds", number(estimate.stepTime.count())},
          {"mfu", mfus[std::string(name(chosen))]},
          {"mfu_convention", name(chosen)},
          {"mfu_by_convention", mfus},
          {"tokens_per_second_per_gpu", number(estimate.tokensPerSecondPerGpu)},
          {"memory_bytes_per_rank_max", memory.count()},
          {"memory_limit_bytes", limit.count()},
          {"memory_fullest_stage", fullest},
          {"fits", staysBelow(memory, limit)},
          {"terms", terms}};
}

Json memoryJson(const Plan &plan, const Estimate &estimate) {
  Json stages = Json::array();
  for (size_t i = 0; i < estimate.stages.size(); ++i) {
    const StageEstimate &stage = estimate.stages[i];
    const MemoryParts &parts = stage.memory;
    stages.push_back(
        {{"stage", i},
         {"rank", static_cast<int64_t>(i) * pipelineStride(plan)},
         {"total_bytes", stage.total().count()},
         {"parts",
          {{"parameters", parts.parameters.count()},
           {"gradients", parts.gradients.count()},
           {"optimizer", parts.optimizer.count()},
           {"saved", parts.saved.count()},
           {"p2p", parts.p2p.count()},
           {"comm", parts.comm.count()},
           {"workspace", parts.workspace.count()},
           {"framework", stage.framework.count()}}}});
  }
  return stages;
}

Json ledgersJson(const Program &program, const Plan &plan) {
  Json ledgers = Json::array();
  for (int64_t stage = 0; stage < plan.pp; ++stage) {
    Json ledger = {{"stage", stage}, {"rank", stage * pipelineStride(plan)}};
    ledger.update(
        Json::parse(ledgerJson(predictLedger(program, plan, stage))));
    ledgers.push_back(std::move(ledger));
  }
  return ledgers;
}

Json basisJson(const Hardware &hardware, const Profile &profile,
               const Plan &plan, Bytes limit) {
  return {{"cluster", hardware.name},
          {"cluster_description", hardware.description},
          {"device", hardware.device.name},
          {"gpus", hardware.ranks()},
          {"nodes", hardware.nodes},
          {"profile", profile.name},
          {"profile_description", profile.description},
          {"compute_dtype", name(plan.dtypes.compute)},
          {"peak_flops_per_second",
           number(hardware.device.peakOf(plan.dtypes.compute).count())},
          {"memory_limit_bytes", limit.count()}};
}

Json flopsByConventionJson(const Program &program) {
  Json flops = Json::object();
  for (FlopsConvention convention : flopsConventions)
    flops[std::string(name(convention))] =
        modelFlopsPerToken(program, convention);
  return flops;
}

Json rejectedJson(const SearchResult &result) {
  Json rejected = Json::array();
  for (const RejectedFamily &family : result.rejected) {
    Json entry = {{"dp", family.dp},
                  {"tp", family.tp},
                  {"pp", family.pp},
                  {"reason", name(family.reject)},
                  {"plans", family.plans}};
    if (family.cp > 1)
      entry["cp"] = family.cp;
    if (family.ep > 1)
      entry["ep"] = family.ep;
    if (family.etp > 1)
      entry["etp"] = family.etp;
    switch (family.reject) {
    case Reject::Rule:
      entry["rules"] = Json::array();
      for (const Violation &violation : family.violations)
        entry["rules"].push_back(
            {{"rule", violation.rule}, {"message", violation.message}});
      break;
    case Reject::Slower:
      entry["step_time_seconds_at_least"] = number(family.bound.count());
      if (family.bestTime)
        entry["step_time_seconds_found"] = number(family.bestTime->count());
      break;
    case Reject::Memory:
      break;
    }
    rejected.push_back(std::move(entry));
  }
  return rejected;
}

Json countersJson(const SearchCounters &counters) {
  return {{"considered", counters.considered},
          {"pruned", counters.pruned},
          {"does_not_fit", counters.unfit},
          {"evaluated", counters.evaluated},
          {"breaks_a_rule", counters.illegal},
          {"open", counters.open},
          {"meshes_not_counted", counters.uncounted},
          {"proven", counters.proven}};
}

} // namespace shardwright::tools

//===- LedgerTest.cpp - Predicted = counted, over many plans --------------===//
#include "compiler/Import/BuildModel.h"
#include "compiler/Pipelines/Pipelines.h"
#include "cost_model/partition/Layout.h"
#include "cost_model/rules/Rules.h"
#include "dialects/Model/IR/ModelOps.h"
#include "dialects/Plan/IR/PlanOps.h"
#include "dialects/Rt/IR/RtDialect.h"
#include "dialects/Spmd/IR/SpmdOps.h"
#include "passes/Plan/ExtractProgram.h"
#include "passes/Verify/CountLedger.h"

#include <catch2/catch.hpp>

#include <random>

using namespace mlir;
using namespace shardwright;

namespace {

// Extents differ from each other wherever a plan does not ask for a divisor.
ModelSpec tinyLlama() {
  ModelSpec spec = llamaSpec();
  spec.name = "tiny-llama";
  spec.file = "tiny-llama";
  spec.layers = 5;
  spec.hidden = 40;
  spec.ffn = 56;
  spec.heads = 8;
  spec.kvHeads = 4;
  spec.headDim = 6;
  spec.vocab = 259;
  spec.positions = 64;
  return spec;
}

ModelSpec tinyGpt2() {
  ModelSpec spec = gpt2Spec();
  spec.name = "tiny-gpt2";
  spec.file = "tiny-gpt2";
  spec.layers = 4;
  spec.hidden = 48;
  spec.ffn = 200;
  spec.heads = 4;
  spec.kvHeads = 4;
  spec.headDim = 12;
  spec.vocab = 300;
  spec.positions = 64;
  spec.tied = true;
  return spec;
}

/// A differentiated module and its program.
struct Model {
  OwningOpRef<ModuleOp> module;
  cost::Program program;
};

Model makeModel(ModelSpec spec, int64_t sequence, MLIRContext &context) {
  cost::Failure failure;
  REQUIRE(checkSpec(spec, failure));
  Model model;
  model.module = buildModel(spec, sequence, context);
  PassManager manager(&context);
  PipelineOptions options;
  buildImportPipeline(manager, options);
  REQUIRE(succeeded(manager.run(*model.module)));
  REQUIRE(extractProgram(*model.module, model.program));
  return model;
}

/// A legal plan of `program`, drawn from `random`.
cost::Plan drawPlan(const cost::Program &program, std::mt19937 &random) {
  auto pick = [&](auto... values) {
    int64_t list[] = {static_cast<int64_t>(values)...};
    return list[random() % std::size(list)];
  };
  for (;;) {
    cost::Plan plan;
    plan.dp = pick(1, 1, 2, 3);
    plan.tp = pick(1, 2, 4);
    plan.pp = pick(1, 2, 3, 4);
    plan.kvReplicas = cost::kvReplicasOf(program, plan.tp);
    plan.sp = pick(0, 1);
    plan.zero = static_cast<int>(pick(0, 1));
    plan.microBatch = pick(1, 2, 3);
    plan.globalBatch = plan.dp * plan.microBatch * pick(1, 2, 4, 5, 7);
    plan.sequence = program.sequence;
    plan.schedule =
        pick(0, 1) ? cost::ScheduleKind::GPipe : cost::ScheduleKind::OneFOneB;
    auto policy = static_cast<cost::Recompute>(pick(0, 1, 2));
    plan.stages = cost::evenStages(program, plan.pp, policy,
                                   pick(0, 1) ? -1 : pick(0, 1, 2));
    switch (pick(0, 1, 2, 3)) {
    case 0:
      break; // bf16 with f32 gradients
    case 3:
      plan.dtypes.reduce = plan.dtypes.grad = cost::DType::BF16;
      break;
    case 1:
      plan.dtypes = {cost::DType::F32, cost::DType::F32, cost::DType::F32,
                     cost::DType::F32, cost::DType::F32};
      break;
    case 2:
      plan.dtypes = {cost::DType::F64, cost::DType::F64, cost::DType::F64,
                     cost::DType::F64, cost::DType::F64};
      break;
    }
    cost::setMesh(plan);
    if (cost::checkPlan(program, plan, cost::ModelCheck::NameOnly).empty())
      return plan;
  }
}

void comparePlans(const ModelSpec &spec, int64_t sequence, unsigned seed,
                  int plans) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<model::ModelDialect, plan::PlanDialect, spmd::SpmdDialect,
                      rt::RtDialect>();
  Model model = makeModel(spec, sequence, context);
  std::mt19937 random(seed);
  int exactWorkspace = 0, stages = 0;
  for (int number = 0; number < plans; ++number) {
    cost::Plan plan = drawPlan(model.program, random);
    INFO("plan " << number << ":\n" << cost::canonicalText(plan));
    OwningOpRef<ModuleOp> module = model.module->clone();
    (*module)->setAttr(plan::kTextAttr,
                       StringAttr::get(&context, cost::canonicalText(plan)));
    PassManager manager(&context);
    PipelineOptions options;
    options.until = IrPhase::Allocated; // ends in sw-verify-ledger
    buildPlanPipeline(manager, options);
    REQUIRE(succeeded(manager.run(*module)));

    std::vector<cost::Ledger> predicted =
        cost::predictLedgers(model.program, plan);
    for (int64_t stage = 0; stage < plan.pp; ++stage) {
      INFO("stage " << stage);
      cost::Ledger counted;
      REQUIRE(countLedger(*module, stage, counted));
      CHECK(counted.collectives == predicted[stage].collectives);
      CHECK(counted.flops == predicted[stage].flops);
      cost::MemoryParts &memory = counted.memory;
      const cost::MemoryParts &wanted = predicted[stage].memory;
      CHECK(memory.workspace <= wanted.workspace);
      CHECK(4 * wanted.workspace.count() <= 5 * memory.workspace.count());
      exactWorkspace += memory.workspace == wanted.workspace;
      ++stages;
      memory.workspace = wanted.workspace;
      CHECK(memory == wanted);
    }
  }
  // Without fusion groups both pack the same buffers.
  CHECK(exactWorkspace * 10 >= stages * 9);
}

} // namespace

TEST_CASE("predicted and counted ledgers agree for plans of a tiny llama") {
  comparePlans(tinyLlama(), 24, /*seed=*/1, /*plans=*/150);
}

TEST_CASE("predicted and counted ledgers agree for plans of a tiny gpt2") {
  comparePlans(tinyGpt2(), 16, /*seed=*/2, /*plans=*/150);
}

TEST_CASE("predicted and counted ledgers agree for the other families") {
  // Two kinds of layers, norms over heads and over all heads, an embedding norm,
  // one key/value head, a bias of the vocabulary, a narrow embedding.
  unsigned seed = 3;
  for (const char *name :
       {"gemma2-tiny", "gemma3-tiny", "qwen2-tiny", "olmo-tiny", "olmo2-tiny",
        "bloom-tiny", "falcon-tiny", "phi-tiny", "phi-norm-tiny", "opt-tiny",
        "opt-post-tiny", "chatglm-tiny"}) {
    INFO(name);
    ModelSpec spec;
    cost::Failure failure;
    REQUIRE(readHfConfig(std::string(SHARDWRIGHT_SOURCE "/test/golden/") + name,
                         spec, failure));
    comparePlans(spec, 24, seed++, /*plans=*/12);
  }
}

#include "cost_model/program/ModelParts.h"

#include "test/unit/cost_model/SmallPrograms.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

const ModelPart *find(const std::vector<ModelPart> &parts,
                      const std::string &name) {
  for (const ModelPart &part : parts)
    if (part.name == name)
      return &part;
  return nullptr;
}

void checkSums(const Program &program) {
  int64_t parameters = 0;
  double flops = 0;
  for (const ModelPart &part : modelParts(program)) {
    parameters += part.allParameters();
    flops += part.allFlops();
  }
  CHECK(parameters == parameterCount(program));
  CHECK(3 * flops ==
        Approx(modelFlopsPerToken(program, FlopsConvention::CausalHalved)));
}

} // namespace

TEST_CASE("parts of a model sum to its totals") {
  checkSums(twoGemms());
  checkSums(smallLlama());
  checkSums(smallLlama({.sequence = 48, .ffn = 44, .layers = 3}));
  checkSums(smallLlama({.tied = true}));
}

// Per token: w1 is 16 x 8, a product of 2 * 128 flops; w2 the same.
TEST_CASE("a product is the arithmetic of its tensor, by hand") {
  const std::vector<ModelPart> parts = modelParts(twoGemms());
  REQUIRE(parts.size() == 2);
  for (const ModelPart &part : parts) {
    CHECK(part.parameters == 128);
    CHECK(part.forwardFlops == Approx(256));
    CHECK(part.segment == Segment::Mlp);
  }
}

// 8 heads of 3, sequence 16: 4 * 24 * (17 / 2) flops a token, causal.
TEST_CASE("attention has flops and no parameters, by hand") {
  const Program program = smallLlama();
  const std::vector<ModelPart> parts = modelParts(program);
  const ModelPart *core = find(parts, "scores and values");
  REQUIRE(core);
  CHECK(core->parameters == 0);
  CHECK(core->shape.empty());
  CHECK(core->layers == program.layers);
  CHECK(core->forwardFlops == Approx(4 * 24 * 8.5));
}

TEST_CASE("a tied tensor is counted where it is first, and told") {
  const Program program = smallLlama({.tied = true});
  int64_t holders = 0, counted = 0;
  for (const ModelPart &part : modelParts(program))
    if (!part.shared.empty()) {
      ++holders;
      counted += part.parameters > 0;
    }
  CHECK(holders == 2);
  CHECK(counted == 1);
  bool told = false;
  for (const std::string &fact : modelFacts(program))
    told |= fact.find("tied: ") == 0;
  CHECK(told);
}

TEST_CASE("facts name how heads share keys and values") {
  CHECK(modelFacts(smallLlama()).front() ==
        "grouped-query attention: 2 query heads share a key/value head");
  CHECK(modelFacts(smallLlama({.group = 1})).front() ==
        "multi-head attention: every head has keys and values of its own");
  CHECK(modelFacts(smallLlama({.kvHeads = 1, .group = 8})).front() ==
        "multi-query attention: 8 query heads share one key/value head");
}

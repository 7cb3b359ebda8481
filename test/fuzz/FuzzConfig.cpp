//===- FuzzConfig.cpp - config.json of models -----------------------------===//
#include "compiler/Import/HfConfig.h"
#include "test/fuzz/FuzzTarget.h"

using namespace shardwright;
using namespace shardwright::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ModelSpec spec;
  cost::Failure failure;
  if (!parseHfConfig(textOf(data, size), "config.json", spec, failure)) {
    requireRefusal(failure);
    return 0;
  }
  require(spec.layers >= 1 && spec.hidden >= 1 && spec.vocab >= 1,
          "a model that is accepted has sizes");
  for (int64_t sequence : {int64_t(0), int64_t(1), int64_t(4096)}) {
    int64_t chosen = 0;
    cost::Failure refusal;
    if (chooseSequence(spec, sequence, chosen, refusal))
      require(chosen >= 1, "a sequence has tokens");
    else
      requireRefusal(refusal);
  }
  return 0;
}

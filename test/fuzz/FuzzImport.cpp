//===- FuzzImport.cpp - config.json to program ----------------------------===//
//
// All that `inspect` and `plan` do with a config before they look at plans:
// model IR, gradients, program. Slower than `config`, and deeper.
//
//===----------------------------------------------------------------------===//
#include "compiler/Driver/Load.h"
#include "cost_model/program/ProgramJson.h"
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
  int64_t sequence = 0;
  if (!chooseSequence(spec, 0, sequence, failure)) {
    requireRefusal(failure);
    return 0;
  }
  cost::Program program;
  if (!programFromSpec(spec, sequence, program, failure)) {
    requireRefusal(failure);
    return 0;
  }
  cost::Program again;
  const std::string text = cost::programJson(program);
  require(cost::readProgram(text, "program.json", again, failure) &&
              cost::programJson(again) == text,
          "a program equals its canonical text");
  return 0;
}

//===- FuzzProgram.cpp - program.json, and what is computed from it -------===//
#include "cost_model/program/ProgramJson.h"
#include "test/fuzz/FuzzCost.h"
#include "test/unit/cost_model/SmallPrograms.h"

using namespace shardwright;
using namespace shardwright::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cost::Program program;
  cost::Failure failure;
  if (!cost::readProgram(textOf(data, size), "program.json", program,
                         failure)) {
    requireRefusal(failure);
    return 0;
  }
  const std::string text = cost::programJson(program);
  cost::Program again;
  require(cost::readProgram(text, "again.json", again, failure) &&
              cost::programJson(again) == text,
          "a program equals its canonical text");
  // Rules may refuse it, but they must not break.
  const cost::Program small = smallProgram();
  cost::Plan plan = test::planFor(small, 2, 2, 2, true, 1);
  isLegal(program, plan);
  return 0;
}

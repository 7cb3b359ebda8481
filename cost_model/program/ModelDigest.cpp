#include "cost_model/program/ModelDigest.h"

#include "cost_model/base/Sha256.h"
#include "cost_model/program/ProgramJson.h"

namespace shardwright::cost {

std::string modelDigest(const Program &program) {
  Program nameless = program;
  nameless.name.clear();
  return sha256(programJson(nameless));
}

} // namespace shardwright::cost

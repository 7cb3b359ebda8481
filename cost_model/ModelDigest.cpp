#include "cost_model/ModelDigest.h"

#include "cost_model/Json.h"

namespace shardwright::cost {

std::string modelDigest(const Program &program) {
  Program nameless = program;
  nameless.name.clear();
  return sha256(programJson(nameless));
}

} // namespace shardwright::cost

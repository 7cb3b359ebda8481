//===- NoMpiJob.cpp - For builds without mpi.h ----------------------------===//
#include "runtime/src/Job.h"

#include <cstdlib>

namespace shardwright::runtime {

namespace {
const char *const missing =
    "expected a runtime that was built with Open MPI's mpi.h, because mpirun "
    "started this process, but this one was built without it";
} // namespace

int mpiWorldSize() {
  const char *text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text ? std::atoi(text) : 0;
}

bool startMpi(int &, int &, std::string &why) {
  why = missing;
  return false;
}

void stopMpi() {}
void abortMpi(int) {}

JobResult runOnMpi(const JobOptions &, const RankFunction &) {
  JobResult result;
  result.status = SW_RT_UNSUPPORTED;
  result.message = missing;
  return result;
}

} // namespace shardwright::runtime

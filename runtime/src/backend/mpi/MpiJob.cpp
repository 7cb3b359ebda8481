//===- MpiJob.cpp - This process as one rank of an MPI job ----------------===//
#include "runtime/src/Job.h"
#include "runtime/src/backend/mpi/MpiTransport.h"
#include "runtime/src/compute/Blas.h"

#include <cstdlib>

namespace shardwright::runtime {

int mpiWorldSize() {
  const char *text = std::getenv("OMPI_COMM_WORLD_SIZE");
  return text ? std::atoi(text) : 0;
}

bool startMpi(int &rank, int &size, std::string &why) {
  const MpiLibrary *mpi = MpiLibrary::load(why);
  if (!mpi)
    return false;
  mpi->Init(nullptr, nullptr);
  mpi->Comm_rank(mpi->world, &rank);
  mpi->Comm_size(mpi->world, &size);
  return true;
}

void stopMpi() {
  std::string why;
  if (const MpiLibrary *mpi = MpiLibrary::load(why))
    mpi->Finalize();
}

void abortMpi(int code) {
  std::string why;
  if (const MpiLibrary *mpi = MpiLibrary::load(why))
    mpi->Abort(mpi->world, code);
}

JobResult runOnMpi(const JobOptions &options, const RankFunction &function) {
  JobResult result;
  const MpiLibrary *mpi = MpiLibrary::load(result.message);
  if (!mpi) {
    result.status = SW_RT_UNSUPPORTED;
    return result;
  }
  int rank = 0, size = 0;
  mpi->Comm_rank(mpi->world, &rank);
  mpi->Comm_size(mpi->world, &size);
  useBlasOnCallingThread();
  auto transport =
      std::make_unique<MpiTransport>(*mpi, rank, size, options.link);
  result.onMesh = rank < options.mesh.ranks();
  if (!result.onMesh)
    return result;
  sw_rt_context context(options.mesh, std::move(transport),
                        options.timeoutSeconds);
  if (const char *local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK"))
    context.localRank = std::atoi(local);
  const int64_t threads = options.threads ? options.threads
                          : size == 1     ? coresOfProcess()
                                          : 1;
  context.pool.resize(static_cast<int>(threads));
  result.status = runOnDevice(options, context, function);
  result.message = context.error;
  result.keepsDevice = !context.device;
  result.reports = result.status != SW_RT_ABORTED;
  return result;
}

} // namespace shardwright::runtime

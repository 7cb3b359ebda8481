//===- SocketJob.cpp - This process as one rank of a launcher's job -------===//
#include "runtime/src/Job.h"
#include "runtime/src/backend/socket/SocketTransport.h"
#include "runtime/src/compute/Blas.h"

namespace shardwright::runtime {
namespace {

/// The job of this process, from startSockets to its end.
std::unique_ptr<SocketWorld> &world() {
  static std::unique_ptr<SocketWorld> value;
  return value;
}

} // namespace

int socketWorldSize(std::string &why) {
  Launch launch;
  if (!Launch::read(launch, why))
    return -1;
  return launch.size > 1 ? launch.size : 0;
}

bool startSockets(double timeoutSeconds, int &rank, int &size,
                  std::string &why) {
  Launch launch;
  if (!Launch::read(launch, why))
    return false;
  auto opened = std::make_unique<SocketWorld>();
  if (!opened->open(launch, deadlineIn(timeoutSeconds), why))
    return false;
  rank = launch.rank;
  size = launch.size;
  world() = std::move(opened);
  return true;
}

JobResult runOnSockets(const JobOptions &options,
                       const RankFunction &function) {
  JobResult result;
  const Launch &launch = world()->getLaunch();
  const int ranks = static_cast<int>(options.mesh.ranks());
  result.onMesh = launch.rank < ranks;
  SocketWorld::Mesh mesh;
  if (!world()->connect(ranks,
                        deadlineIn(std::max(options.timeoutSeconds, 30.0)),
                        mesh, result.message)) {
    result.status = SW_RT_TIMEOUT;
    return result;
  }
  if (!result.onMesh)
    return result;
  useBlasOnCallingThread();
  sw_rt_context context(options.mesh,
                        std::make_unique<SocketTransport>(
                            std::move(mesh), launch.rank, options.link),
                        options.timeoutSeconds);
  context.localRank = launch.localRank;
  context.pool.resize(static_cast<int>(options.threads ? options.threads : 1));
  result.status = runOnDevice(options, context, function);
  result.message = context.error;
  result.keepsDevice = !context.device;
  result.reports = result.status != SW_RT_ABORTED;
  return result;
}

} // namespace shardwright::runtime

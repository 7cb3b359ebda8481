//===- Job.h - Runs a function on every rank --------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_JOB_H
#define SHARDWRIGHT_RUNTIME_JOB_H

#include "runtime/src/Context.h"

#include <functional>

namespace shardwright::runtime {

struct JobOptions {
  Mesh mesh;
  double timeoutSeconds = 120;
  LinkModel link = {};
  /// That this process computes with, each rank with an equal part of them. 0:
  /// the cores it may run on, but 1 if it is one of several MPI processes.
  int64_t threads = 0;
  /// Of each rank; null: the host's.
  DeviceFactory openDevice = nullptr;
};

/// What a rank does. It runs on a thread or process of its own.
using RankFunction = std::function<sw_rt_status(sw_rt_context &)>;

/// Opens the rank's device and runs `function` on it. A failure poisons the
/// context, and leaves it without a device if that must be kept.
sw_rt_status runOnDevice(const JobOptions &options, sw_rt_context &context,
                         const RankFunction &function);

struct JobResult {
  sw_rt_status status = SW_RT_OK; ///< of the first failure
  std::string message;
  /// Ranks that did not come back after a failure. Their threads still run, so
  /// the process must end without destructors (std::_Exit).
  std::vector<int> stuck;
  /// A device was kept (Device::abandon): as with stuck ranks, no destructors.
  bool keepsDevice = false;
  /// MPI: whether this process is a rank of the mesh.
  bool onMesh = true;
  /// MPI: whether this process found the failure, and so prints it.
  bool reports = true;
};

/// Ranks as threads of this process. After a failure ranks get
/// `graceSeconds` to notice before they count as stuck.
JobResult runOnThreads(const JobOptions &options, const RankFunction &function,
                       double graceSeconds = 2);

/// This process as rank of an MPI job. Ranks past the mesh only wait for the
/// others. Collective over MPI's world.
JobResult runOnMpi(const JobOptions &options, const RankFunction &function);

/// This process as rank of a job that torchrun or srun started, over TCP.
/// Collective over the ranks of the mesh; others do nothing.
JobResult runOnSockets(const JobOptions &options, const RankFunction &function);
/// Ranks of that job; 0 if there is none or one; -1 with `why` if the
/// environment contradicts itself.
int socketWorldSize(std::string &why);
/// Meets the other processes of the job. Returns false with `why`.
bool startSockets(double timeoutSeconds, int &rank, int &size,
                  std::string &why);

/// Ranks of the MPI job that a launcher has put this process in; 0 if none.
/// Reads OMPI_COMM_WORLD_SIZE, which Open MPI's mpirun sets.
int mpiWorldSize();

/// Joins the MPI job. Returns false with `why` if the library cannot be loaded.
bool startMpi(int &rank, int &size, std::string &why);
/// Leaves it; every rank has come to its end.
void stopMpi();
/// Ends every process of the job with `code`.
void abortMpi(int code);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_JOB_H

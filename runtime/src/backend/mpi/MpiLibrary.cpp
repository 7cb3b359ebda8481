//===- MpiLibrary.cpp - Open MPI, loaded at run time ----------------------===//
#include "runtime/src/backend/mpi/MpiLibrary.h"

#include <dlfcn.h>

namespace shardwright::runtime {
namespace {

struct Loaded {
  MpiLibrary library{};
  std::string why;
};

Loaded loadLibrary() {
  Loaded loaded;
  // Global: Open MPI's own plug-ins look for the symbols of libmpi.
  void *handle = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  if (!handle) {
    loaded.why = std::string("expected Open MPI 4 (libmpi.so.40) to load, "
                             "because mpirun started this process, but got: ") +
                 dlerror();
    return loaded;
  }
  auto get = [&](auto &target, const char *symbol) {
    void *address = dlsym(handle, symbol);
    if (!address && loaded.why.empty())
      loaded.why = std::string("expected libmpi.so.40 to be Open MPI with '") +
                   symbol + "', but it lacks it";
    target =
        reinterpret_cast<std::remove_reference_t<decltype(target)>>(address);
  };
  MpiLibrary &mpi = loaded.library;
  get(mpi.Init, "MPI_Init");
  get(mpi.Finalize, "MPI_Finalize");
  get(mpi.Abort, "MPI_Abort");
  get(mpi.Comm_rank, "MPI_Comm_rank");
  get(mpi.Comm_size, "MPI_Comm_size");
  get(mpi.Comm_dup, "MPI_Comm_dup");
  get(mpi.Comm_free, "MPI_Comm_free");
  get(mpi.Isend, "MPI_Isend");
  get(mpi.Irecv, "MPI_Irecv");
  get(mpi.Test, "MPI_Test");
  get(mpi.Cancel, "MPI_Cancel");
  get(mpi.Request_free, "MPI_Request_free");
  get(mpi.world, "ompi_mpi_comm_world");
  get(mpi.byte, "ompi_mpi_byte");
  get(mpi.requestNull, "ompi_request_null");
  return loaded;
}

} // namespace

const MpiLibrary *MpiLibrary::load(std::string &why) {
  static const Loaded loaded = loadLibrary();
  why = loaded.why;
  return loaded.why.empty() ? &loaded.library : nullptr;
}

} // namespace shardwright::runtime

//===- MpiLibrary.h - Open MPI, loaded at run time --------------*- C++ -*-===//
//
// Compiled against mpi.h for types and constants only. Functions and the few
// predefined objects come by dlsym, so that an executable starts on machines
// without MPI.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_MPI_MPILIBRARY_H
#define SHARDWRIGHT_RUNTIME_BACKEND_MPI_MPILIBRARY_H

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

namespace shardwright::runtime {

struct MpiLibrary {
  decltype(&::MPI_Init) Init;
  decltype(&::MPI_Finalize) Finalize;
  decltype(&::MPI_Abort) Abort;
  decltype(&::MPI_Comm_rank) Comm_rank;
  decltype(&::MPI_Comm_size) Comm_size;
  decltype(&::MPI_Comm_dup) Comm_dup;
  decltype(&::MPI_Comm_free) Comm_free;
  decltype(&::MPI_Isend) Isend;
  decltype(&::MPI_Irecv) Irecv;
  decltype(&::MPI_Test) Test;
  decltype(&::MPI_Cancel) Cancel;
  decltype(&::MPI_Request_free) Request_free;
  MPI_Comm world;
  MPI_Datatype byte;
  MPI_Request requestNull;

  /// The library of this process, or null with `why`.
  static const MpiLibrary *load(std::string &why);
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_MPI_MPILIBRARY_H

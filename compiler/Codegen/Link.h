//===- Link.h - Object file and runtime to an executable --------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_LINK_H
#define SHARDWRIGHT_COMPILER_CODEGEN_LINK_H

#include "cost_model/base/Failure.h"

#include <string>

namespace shardwright::codegen {

/// Path of the runtime's static library, found from where the running tool is:
/// in the library folder that bin/ was installed with, or in ../lib.
bool findRuntime(std::string &path, cost::Failure &failure);

/// Links `object`, the runtime, OpenBLAS and the math libraries into the
/// executable `output` with the system's C++ compiler. What the linker says is
/// in the failure.
bool linkExecutable(const std::string &object, const std::string &runtime,
                    const std::string &output, cost::Failure &failure);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_LINK_H

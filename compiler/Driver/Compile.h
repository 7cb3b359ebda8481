//===- Compile.h - From a model and a plan to an executable -----*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_DRIVER_COMPILE_H
#define SHARDWRIGHT_COMPILER_DRIVER_COMPILE_H

#include "cost_model/base/Failure.h"
#include "cost_model/program/Program.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// What `compile` writes.
enum class Emit {
  Model,      ///< IR of phase differentiated
  Plan,       ///< IR of phase planned
  Spmd,       ///< IR of phase allocated
  Rt,         ///< IR of phase lowered
  Llvm,       ///< LLVM IR of the host before optimization
  Ptx,        ///< code of a GPU
  Object,
  Executable,
};
/// "model", "plan", "spmd", "rt", "llvm", "ptx", "obj", "exe".
std::string_view name(Emit emit);
/// False if `text` names none.
bool emitNamed(std::string_view text, Emit &emit);

struct CompileOptions {
  std::string modelPath; ///< config.json or its folder
  std::string planPath;  ///< plan.json; names the plan in messages
  std::string planText;  ///< its text; read from planPath if empty
  std::string output;    ///< path that gets the artifact
  Emit emit = Emit::Executable;
  std::string target = "host"; ///< or "cuda"
  /// GPUs that the program carries code for, "sm_90"; empty: that of the plan's
  /// cluster if it is one that is shipped, else all.
  std::vector<std::string> gpuArchs;
  std::string cpu = "x86-64-v3"; ///< as LLVM names it; fixed by default
  std::string dumpDir;   ///< gets the IR of every phase; empty: none
};

/// Compiles into `options.output`, which is replaced as a whole at the end or
/// not at all. The plan fixes the sequence length. Refuses dtypes that the target
/// does not compute in with kind Unsupported.
bool compile(const CompileOptions &options, cost::Failure &failure);

/// Whether target and GPUs are known and go together, and with what is emitted,
/// which can be said before there is a plan for the cluster of that name;
/// `compile` looks at the same.
bool checkTargetFlags(const CompileOptions &options, const std::string &cluster,
                      cost::Failure &failure);

/// Whether some plan of a model can be compiled as far as `emit` asks, which can
/// be said before there is one; `compile` looks at the same.
bool checkModelCompiles(const std::string &modelPath,
                        const cost::Program &program, Emit emit,
                        cost::Failure &failure);

/// The same for artifacts other than executables, into a string.
bool compileToText(const CompileOptions &options, std::string &artifact,
                   cost::Failure &failure);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_DRIVER_COMPILE_H

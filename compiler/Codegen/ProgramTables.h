//===- ProgramTables.h - The constant tables of a program -------*- C++ -*-===//
//
// Mirrors runtime/include/shardwright_program.h with vectors and names instead
// of pointers. Plain data: what the tables say is decided in LoweredProgram.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_PROGRAMTABLES_H
#define SHARDWRIGHT_COMPILER_CODEGEN_PROGRAMTABLES_H

#include "runtime/include/shardwright_program.h"

#include <string>
#include <vector>

namespace llvm {
class Constant;
class Module;
} // namespace llvm

namespace shardwright::codegen {

struct ParameterTable {
  std::string name;
  std::vector<sw_rt_dim> dims;
  sw_rt_parameter rest = {}; ///< all but name, ndims and dims
};

struct BlockTable {
  int64_t elements = 0;
  std::vector<ParameterTable> parameters;
  std::vector<sw_rt_bucket> buckets;
};

struct KindTable {
  std::string name;
  /// Symbols of functions in the module; empty if there is none.
  std::string forward, dataGrad, weightGrad;
  BlockTable block;
  int64_t savedBytes = 0;
};

struct ChunkTable {
  std::vector<sw_rt_run> runs;
  sw_rt_chunk rest = {}; ///< all but the runs
};

struct StageTable {
  std::vector<ChunkTable> chunks;
  std::vector<sw_rt_action> actions;
  BlockTable shared;
  uint32_t sharedOwners = 0;
  sw_rt_arena arena = {};
};

struct ProgramTable {
  std::string model, plan, predicted;
  std::vector<std::pair<std::string, int64_t>> axes;
  std::vector<KindTable> kinds;
  std::vector<StageTable> stages;
  std::string update; ///< symbol; empty if the device code has it
  llvm::Constant *deviceCode = nullptr; ///< address; null: runs on the host
  sw_rt_program rest = {}; ///< all scalars that are not counts of the above
};

/// Defines `sw_program` in `module`, which has its data layout and the
/// functions named by the table, and `main`, which hands it to the runtime.
/// Every field is checked to lie where the C header puts it.
void emitProgramTables(const ProgramTable &table, llvm::Module &module);

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_PROGRAMTABLES_H

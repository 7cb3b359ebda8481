//===- ProgramJson.h - program.json ("shardwright.program/1") ---*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_PROGRAM_PROGRAMJSON_H
#define SHARDWRIGHT_COST_MODEL_PROGRAM_PROGRAMJSON_H

#include "cost_model/base/Failure.h"
#include "cost_model/program/Program.h"

#include <string>
#include <string_view>

namespace shardwright::cost {

/// Reads what programJson wrote. Also checks that indices stay in their lists,
/// so that no other code has to.
bool readProgram(std::string_view text, std::string_view file, Program &program,
                 Failure &failure);

/// Canonical text of a program: sorted keys, same value, same bytes. Its sha256
/// identifies the model in a plan.
std::string programJson(const Program &program);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_PROGRAM_PROGRAMJSON_H

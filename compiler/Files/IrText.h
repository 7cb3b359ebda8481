//===- IrText.h - Texts that MLIR's parser cannot take ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_FILES_IRTEXT_H
#define SHARDWRIGHT_COMPILER_FILES_IRTEXT_H

#include <string>
#include <string_view>

namespace shardwright {

/// MLIR's parser descends by recursion and has no limit of its own: the stack
/// ends after some thousand levels. No module of ours is 20 deep.
constexpr int deepestIr = 500;

/// Why MLIR 22 would crash on `text` instead of refusing it, as the end of a
/// message ("3: error: expected ..., but got ...", after the line); empty if
/// nothing is known against it.
std::string irTrap(std::string_view text);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_FILES_IRTEXT_H

//===- ExpertReader.h - What families with experts read alike ---*- C++ -*-===//
//
// Used by the .cpp files of this folder only.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COMPILER_IMPORT_EXPERTREADER_H
#define SHARDWRIGHT_COMPILER_IMPORT_EXPERTREADER_H

#include "compiler/Import/Families.h"

namespace shardwright {

inline constexpr int64_t maxExperts = 1 << 16;

/// What all of them but dbrx read alike.
void readExpertBase(FamilyReader &reader);
/// Number of experts and of choices, auxiliary loss; ffn is an expert's width.
/// Of a config that names the number otherwise, the first of `countKeys` that
/// is there counts.
void readExperts(FamilyReader &reader,
                 std::initializer_list<std::string_view> countKeys,
                 std::string_view widthKey, double auxAbsent);
/// Groups of experts, of which a token chooses some.
void readExpertGroups(FamilyReader &reader, int64_t groupsAbsent = 1,
                      int64_t chosenAbsent = 1);
/// n_shared_experts, of the width of the others; null and 0: none.
void readSharedExperts(FamilyReader &reader, int64_t absent);
/// Notes that modules which predict more tokens are left out.
void noteLaterTokens(FamilyReader &reader);
/// Layers from first_k_dense_replace on.
std::vector<bool> layersBehindDense(FamilyReader &reader, int64_t absent);
/// Kinds "dense" and "moe", and runs of them by `experts`, one flag a layer.
void setExpertLayers(ModelSpec &spec, const std::vector<bool> &experts);
std::vector<bool> everyLayer(const ModelSpec &spec);

} // namespace shardwright

#endif // SHARDWRIGHT_COMPILER_IMPORT_EXPERTREADER_H

//===- Diagnostics.cpp - Names of breaches --------------------------------===//
#include "passes/Phase/Diagnostics.h"

namespace shardwright {

llvm::StringRef name(BreachId id) {
  switch (id) {
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  case BreachId::id:                                                           \
    return #id;
#include "passes/Phase/Diagnostics.def"
  }
  return "";
}

} // namespace shardwright

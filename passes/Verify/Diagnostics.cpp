//===- Diagnostics.cpp - Names of breaches --------------------------------===//
#include "passes/Verify/Diagnostics.h"

namespace shardwright {

llvm::StringRef name(BreachId id) {
  switch (id) {
#define DIAGNOSTIC(id, section, kind, cause, cure)                             \
  case BreachId::id:                                                           \
    return #id;
#include "passes/Verify/Diagnostics.def"
  }
  return "";
}

} // namespace shardwright

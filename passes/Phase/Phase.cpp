#include "passes/Phase/Phase.h"

#include "dialects/Spmd/IR/SpmdDialect.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardwright {

static constexpr IrPhase kPhases[] = {
    IrPhase::Imported,    IrPhase::Differentiated, IrPhase::Planned,
    IrPhase::Partitioned, IrPhase::Scheduled,      IrPhase::Allocated,
    IrPhase::Lowered};

ArrayRef<IrPhase> allPhases() { return kPhases; }

StringRef name(IrPhase phase) {
  switch (phase) {
  case IrPhase::Imported:
    return "imported";
  case IrPhase::Differentiated:
    return "differentiated";
  case IrPhase::Planned:
    return "planned";
  case IrPhase::Partitioned:
    return "partitioned";
  case IrPhase::Scheduled:
    return "scheduled";
  case IrPhase::Allocated:
    return "allocated";
  case IrPhase::Lowered:
    return "lowered";
  }
  return "";
}

bool phaseNamed(StringRef text, IrPhase &phase) {
  for (IrPhase candidate : kPhases)
    if (text == name(candidate)) {
      phase = candidate;
      return true;
    }
  return false;
}

void setPhase(ModuleOp module, IrPhase phase) {
  module->setAttr(spmd::kPhaseAttr,
                  StringAttr::get(module.getContext(), name(phase)));
}

std::string oneOf(ArrayRef<IrPhase> phases) {
  std::string text;
  for (auto [number, phase] : llvm::enumerate(phases)) {
    if (number)
      text += number + 1 == phases.size() ? " or " : ", ";
    text += ("'" + name(phase) + "'").str();
  }
  return text;
}

} // namespace shardwright

//===- Diagnostics.h - Errors that end in the name of a breach --*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PHASE_DIAGNOSTICS_H
#define SHARDWRIGHT_PASSES_PHASE_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

#include <optional>
#include <utility>

namespace shardwright {

/// One for every entry of Diagnostics.def.
enum class BreachId {
#define DIAGNOSTIC(id, section, kind, cause, cure) id,
#include "passes/Phase/Diagnostics.def"
};
llvm::StringRef name(BreachId id);

/// An error in the making; its message ends in "[phase_c2]".
class Breach {
public:
  Breach(mlir::InFlightDiagnostic error, BreachId id)
      : error(std::move(error)), id(id) {}
  Breach(const Breach &) = delete;
  ~Breach() { error << " [" << name(id) << "]"; }

  template <typename Part> Breach &operator<<(Part &&part) {
    error << std::forward<Part>(part);
    return *this;
  }
  mlir::Diagnostic &attachNote(std::optional<mlir::Location> at = {}) {
    return error.attachNote(at);
  }
  operator llvm::LogicalResult() const { return mlir::failure(); }

private:
  mlir::InFlightDiagnostic error;
  BreachId id;
};

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PHASE_DIAGNOSTICS_H

//===- PhasePass.td - Passes that read a phase -------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_PHASE_PHASEPASS
#define SHARDWRIGHT_PASSES_PHASE_PHASEPASS

include "mlir/Pass/PassBase.td"

// PhasePass<"sw-partition", ["Planned"]>: a pass whose input contract is that
// of one of these phases, which its base class checks first.
class PhasePass<string argument, list<string> phases>
    : PassBase<argument,
               "::shardwright::PhasePass<"
               # !interleave(!foreach(phase, phases,
                                      "::shardwright::IrPhase::" # phase), ", ")
               # ">">;

#endif // SHARDWRIGHT_PASSES_PHASE_PHASEPASS

//===- RtDialect.td - The rt dialect -----------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_RT_IR_RTDIALECT
#define SHARDWRIGHT_DIALECTS_RT_IR_RTDIALECT

include "mlir/IR/OpBase.td"

def Rt_Dialect : Dialect {
  let name = "rt";
  let cppNamespace = "::shardwright::rt";
  let summary = "Calls of the runtime, one op per function of the C ABI";
  let description = [{
    What a rank executes: functions whose bodies are lists of runtime calls and
    kernel launches on addresses. No SSA value crosses from op to op; memory
    does. It leaves out how a call is made (LLVM) and when a function runs (the
    action tables of `spmd.stage`).

    Created by `sw-spmd-to-rt`, consumed by the translation to LLVM. The
    attribute `#rt.addr` is also used by the phase `allocated`, where
    `spmd.address` gives every value its place.
  }];
  let useDefaultAttributePrinterParser = 1;
}

#endif // SHARDWRIGHT_DIALECTS_RT_IR_RTDIALECT

//===- SpmdOps.td - Ops of the spmd dialect -----------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS
#define SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS

include "dialects/Spmd/IR/SpmdAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Spmd_Op<string mnemonic, list<Trait> traits = []>
    : Op<Spmd_Dialect, mnemonic, traits>;

// Collectives are not Pure: CSE or dead code elimination on one rank's program
// would change what the group meets, and the ledger with it.
def Spmd_AllReduceOp : Spmd_Op<"all_reduce"> {
  let summary = "Reduces a value over a group; every member gets the result";
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes,
                       Spmd_ReduceKindAttr:$reduce);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `axes` $axes `` $reduce attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Spmd_AllGatherOp : Spmd_Op<"all_gather"> {
  let summary = "Joins the parts of a group along a dim";
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes,
                       Int64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Spmd_ReduceScatterOp : Spmd_Op<"reduce_scatter"> {
  let summary = "Sums a value over a group; each member keeps its part";
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes,
                       Int64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Spmd_SliceOp : Spmd_Op<"slice", [Pure]> {
  let summary = "This rank's part of a value along a dim";
  let arguments = (ins AnyRankedTensor:$input, StrArrayAttr:$axes,
                       Int64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $input `axes` $axes `dim` $dim attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Spmd_StageOp : Spmd_Op<"stage", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "One stage of the pipeline";
  let arguments = (ins SymbolNameAttr:$sym_name, Int64Attr:$index,
                       ArrayAttr:$runs, OptionalAttr<ArrayAttr>:$schedule,
                       OptionalAttr<Int64Attr>:$slots,
                       OptionalAttr<DictionaryAttr>:$arena);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

#endif // SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS

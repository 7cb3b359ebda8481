//===- SpmdOps.td - Ops of the spmd dialect ----------------*- tablegen -*-===//
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
  let description = [{
    `result = sum (or max) over the ranks of the group of their input`, on every
    rank of the group.

    Constraints:
    * (collective_c1) there is at least one axis; axes are of `plan.mesh` (if
      the module has one) and differ.
    * (all_reduce_c1) input and result have one type.

    Factors: none.
    Work: no flops; payload is the input.

    Example:
    ```mlir
    %r = spmd.all_reduce %p axes ["tp"] sum
        : tensor<8x1x16xf32> -> tensor<8x1x16xf32>
    ```
  }];
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
  let description = [{
    `result` is the inputs of the group one after the other along `dim`, in the
    order of the ranks over `axes`.

    Constraints: collective_c1 and
    * (collective_c2) `dim` is one of the tensor; the whole (here the result) is
      the ranks of the group times as long there as the part, all else is equal.

    Factors: none.
    Work: no flops; payload is the input.

    Example:
    ```mlir
    %r = spmd.all_gather %p axes ["tp"] dim 0
        : tensor<4x1x16xf32> -> tensor<8x1x16xf32>
    ```
  }];
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
  let description = [{
    `result` is this rank's part along `dim` of the sum over the group.

    Constraints: collective_c1, collective_c2 (the whole is the input).

    Factors: none.
    Work: no flops; payload is the input.

    Example:
    ```mlir
    %r = spmd.reduce_scatter %p axes ["tp"] dim 0
        : tensor<8x1x16xf32> -> tensor<4x1x16xf32>
    ```
  }];
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
  let description = [{
    `result` is this rank's part of the input along `dim`. Local: it moves
    nothing between ranks and stands in no ledger.

    Constraints: collective_c1, collective_c2 (the whole is the input).

    Factors: none.
    Work: none.

    Example:
    ```mlir
    %r = spmd.slice %p axes ["tp"] dim 0
        : tensor<8x1x16xf32> -> tensor<4x1x16xf32>
    ```
  }];
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
  let description = [{
    What the ranks with coordinate `index` on `pp` run: `runs` is a list of
    `[function prefix, count, first layer]`; `prefix.forward`,
    `prefix.data_grad` and `prefix.weight_grad` are the functions of a layer. A
    stage of several chunks, which are parts of the model that do not follow one
    another, runs `[function prefix, count, first layer, chunk]`.
    `schedule` is its list of `#spmd.action` for one optimizer step and `slots`
    the activation slots that these use, chunk by chunk (both from phase
    `scheduled` on); `arena` holds offsets and sizes under the names of
    `sw_rt_arena`, and those of `sw_rt_chunk` chunk by chunk (from phase
    `allocated` on).

    Constraints:
    * (stage_c1) `index` is at least 0.
    * (stage_c2) each run is `["prefix", count, first layer]` or has its chunk
      behind them; counts are at least 1, chunks (0 if not said) begin with 0
      and go up by one.
    * (stage_c3) `schedule` holds `#spmd.action`.
    * (stage_c4) forward and backward actions and receives of a stream use slots
      below those that `slots` says of their chunk.

    Factors: none. Work: that of its functions, as often as the schedule says.

    Example:
    ```mlir
    spmd.stage @stage0 {index = 0 : i64, runs = [["dense.none", 2, 0]],
        schedule = [#spmd.action<forward, 0, 0>], slots = array<i64: 1>}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Int64Attr:$index,
                       ArrayAttr:$runs, OptionalAttr<ArrayAttr>:$schedule,
                       OptionalAttr<DenseI64ArrayAttr>:$slots,
                       OptionalAttr<DictionaryAttr>:$arena);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Chunk of one of `runs`.
    static int64_t chunkOf(::mlir::Attribute run);
    /// Number of chunks: one more than that of the last run.
    int64_t getNumChunks();
  }];
}

#endif // SHARDWRIGHT_DIALECTS_SPMD_IR_SPMDOPS

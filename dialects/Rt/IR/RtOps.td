//===- RtOps.td - Ops of the rt dialect --------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_RT_IR_RTOPS
#define SHARDWRIGHT_DIALECTS_RT_IR_RTOPS

include "dialects/Rt/IR/RtAttrs.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Rt_Op<string mnemonic, list<Trait> traits = []>
    : Op<Rt_Dialect, mnemonic, traits>;

// A call of the runtime: no operands, no results, addresses as attributes.
class Rt_CallOp<string mnemonic>
    : Rt_Op<mnemonic, [HasParent<"FuncOp">]>;

def Rt_FuncOp : Rt_Op<"func", [Symbol, IsolatedFromAbove, NoTerminator,
                               SingleBlock, NoRegionArguments]> {
  let summary = "List of runtime calls";
  let description = [{
    Runs its calls in order on the frame that the runtime hands in; it has no
    arguments, as addresses name the bases of that frame. Becomes one
    `sw_rt_function`.

    Constraints: its ops are calls of this dialect.

    Factors: none. Work: the sum of its calls.

    Example:
    ```mlir
    rt.func @dense.none.forward {
      rt.slice <stream_in, 0> -> <saved, 0> axes ["tp"] rows 1 stride 8 part 4
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Rt_MatmulOp : Rt_CallOp<"matmul"> {
  let summary = "Calls sw_rt_matmul";
  let description = [{
    Computes `c[m,n] = sum_k a[m,k] b[k,n]`, row-major and dense; `a` is stored
    `[k,m]` if `transpose_a`, `b` `[n,k]` if `transpose_b`; added to what `c`
    holds if `accumulate`. `c` has elements of `result_dtype` if that is given,
    else of `dtype` as `a` and `b`.

    Constraints:
    * (rt_matmul_c1) sizes are at least 1.

    Factors: none. Work: `2*m*n*k` flops.

    Example:
    ```mlir
    rt.matmul <stream_in, 0>, <params, 0> -> <workspace, 128>
        sizes 4 x 8 x 16 : f32 {transpose_b}
    ```
  }];
  let arguments = (ins Rt_AddrAttr:$a, Rt_AddrAttr:$b, Rt_AddrAttr:$c,
                       Int64Attr:$m, Int64Attr:$n, Int64Attr:$k,
                       TypeAttr:$dtype, UnitAttr:$transpose_a,
                       UnitAttr:$transpose_b, UnitAttr:$accumulate,
                       OptionalAttr<TypeAttr>:$result_dtype);
  let assemblyFormat = [{
    $a `,` $b `->` $c `sizes` $m `x` $n `x` $k `:` $dtype attr-dict
  }];
  let hasVerifier = 1;
}

class Rt_AttentionOp<string mnemonic, dag addresses> : Rt_CallOp<mnemonic> {
  let arguments = !con(addresses, (ins DenseI64ArrayAttr:$shape,
      F64Attr:$scale, BoolAttr:$causal, TypeAttr:$dtype,
      OptionalAttr<Int64Attr>:$window, OptionalAttr<F64Attr>:$softcap,
      OptionalAttr<F64Attr>:$alibi, OptionalAttr<Int64Attr>:$alibi_heads,
      OptionalAttr<StrArrayAttr>:$head_axes));
  let hasVerifier = 1;
}

def Rt_AttentionFwdOp : Rt_AttentionOp<"attention_fwd",
    (ins Rt_AddrAttr:$q, Rt_AddrAttr:$k, Rt_AddrAttr:$v, Rt_AddrAttr:$o,
         Rt_AddrAttr:$lse)> {
  let summary = "Calls sw_rt_attention_fwd";
  let description = [{
    Computes `model.attention` on buffers; `shape` is `[s, t, b, n, g, d]`,
    `head_axes` are the mesh axes that shard `n` (of use to `alibi` only).

    Constraints:
    * (rt_attention_c1) `shape` has six sizes.
    * (rt_attention_c2) sizes are at least 1.

    Factors: none. Work: `4*b*n*g*d*pairs` flops.

    Example:
    ```mlir
    rt.attention_fwd <saved, 0>, <saved, 768>, <saved, 1024>
        -> <workspace, 0>, <saved, 1280> shape [8, 8, 1, 2, 3, 4] : f32
        {causal = true, scale = 5.0e-1 : f64}
    ```
  }];
  let assemblyFormat = [{
    $q `,` $k `,` $v `->` $o `,` $lse `shape` $shape `:` $dtype attr-dict
  }];
}

def Rt_AttentionBwdOp : Rt_AttentionOp<"attention_bwd",
    (ins Rt_AddrAttr:$d_o, Rt_AddrAttr:$q, Rt_AddrAttr:$k, Rt_AddrAttr:$v,
         Rt_AddrAttr:$o, Rt_AddrAttr:$lse, Rt_AddrAttr:$dq, Rt_AddrAttr:$dk,
         Rt_AddrAttr:$dv)> {
  let summary = "Calls sw_rt_attention_bwd";
  let description = [{
    Computes `model.attention_grad` on buffers; `shape` as in `attention_fwd`.

    Constraints: rt_attention_c1, rt_attention_c2.

    Factors: none. Work: `10*b*n*g*d*pairs` flops.

    Example: see `test/Dialect/Rt/ops.mlir`.
  }];
  let assemblyFormat = [{
    $d_o `,` $q `,` $k `,` $v `,` $o `,` $lse `->` $dq `,` $dk `,` $dv
    `shape` $shape `:` $dtype attr-dict
  }];
}

def Rt_EmbeddingFwdOp : Rt_CallOp<"embedding_fwd"> {
  let summary = "Calls sw_rt_embedding_fwd";
  let description = [{
    Computes `model.embedding` on buffers: `rows` rows of `width` elements are
    this rank's, the first of them `coordinate(axes) * rows` of the whole.

    Constraints: none beyond the types.

    Factors: none. Work: no counted flops.

    Example:
    ```mlir
    rt.embedding_fwd <tokens, 0>, <params, 0> -> <stream_out, 0>
        sizes 8 x 64 x 16 axes ["tp"] : f32
    ```
  }];
  let arguments = (ins Rt_AddrAttr:$ids, Rt_AddrAttr:$table,
                       Rt_AddrAttr:$output, Int64Attr:$tokens, Int64Attr:$rows,
                       Int64Attr:$width, StrArrayAttr:$axes, TypeAttr:$dtype);
  let assemblyFormat = [{
    $ids `,` $table `->` $output `sizes` $tokens `x` $rows `x` $width
    `axes` $axes `:` $dtype attr-dict
  }];
}

def Rt_EmbeddingBwdOp : Rt_CallOp<"embedding_bwd"> {
  let summary = "Calls sw_rt_embedding_bwd";
  let description = [{
    Adds the rows of `d_output` to those of `d_table` that `ids` name; rows as
    in `embedding_fwd`. `d_table` has elements of `table_dtype` if that is
    given, else of `dtype` as `d_output`.

    Constraints: none beyond the types.

    Factors: none. Work: no counted flops.

    Example:
    ```mlir
    rt.embedding_bwd <tokens, 0>, <grad_in, 0> -> <grads, 0>
        sizes 8 x 64 x 16 axes ["tp"] : f32
    ```
  }];
  let arguments = (ins Rt_AddrAttr:$ids, Rt_AddrAttr:$d_output,
                       Rt_AddrAttr:$d_table, Int64Attr:$tokens, Int64Attr:$rows,
                       Int64Attr:$width, StrArrayAttr:$axes, TypeAttr:$dtype,
                       OptionalAttr<TypeAttr>:$table_dtype);
  let assemblyFormat = [{
    $ids `,` $d_output `->` $d_table `sizes` $tokens `x` $rows `x` $width
    `axes` $axes `:` $dtype attr-dict
  }];
}

class Rt_CollectiveOp<string mnemonic, dag extra> : Rt_CallOp<mnemonic> {
  let arguments = !con((ins Rt_AddrAttr:$input, Rt_AddrAttr:$output,
                            StrArrayAttr:$axes, Int64Attr:$count,
                            TypeAttr:$dtype), extra);
  let hasVerifier = 1;
}

def Rt_AllReduceOp
    : Rt_CollectiveOp<"all_reduce", (ins Rt_ReduceKindAttr:$reduce)> {
  let summary = "Calls sw_rt_all_reduce";
  let description = [{
    Reduces `count` elements over the group of `axes`.

    Constraints:
    * (rt_collective_c1) there is at least one axis.
    * (rt_collective_c2) `count`, the elements of the input, is at least 1.

    Factors: none. Work: no flops; payload `count` elements.

    Example:
    ```mlir
    rt.all_reduce <workspace, 0> -> <workspace, 0> axes ["tp"] sum
        count 64 : f32
    ```
  }];
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `` $reduce `count` $count `:` $dtype
    attr-dict
  }];
}

def Rt_AllGatherOp : Rt_CollectiveOp<"all_gather", (ins)> {
  let summary = "Calls sw_rt_all_gather";
  let description = [{
    Joins the inputs of the group of `axes` one after the other.

    Constraints: rt_collective_c1, rt_collective_c2.

    Factors: none. Work: no flops; payload `count` elements.

    Example:
    ```mlir
    rt.all_gather <workspace, 0> -> <workspace, 256> axes ["tp"] count 64 : f32
    ```
  }];
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `count` $count `:` $dtype attr-dict
  }];
}

def Rt_ReduceScatterOp
    : Rt_CollectiveOp<"reduce_scatter", (ins Rt_ReduceKindAttr:$reduce)> {
  let summary = "Calls sw_rt_reduce_scatter";
  let description = [{
    Gives this rank's part of the reduction over the group of `axes`.

    Constraints: rt_collective_c1, rt_collective_c2.

    Factors: none. Work: no flops; payload `count` elements.

    Example:
    ```mlir
    rt.reduce_scatter <workspace, 0> -> <workspace, 256> axes ["tp"] sum
        count 64 : f32
    ```
  }];
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `` $reduce `count` $count `:` $dtype
    attr-dict
  }];
}

def Rt_SliceOp : Rt_CallOp<"slice"> {
  let summary = "Copies this rank's part of a buffer";
  let description = [{
    For each of `rows` rows of `stride` bytes, copies the `part` bytes that
    start at `coordinate(axes) * part`; the copies lie one after the other.

    Constraints:
    * (slice_c1) 1 <= part <= stride.

    Factors: none. Work: none.

    Example:
    ```mlir
    rt.slice <stream_in, 0> -> <saved, 0> axes ["tp"] rows 1 stride 8 part 4
    ```
  }];
  let arguments = (ins Rt_AddrAttr:$input, Rt_AddrAttr:$output,
                       StrArrayAttr:$axes, Int64Attr:$rows,
                       Int64Attr:$stride_bytes, Int64Attr:$part_bytes);
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `rows` $rows `stride` $stride_bytes
    `part` $part_bytes attr-dict
  }];
  let hasVerifier = 1;
}

def Rt_LaunchOp : Rt_Op<"launch", [
    HasParent<"FuncOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a generated kernel";
  let description = [{
    Runs `@kernel` on buffers, in the order of its arguments and results.

    Constraints:
    * (launch_c1) `@kernel` is an `rt.kernel` of the module.
    * (launch_c2) there is one address per argument and result of it.

    Factors: none. Work: that of the kernel.

    Example:
    ```mlir
    rt.launch @kernel0 [#rt.addr<workspace, 0>] -> [#rt.addr<workspace, 256>]
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Rt_AddrArrayAttr:$inputs,
                       Rt_AddrArrayAttr:$outputs);
  let assemblyFormat = "$kernel $inputs `->` $outputs attr-dict";
}

def Rt_KernelOp : Rt_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove,
                                   Symbol, SingleBlock]> {
  let summary = "Generated kernel: model ops on the rows of its arguments";
  let description = [{
    A generated function: its `model` ops are computed row by row in one pass,
    so that values inside need no buffer. Equal kernels are one.

    Constraints: it has a body of one block that ends in `rt.yield`.

    Factors: none. Work: no counted flops.

    Example:
    ```mlir
    rt.kernel @kernel0(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
      rt.yield %a : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type)>];
  let hasCustomAssemblyFormat = 1;
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Rt_YieldOp : Rt_Op<"yield", [Pure, Terminator, ReturnLike,
                                 HasParent<"KernelOp">]> {
  let summary = "Ends a kernel and gives its results";
  let description = [{
    Ends an `rt.kernel`.

    Constraints:
    * (yield_c1) operand types are the kernel's result types.

    Factors: none. Work: none.

    Example: `rt.yield %a : tensor<4x8xf32>`
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

#endif // SHARDWRIGHT_DIALECTS_RT_IR_RTOPS

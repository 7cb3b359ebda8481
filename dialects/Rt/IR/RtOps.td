//===- RtOps.td - Ops of the rt dialect ---------------------*- tablegen -*-===//
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
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Rt_MatmulOp : Rt_CallOp<"matmul"> {
  let summary = "Calls sw_rt_matmul";
  let arguments = (ins Rt_AddrAttr:$a, Rt_AddrAttr:$b, Rt_AddrAttr:$c,
                       Int64Attr:$m, Int64Attr:$n, Int64Attr:$k, TypeAttr:$dtype,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       UnitAttr:$accumulate);
  let assemblyFormat = [{
    $a `,` $b `->` $c `sizes` $m `x` $n `x` $k `:` $dtype attr-dict
  }];
  let hasVerifier = 1;
}

class Rt_AttentionOp<string mnemonic, dag addresses> : Rt_CallOp<mnemonic> {
  let arguments = !con(addresses, (ins DenseI64ArrayAttr:$shape,
      F64Attr:$scale, BoolAttr:$causal, TypeAttr:$dtype));
  let hasVerifier = 1;
}

def Rt_AttentionFwdOp : Rt_AttentionOp<"attention_fwd",
    (ins Rt_AddrAttr:$q, Rt_AddrAttr:$k, Rt_AddrAttr:$v, Rt_AddrAttr:$o,
         Rt_AddrAttr:$lse)> {
  let summary = "Calls sw_rt_attention_fwd";
  let assemblyFormat = [{
    $q `,` $k `,` $v `->` $o `,` $lse `shape` $shape `:` $dtype attr-dict
  }];
}

def Rt_AttentionBwdOp : Rt_AttentionOp<"attention_bwd",
    (ins Rt_AddrAttr:$d_o, Rt_AddrAttr:$q, Rt_AddrAttr:$k, Rt_AddrAttr:$v,
         Rt_AddrAttr:$o, Rt_AddrAttr:$lse, Rt_AddrAttr:$dq, Rt_AddrAttr:$dk,
         Rt_AddrAttr:$dv)> {
  let summary = "Calls sw_rt_attention_bwd";
  let assemblyFormat = [{
    $d_o `,` $q `,` $k `,` $v `,` $o `,` $lse `->` $dq `,` $dk `,` $dv
    `shape` $shape `:` $dtype attr-dict
  }];
}

def Rt_EmbeddingFwdOp : Rt_CallOp<"embedding_fwd"> {
  let summary = "Calls sw_rt_embedding_fwd";
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
  let arguments = (ins Rt_AddrAttr:$ids, Rt_AddrAttr:$d_output,
                       Rt_AddrAttr:$d_table, Int64Attr:$tokens, Int64Attr:$rows,
                       Int64Attr:$width, StrArrayAttr:$axes, TypeAttr:$dtype);
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
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `` $reduce `count` $count `:` $dtype attr-dict
  }];
}

def Rt_AllGatherOp : Rt_CollectiveOp<"all_gather", (ins)> {
  let summary = "Calls sw_rt_all_gather";
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `count` $count `:` $dtype attr-dict
  }];
}

def Rt_ReduceScatterOp
    : Rt_CollectiveOp<"reduce_scatter", (ins Rt_ReduceKindAttr:$reduce)> {
  let summary = "Calls sw_rt_reduce_scatter";
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `` $reduce `count` $count `:` $dtype attr-dict
  }];
}

def Rt_SliceOp : Rt_CallOp<"slice"> {
  let summary = "Copies this rank's part of a buffer";
  let arguments = (ins Rt_AddrAttr:$input, Rt_AddrAttr:$output,
                       StrArrayAttr:$axes, Int64Attr:$rows,
                       Int64Attr:$stride_bytes, Int64Attr:$part_bytes);
  let assemblyFormat = [{
    $input `->` $output `axes` $axes `rows` $rows `stride` $stride_bytes
    `part` $part_bytes attr-dict
  }];
  let hasVerifier = 1;
}

def Rt_LaunchOp : Rt_CallOp<"launch"> {
  let summary = "Runs a generated kernel";
  let arguments = (ins FlatSymbolRefAttr:$kernel, Rt_AddrArrayAttr:$inputs,
                       Rt_AddrArrayAttr:$outputs);
  let assemblyFormat = "$kernel $inputs `->` $outputs attr-dict";
}

def Rt_KernelOp : Rt_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove,
                                   Symbol, SingleBlock]> {
  let summary = "Generated kernel: model ops on the rows of its arguments";
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
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

#endif // SHARDWRIGHT_DIALECTS_RT_IR_RTOPS

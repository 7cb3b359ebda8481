//===- ModelOps.td - Ops of the model dialect --------------*- tablegen -*-===//
//
// Structure here; compute ops by topic in the files included below.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS

include "dialects/Model/IR/ModelBase.td"
include "dialects/Model/IR/ModelLinearOps.td"
include "dialects/Model/IR/ModelNormOps.td"
include "dialects/Model/IR/ModelAttentionOps.td"
include "dialects/Model/IR/ModelActivationOps.td"
include "dialects/Model/IR/ModelVocabularyOps.td"
include "dialects/Model/IR/ModelExpertOps.td"
include "dialects/Model/IR/ModelLatentOps.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def Model_KindOp : Model_Op<"kind", [
    FunctionOpInterface, IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "Function of one kind of layer";
  let description = [{
    A function that every layer of a kind runs. In `imported`, `@k` is the
    forward pass; `sw-differentiate` makes `@k.<policy>.<part>` of it, with the
    attributes `kind`, `policy` and `part`. Each argument says in `model.arg`,
    each result in `model.res`, what it is. It is a function op at all phases up
    to `allocated`, with global shapes first and local ones later.

    Constraints:
    * (kind_c1) it has a body of one block that ends in `model.return`.
    * (kind_c2) `model.arg` and `model.res` hold `#model.arg` and `#model.res`.
    * (kind_c3) its name is not empty.

    Factors: none; its ops have them.
    Work: the sum of its ops.

    Example:
    ```mlir
    model.kind @scale(
        %x: tensor<8x1x16xf32> {model.arg = #model.arg<stream_in, 0>},
        %w: tensor<16xf32> {model.arg = #model.arg<parameter, 0>})
        -> (tensor<8x1x16xf32> {model.res = #model.res<stream_out, 0>}) {
      %y, %r = model.rms_norm %x, %w in stream
          {letters = "sbh", eps = 1.0e-5 : f64}
          : (tensor<8x1x16xf32>, tensor<16xf32>)
          -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
      model.return %y : tensor<8x1x16xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<Model_PartAttr>:$part,
                       OptionalAttr<Model_RecomputeAttr>:$policy,
                       OptionalAttr<StrAttr>:$kind,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type)>];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }

    /// The terminator.
    ReturnOp getReturn();
    /// `model.arg` of an argument, `model.res` of a result; null if absent.
    ArgAttr getModelArg(unsigned index);
    ResAttr getModelRes(unsigned index);
    void setModelArg(unsigned index, ArgAttr attr);
    void setModelRes(unsigned index, ResAttr attr);
  }];
}

def Model_ReturnOp : Model_Op<"return", [
    Pure, Terminator, ReturnLike, HasParent<"KindOp">]> {
  let summary = "Ends a kind and gives its results";
  let description = [{
    Ends a `model.kind`.

    Constraints:
    * (return_c1) one operand per result of the kind.
    * (return_c2) operand types are the kind's result types.

    Factors: none. Work: none.

    Example: `model.return %y : tensor<8x1x16xf32>`
  }];
  let arguments = (ins Variadic<Model_AnyTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

def Model_ParamOp : Model_Op<"param", [Symbol]> {
  let summary = "Declares one parameter of a kind";
  let description = [{
    Declares parameter number `index` of kind `kind`: its type, the letters of
    its dims, the segment of its uses, and where its elements lie in the Hugging
    Face tensor `hf_name` (in which `{}` stands for the layer number): element
    `(i0, i1, ...)` is element `hf_offset + sum_k i_k * hf_strides[k]` of a
    tensor of shape `hf_shape`, so one fused tensor can be several parameters.
    `init` and `init_scale` (a standard deviation) say what it starts from,
    `decay` whether AdamW decays it. Parameters with the same non-empty `shared`
    are one tensor (tied embedding).

    Constraints:
    * (param_c1) one letter per dim.
    * (param_c2) letters are known and differ.
    * (param_c3) one stride per dim.
    * (param_c4) every element lies inside `hf_shape`; a dim `v` may be padded.
    * (param_c5) `index` is at least 0.
    * (param_c6) `hf_shape`, `hf_strides` and `hf_offset` count fewer than 2^63
      elements.

    Factors: none. Work: none.

    Example:
    ```mlir
    model.param @dense.q_proj : tensor<2x3x4x16xf32> in attention init normal
        {kind = "dense", index = 0 : i64, letters = "ngdh",
         hf_name = "model.layers.{}.self_attn.q_proj.weight",
         hf_strides = array<i64: 192, 64, 16, 1>, hf_offset = 0 : i64,
         hf_shape = array<i64: 24, 16>, init_scale = 2.0e-2 : f64, decay = true}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<Model_Float>:$type,
                       Model_SegmentAttr:$segment,
                       StrAttr:$kind,
                       Int64Attr:$index,
                       StrAttr:$hf_name,
                       StrAttr:$letters,
                       DenseI64ArrayAttr:$hf_strides,
                       Int64Attr:$hf_offset,
                       DenseI64ArrayAttr:$hf_shape,
                       Model_InitAttr:$init,
                       F64Attr:$init_scale,
                       BoolAttr:$decay,
                       DefaultValuedAttr<StrAttr, "\"\"">:$shared);
  let assemblyFormat = [{
    $sym_name `:` $type `in` `` $segment `init` `` $init attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Model_StackOp : Model_Op<"stack", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "The layers of the model as a run-length list of kinds";
  let description = [{
    Lists the layers of the model in order: `[kind, count]` stands for `count`
    layers of one kind, so the text does not grow with the number of layers.

    Constraints:
    * (stack_c1) each run is `["kind", count]`.
    * (stack_c2) counts are at least 1.

    Factors: none. Work: none.

    Example: `model.stack [["embed", 1], ["dense", 32], ["head", 1]]`
  }];
  let arguments = (ins ArrayAttr:$runs);
  let assemblyFormat = "$runs attr-dict";
  let hasVerifier = 1;
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS

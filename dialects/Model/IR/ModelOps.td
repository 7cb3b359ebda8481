//===- ModelOps.td - Ops of the model dialect ---------------*- tablegen -*-===//
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
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def Model_KindOp : Model_Op<"kind", [
    FunctionOpInterface, IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "Function of one kind of layer";
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
  let arguments = (ins Variadic<Model_AnyTensor>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let hasVerifier = 1;
}

def Model_ParamOp : Model_Op<"param", [Symbol]> {
  let summary = "Declares one parameter of a kind";
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
  let assemblyFormat = "$sym_name `:` $type `in` `` $segment `init` `` $init attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Model_StackOp : Model_Op<"stack", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "The layers of the model as a run-length list of kinds";
  let arguments = (ins ArrayAttr:$runs);
  let assemblyFormat = "$runs attr-dict";
  let hasVerifier = 1;
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELOPS

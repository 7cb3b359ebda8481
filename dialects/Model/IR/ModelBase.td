//===- ModelBase.td - Base classes of model ops ------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELBASE
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELBASE

include "dialects/Model/IR/ModelAttrs.td"
include "dialects/Model/IR/ModelInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Model_Float : ConfinedType<RankedTensorOf<[F64, F32, BF16, F16]>,
    [HasStaticShapePred], "statically shaped tensor of floating-point values">;
def Model_Index : ConfinedType<RankedTensorOf<[I32]>,
    [HasStaticShapePred], "statically shaped tensor of i32 values">;
def Model_AnyTensor : ConfinedType<RankedTensorOf<[F64, F32, BF16, F16, I32]>,
    [HasStaticShapePred], "statically shaped tensor">;

class Model_Op<string mnemonic, list<Trait> traits = []>
    : Op<Model_Dialect, mnemonic, traits>;

// An op with an iteration space. Attributes come after the operands in this
// order: segment, label, then `attributes`. All print alike:
//   %r = model.x %a, %b in mlp label "up" {attrs} : (tensor...) -> tensor...
class Model_ComputeOp<string mnemonic, dag operands, dag attributes,
                      list<Trait> traits = []>
    : Model_Op<mnemonic,
        [Pure, DeclareOpInterfaceMethods<Model_IterationSpaceOpInterface>]
        # traits> {
  let arguments = !con(operands,
      (ins Model_SegmentAttr:$segment, OptionalAttr<StrAttr>:$label),
      attributes);
  let assemblyFormat = [{
    operands `in` `` $segment (`label` $label^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

// A compute op of the forward pass.
class Model_ForwardOp<string mnemonic, dag operands, dag attributes>
    : Model_ComputeOp<mnemonic, operands, attributes,
        [DeclareOpInterfaceMethods<Model_DifferentiableOpInterface>]>;

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELBASE

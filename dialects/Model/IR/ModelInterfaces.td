//===- ModelInterfaces.td - Interfaces of model ops --------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELINTERFACES
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELINTERFACES

include "mlir/IR/OpBase.td"

def Model_IterationSpaceOpInterface : OpInterface<"IterationSpaceOpInterface"> {
  let cppNamespace = "::shardwright::model";
  let description = [{
    States what the op computes, independent of any device. Everything else
    (work, legal shardings, local shapes, collectives) is derived from it.

    Sizes are those of the op's types as they stand, so an op at local shapes
    answers with the local space.
  }];
  let methods = [
    InterfaceMethod<"Returns the letters of the dims of every operand and "
                    "result, outer to inner. Total, also on invalid ops.",
                    "::shardwright::model::DimLetters", "getDimLetters">,
    InterfaceMethod<"Returns the iteration space; pure, and total on verified "
                    "ops.",
                    "::shardwright::cost::IterationSpace",
                    "getIterationSpace">];
}

def Model_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::shardwright::model";
  let description = [{
    Builds the vector-Jacobian product of a forward op. Implemented in
    ModelGradients.cpp.
  }];
  let methods = [InterfaceMethod<[{
      Returns one gradient per operand, a null value for an operand that has
      none (ids). `resultGradients` has one value per result, null for a result
      through which no gradient flows (row statistics). The ops are created at
      the builder's insertion point, in the segment of this op, without label.
    }],
    "::llvm::SmallVector<::mlir::Value>", "buildGradient",
    (ins "::mlir::OpBuilder &":$builder,
         "::mlir::ValueRange":$resultGradients)>];
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELINTERFACES

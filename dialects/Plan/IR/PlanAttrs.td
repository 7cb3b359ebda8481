//===- PlanAttrs.td - Mesh and sharding --------------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_PLAN_IR_PLANATTRS
#define SHARDWRIGHT_DIALECTS_PLAN_IR_PLANATTRS

include "dialects/Plan/IR/PlanDialect.td"
include "dialects/SignedInteger.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"

class Plan_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::shardwright::plan";
  let genSpecializedAttr = 0;
}

// Same numbers as cost::Partial.
def Plan_Partial : Plan_Enum<"Partial", "reduction still to be done", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Sum", 1, "sum">,
  I32EnumAttrCase<"Max", 2, "max">]>;

// Same numbers as cost::Collective.
def Plan_Collective : Plan_Enum<"Collective", "what changes a sharding", [
  I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
  I32EnumAttrCase<"AllGather", 1, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
  I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
  I32EnumAttrCase<"Slice", 6, "slice">]>;
def Plan_CollectiveAttr
    : EnumAttr<Plan_Dialect, Plan_Collective, "collective">;

def Plan_MeshAttr : AttrDef<Plan_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "Mesh axes and their sizes, outer to inner";
  let description = [{
    A rank is the row-major index of its coordinates over the axes.

    Constraints:
    * (mesh_c1) `names` and `sizes` have one entry per axis.
    * (mesh_c2) names differ.
    * (mesh_c3) sizes are at least 1.

    Example: `#plan.mesh<[pp=2,dp=2,tp=2]>`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Position of an axis, outer to inner, or -1.
    int64_t indexOf(::llvm::StringRef axis) const;
    /// Size of an axis, or -1 if the mesh has none of that name.
    int64_t sizeOf(::llvm::StringRef axis) const;
    /// Product of the sizes of `axes` (an array of strings); -1 if one of them
    /// is unknown.
    int64_t degree(::mlir::ArrayAttr axes) const;
    /// The mesh of the module around `op` (or `op` itself), or null.
    static MeshAttr of(::mlir::Operation *op);
  }];
}

def Plan_ShardingAttr : AttrDef<Plan_Dialect, "Sharding", [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding,
                                ["verifyEncoding"]>]> {
  let mnemonic = "sh";
  let summary = "How a value lies on the mesh";
  let description = [{
    Per dim the mesh axes that shard it, outer to inner, and the axes over
    which each rank holds only a partial sum or maximum. Used as the encoding
    of a tensor type with global shape.

    Constraints:
    * (sh_c1) `dims` has one list of axis names per dim of the tensor.
    * (sh_c2) no axis stands twice, in `dims` and `partial` together.
    * (sh_c3) `partial` is `none` exactly if there are no partial axes.

    Example: `#plan.sh<dims=[["dp"],[],["tp"]], partial=sum["tp"]>`.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::ArrayAttr">:$dims,
                        "::shardwright::plan::Partial":$partial,
                        ArrayRefParameter<"::mlir::StringAttr">:$partialAxes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The encoding of a tensor type, or null if it has none of this kind.
    static ShardingAttr of(::mlir::Type type);
    /// Names of the axes that shard dim `dim`, outer to inner.
    ::llvm::SmallVector<::llvm::StringRef> getDimAxes(unsigned dim) const;
  }];
}

#endif // SHARDWRIGHT_DIALECTS_PLAN_IR_PLANATTRS

//===- PlanVerify.cpp - Verifiers of the plan dialect ---------------------===//
#include "dialects/Plan/IR/PlanOps.h"

using namespace mlir;
using namespace shardwright::plan;

LogicalResult MeshAttr::verify(llvm::function_ref<InFlightDiagnostic()> error,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  if (names.size() != sizes.size()) // mesh_c1
    return error() << "expected one size per axis (" << names.size()
                   << "), but got " << sizes.size();
  for (auto [index, name] : llvm::enumerate(names)) {
    if (llvm::is_contained(names.take_front(index), name)) // mesh_c2
      return error() << "expected axis names to differ, but got " << name
                     << " twice";
    if (sizes[index] < 1) // mesh_c3
      return error() << "expected the size of axis " << name
                     << " to be at least 1, but got " << sizes[index];
  }
  return success();
}

LogicalResult
ShardingAttr::verify(llvm::function_ref<InFlightDiagnostic()> error,
                     ArrayRef<ArrayAttr> dims, Partial partial,
                     ArrayRef<StringAttr> partialAxes) {
  SmallVector<Attribute> seen;
  auto add = [&](Attribute axis) -> LogicalResult {
    if (llvm::is_contained(seen, axis)) // sh_c2
      return error() << "expected axes of a sharding to differ, but got "
                     << axis << " twice";
    seen.push_back(axis);
    return success();
  };
  for (ArrayAttr dim : dims)
    for (Attribute axis : dim) {
      if (!isa<StringAttr>(axis))
        return error() << "expected axes to be strings, but got " << axis;
      if (failed(add(axis)))
        return failure();
    }
  for (StringAttr axis : partialAxes)
    if (failed(add(axis)))
      return failure();
  if ((partial == Partial::None) != partialAxes.empty()) // sh_c3
    return error() << "expected partial axes exactly if there is a partial "
                      "reduction, but got '"
                   << stringifyPartial(partial) << "' over "
                   << partialAxes.size() << " axes";
  return success();
}

LogicalResult ShardingAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type,
    llvm::function_ref<InFlightDiagnostic()> error) const {
  if (getDims().size() != shape.size()) // sh_c1
    return error() << "expected one list of axes per dim (" << shape.size()
                   << "), but got " << getDims().size();
  return success();
}

LogicalResult PlanDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == kMeshAttr && !isa<MeshAttr>(attr.getValue()))
    return op->emitOpError()
           << "expected '" << kMeshAttr << "' to be #plan.mesh<...>, but got "
           << attr.getValue();
  if (attr.getName() == kAxesAttr) {
    auto axes = dyn_cast<DictionaryAttr>(attr.getValue());
    if (!axes || !llvm::all_of(axes, [](NamedAttribute entry) {
          auto list = dyn_cast<ArrayAttr>(entry.getValue());
          return list && llvm::all_of(list, llvm::IsaPred<StringAttr>);
        }))
      return op->emitOpError()
             << "expected '" << kAxesAttr
             << "' to map letters to arrays of axis names, but got "
             << attr.getValue();
  }
  return success();
}

/// Applies one collective to an encoding; null with `why` if it cannot.
static ShardingAttr applyCollective(ReshardOp op, ShardingAttr from,
                                    std::string &why) {
  SmallVector<SmallVector<Attribute>> dims;
  for (ArrayAttr dim : from.getDims())
    dims.emplace_back(dim.begin(), dim.end());
  SmallVector<StringAttr> partial(from.getPartialAxes());
  Partial kind = from.getPartial();
  SmallVector<Attribute> axes(op.getAxes().begin(), op.getAxes().end());
  Collective collective = op.getCollective();
  int64_t dim = op.getDim();

  if (collective != Collective::AllReduce &&
      (dim < 0 || dim >= static_cast<int64_t>(dims.size()))) {
    why = "a dim of the tensor";
    return {};
  }
  if (collective == Collective::AllReduce ||
      collective == Collective::ReduceScatter) {
    for (Attribute axis : axes) {
      auto *found = llvm::find(partial, axis);
      if (found == partial.end()) {
        why = "a value partial over its axes";
        return {};
      }
      partial.erase(found);
    }
    if (partial.empty())
      kind = Partial::None;
  }
  if (collective == Collective::ReduceScatter ||
      collective == Collective::Slice)
    dims[dim].append(axes.begin(), axes.end());
  if (collective == Collective::AllGather) {
    SmallVector<Attribute> &list = dims[dim];
    if (list.size() < axes.size() ||
        !std::equal(axes.begin(), axes.end(), list.end() - axes.size())) {
      why = "a dim whose inner axes are those gathered";
      return {};
    }
    list.resize(list.size() - axes.size());
  }
  SmallVector<ArrayAttr> lists;
  for (SmallVector<Attribute> &list : dims)
    lists.push_back(ArrayAttr::get(op.getContext(), list));
  return ShardingAttr::get(op.getContext(), lists, kind, partial);
}

LogicalResult ReshardOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType()) // reshard_c1
    return emitOpError() << "expected input and result to differ only in their "
                            "sharding, but got "
                         << from << " and " << to;
  ShardingAttr source = ShardingAttr::of(from), target = ShardingAttr::of(to);
  if (!source || !target) // reshard_c2
    return emitOpError() << "expected both types to carry #plan.sh, but got "
                         << from << " and " << to;
  if (getCollective() == Collective::AllToAll)
    return success();
  std::string why;
  ShardingAttr got = applyCollective(*this, source, why);
  if (!got) // reshard_c3
    return emitOpError() << "expected " << stringifyCollective(getCollective())
                         << " to have " << why << ", but got axes " << getAxes()
                         << " dim " << getDim() << " on " << source;
  if (got != target) // reshard_c4
    return emitOpError() << "expected the result to have sharding " << got
                         << ", but got " << target;
  return success();
}

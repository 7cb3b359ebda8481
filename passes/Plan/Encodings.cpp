#include "passes/Plan/Encodings.h"

using namespace mlir;

namespace shardwright {

static_assert(static_cast<int>(plan::Partial::Max) ==
              static_cast<int>(cost::Partial::Max));
static_assert(static_cast<int>(plan::Collective::Slice) ==
              static_cast<int>(cost::Collective::Slice));

Type elementType(MLIRContext *context, cost::DType dtype) {
  switch (dtype) {
  case cost::DType::F64:
    return Float64Type::get(context);
  case cost::DType::F32:
    return Float32Type::get(context);
  case cost::DType::BF16:
    return BFloat16Type::get(context);
  case cost::DType::F16:
    return Float16Type::get(context);
  case cost::DType::I32:
    return IntegerType::get(context, 32);
  }
  return {};
}

static StringAttr axisName(MLIRContext *context, const cost::Plan &plan,
                           cost::Axis axis) {
  return StringAttr::get(context, plan.mesh[axis].name);
}

ArrayAttr axisNames(MLIRContext *context, const cost::Plan &plan,
                    const cost::Axes &axes) {
  SmallVector<Attribute> names;
  for (cost::Axis axis : axes)
    names.push_back(axisName(context, plan, axis));
  return ArrayAttr::get(context, names);
}

plan::MeshAttr meshAttr(MLIRContext *context, const cost::Plan &plan) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (const cost::MeshAxis &axis : plan.mesh) {
    names.push_back(StringAttr::get(context, axis.name));
    sizes.push_back(axis.size);
  }
  return plan::MeshAttr::get(context, names, sizes);
}

plan::ShardingAttr shardingAttr(MLIRContext *context, const cost::Plan &plan,
                                const cost::Encoding &encoding) {
  SmallVector<ArrayAttr> dims;
  for (const cost::Axes &axes : encoding.dims)
    dims.push_back(axisNames(context, plan, axes));
  SmallVector<StringAttr> partial;
  for (cost::Axis axis : encoding.partialAxes)
    partial.push_back(axisName(context, plan, axis));
  return plan::ShardingAttr::get(
      context, dims, static_cast<plan::Partial>(encoding.partial), partial);
}

RankedTensorType plannedType(MLIRContext *context, const cost::Plan &plan,
                             const std::vector<cost::Dim> &dims,
                             cost::Precision precision,
                             const cost::Encoding &encoding) {
  SmallVector<int64_t> shape;
  for (const cost::Dim &dim : dims)
    shape.push_back(cost::plannedSize(plan, dim.role, dim.size));
  return RankedTensorType::get(shape,
                               elementType(context, plan.dtypes.of(precision)),
                               shardingAttr(context, plan, encoding));
}

} // namespace shardwright

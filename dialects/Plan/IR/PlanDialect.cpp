#include "dialects/Plan/IR/PlanDialect.h"

#include "dialects/Plan/IR/PlanOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardwright::plan;

#include "dialects/Plan/IR/PlanDialect.cpp.inc"
#include "dialects/Plan/IR/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/IR/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/IR/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Plan/IR/PlanAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/IR/PlanOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// MeshAttr
//===----------------------------------------------------------------------===//

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    sizes.push_back(size);
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<MeshAttr>(parser.getContext(), names, sizes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  bool first = true;
  for (auto [name, size] : llvm::zip(getNames(), getSizes())) {
    if (!first)
      printer << ",";
    first = false;
    printer.printKeywordOrString(name.getValue());
    printer << "=" << size;
  }
  printer << "]>";
}

int64_t MeshAttr::indexOf(StringRef axis) const {
  for (auto [index, name] : llvm::enumerate(getNames()))
    if (name.getValue() == axis)
      return static_cast<int64_t>(index);
  return -1;
}

int64_t MeshAttr::sizeOf(StringRef axis) const {
  int64_t index = indexOf(axis);
  return index < 0 ? -1 : getSizes()[index];
}

int64_t MeshAttr::degree(ArrayAttr axes) const {
  int64_t product = 1;
  for (Attribute axis : axes) {
    int64_t size = sizeOf(cast<StringAttr>(axis).getValue());
    if (size < 0)
      return -1;
    product *= size;
  }
  return product;
}

MeshAttr MeshAttr::of(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto mesh = op->getAttrOfType<MeshAttr>(kMeshAttr))
      return mesh;
  return {};
}

//===----------------------------------------------------------------------===//
// ShardingAttr
//===----------------------------------------------------------------------===//

static void printAxes(AsmPrinter &printer, ArrayRef<StringRef> axes) {
  printer << "[";
  llvm::interleave(
      axes, [&](StringRef axis) { printer.printString(axis); },
      [&] { printer << ","; });
  printer << "]";
}

static ParseResult parseAxes(AsmParser &parser, SmallVector<StringAttr> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    std::string axis;
    if (parser.parseString(&axis))
      return failure();
    axes.push_back(parser.getBuilder().getStringAttr(axis));
    return success();
  });
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<ArrayAttr> dims;
  SmallVector<StringAttr> partialAxes;
  Partial partial = Partial::None;
  auto parseDim = [&]() -> ParseResult {
    SmallVector<StringAttr> axes;
    if (parseAxes(parser, axes))
      return failure();
    SmallVector<Attribute> attrs(axes.begin(), axes.end());
    dims.push_back(parser.getBuilder().getArrayAttr(attrs));
    return success();
  };
  if (parser.parseLess() || parser.parseKeyword("dims") ||
      parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    llvm::SMLoc loc;
    if (parser.parseKeyword("partial") || parser.parseEqual() ||
        parser.getCurrentLocation(&loc) || parser.parseKeyword(&keyword) ||
        parseAxes(parser, partialAxes))
      return {};
    std::optional<Partial> parsed = symbolizePartial(keyword);
    if (!parsed) {
      parser.emitError(loc)
          << "expected 'sum' or 'max', but got '" << keyword << "'";
      return {};
    }
    partial = *parsed;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShardingAttr>(parser.getContext(), dims, partial,
                                         partialAxes);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<dims=[";
  for (unsigned dim = 0; dim < getDims().size(); ++dim) {
    if (dim)
      printer << ",";
    printAxes(printer, getDimAxes(dim));
  }
  printer << "]";
  if (getPartial() != Partial::None) {
    printer << ", partial=" << stringifyPartial(getPartial());
    SmallVector<StringRef> axes;
    for (StringAttr axis : getPartialAxes())
      axes.push_back(axis.getValue());
    printAxes(printer, axes);
  }
  printer << ">";
}

ShardingAttr ShardingAttr::of(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<ShardingAttr>(tensor.getEncoding())
                : ShardingAttr();
}

SmallVector<StringRef> ShardingAttr::getDimAxes(unsigned dim) const {
  SmallVector<StringRef> axes;
  for (Attribute axis : getDims()[dim])
    axes.push_back(cast<StringAttr>(axis).getValue());
  return axes;
}

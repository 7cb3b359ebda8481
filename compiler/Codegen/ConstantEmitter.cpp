//===- ConstantEmitter.cpp - C structs as LLVM constants ------------------===//
#include "compiler/Codegen/ConstantEmitter.h"

#include "llvm/Support/ErrorHandling.h"

using namespace llvm;

namespace shardwright::codegen {

Constant *ConstantEmitter::structure(const Fields &fields) {
  SmallVector<Constant *> members;
  SmallVector<Type *> types;
  for (auto [offset, member] : fields.list) {
    members.push_back(member);
    types.push_back(member->getType());
  }
  auto *type = StructType::get(context, types);
  const StructLayout *layout = module.getDataLayout().getStructLayout(type);
  for (size_t i = 0; i < fields.list.size(); ++i)
    if (layout->getElementOffset(i) != fields.list[i].first)
      report_fatal_error(Twine("field ") + Twine(i) + " of " + fields.name +
                         " is not where its C header puts it");
  if (layout->getSizeInBytes() != fields.bytes)
    report_fatal_error(Twine(fields.name) + " has not the size it has in C");
  return ConstantStruct::get(type, members);
}

Constant *ConstantEmitter::array(const char *name,
                              ArrayRef<Constant *> elements) {
  if (elements.empty())
    return null();
  auto *value = ConstantArray::get(
      ArrayType::get(elements[0]->getType(), elements.size()), elements);
  return new GlobalVariable(module, value->getType(), /*isConstant=*/true,
                            GlobalValue::PrivateLinkage, value, name);
}

Constant *ConstantEmitter::text(StringRef value) {
  Constant *bytes = ConstantDataArray::getString(context, value);
  auto *global =
      new GlobalVariable(module, bytes->getType(), /*isConstant=*/true,
                         GlobalValue::PrivateLinkage, bytes, "text");
  global->setUnnamedAddr(GlobalValue::UnnamedAddr::Global);
  return global;
}

} // namespace shardwright::codegen

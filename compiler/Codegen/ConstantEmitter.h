//===- ConstantEmitter.h - C structs as LLVM constants ----------*- C++ -*-===//
#ifndef SHARDWRIGHT_COMPILER_CODEGEN_CONSTANTEMITTER_H
#define SHARDWRIGHT_COMPILER_CODEGEN_CONSTANTEMITTER_H

#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"

#include <vector>

namespace shardwright::codegen {

/// Makes constants of a module that has its data layout.
class ConstantEmitter {
public:
  explicit ConstantEmitter(llvm::Module &module)
      : module(module), context(module.getContext()) {}

protected:
  /// Fields of one C struct, in order, with the offset that C gives them.
  struct Fields {
    const char *name;
    size_t bytes;
    llvm::SmallVector<std::pair<size_t, llvm::Constant *>, 16> list = {};
  };
  /// Ends the process if a field does not lie where its C header puts it.
  llvm::Constant *structure(const Fields &fields);

  llvm::Constant *number(int32_t value) { return integer(32, value); }
  llvm::Constant *number(uint32_t value) { return integer(32, value); }
  llvm::Constant *number(int64_t value) { return integer(64, value); }
  llvm::Constant *number(double value) {
    return llvm::ConstantFP::get(llvm::Type::getDoubleTy(context), value);
  }
  llvm::Constant *integer(unsigned bits, uint64_t value) {
    return llvm::ConstantInt::get(context,
                                  llvm::APInt(bits, value, /*isSigned=*/false,
                                              /*implicitTrunc=*/true));
  }
  llvm::Constant *null() {
    return llvm::ConstantPointerNull::get(llvm::PointerType::get(context, 0));
  }
  template <typename T, size_t N>
  llvm::Constant *numbers(const T (&values)[N]) {
    llvm::SmallVector<llvm::Constant *> list;
    for (T value : values)
      list.push_back(number(value));
    return llvm::ConstantArray::get(
        llvm::ArrayType::get(list[0]->getType(), N), list);
  }

  /// Address of a constant array; null if it is empty.
  llvm::Constant *array(const char *name,
                        llvm::ArrayRef<llvm::Constant *> elements);
  template <typename T, typename Emit>
  llvm::Constant *arrayOf(const char *name, const std::vector<T> &values,
                          Emit emit) {
    llvm::SmallVector<llvm::Constant *> elements;
    for (const T &value : values)
      elements.push_back(emit(value));
    return array(name, elements);
  }
  /// Address of a text that ends in a zero byte.
  llvm::Constant *text(llvm::StringRef value);

  llvm::Module &module;
  llvm::LLVMContext &context;
};

/// An entry of ConstantEmitter's Fields.
#define SHARDWRIGHT_FIELD(type, member, value) {offsetof(type, member), value}

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_COMPILER_CODEGEN_CONSTANTEMITTER_H

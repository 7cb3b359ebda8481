//===- DeviceAsHost.cpp - Device code as code of the host -----------------===//
#include "DeviceAsHost.h"

#include "compiler/Codegen/HostTarget.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace shardwright::codegen {

void replaceDeviceIntrinsics(Module &module) {
  const std::pair<Intrinsic::ID, const char *> names[] = {
      {Intrinsic::nvvm_read_ptx_sreg_tid_x, "device_thread"},
      {Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "device_block"},
      {Intrinsic::nvvm_barrier_cta_sync_aligned_all, "device_meet"},
      {Intrinsic::nvvm_shfl_sync_bfly_f32, "device_shuffle"}};
  std::vector<Instruction *> replaced;
  for (Function &function : module) {
    function.setCallingConv(CallingConv::C);
    for (Instruction &instruction : instructions(function)) {
      IRBuilder<> b(&instruction);
      if (auto *call = dyn_cast<IntrinsicInst>(&instruction)) {
        for (auto [id, name] : names)
          if (call->getIntrinsicID() == id) {
            SmallVector<Value *> arguments(call->args());
            FunctionCallee callee = module.getOrInsertFunction(
                name, call->getFunctionType());
            cast<Function>(callee.getCallee())->setConvergent();
            call->replaceAllUsesWith(b.CreateCall(callee, arguments));
            replaced.push_back(call);
          }
      } else if (auto *narrow = dyn_cast<FPTruncInst>(&instruction);
                 narrow && narrow->getType()->isBFloatTy()) {
        // The host has no instruction for it, but our own rounding.
        narrow->replaceAllUsesWith(
            b.CreateBitCast(emitRoundToBf16(b, narrow->getOperand(0)),
                            narrow->getType()));
        replaced.push_back(narrow);
      }
    }
  }
  for (Instruction *instruction : replaced)
    instruction->eraseFromParent();
}

std::string emitDeviceEntry(Module &module, const std::string &name) {
  IRBuilder<> b(module.getContext());
  Function *callee = module.getFunction(name);
  auto *entry = Function::Create(
      FunctionType::get(b.getVoidTy(),
                        {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty()}, false),
      GlobalValue::ExternalLinkage, "run." + name, module);
  b.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
  SmallVector<Value *> arguments;
  for (auto [number, type] :
       enumerate(callee->getFunctionType()->params()))
    arguments.push_back(b.CreateLoad(
        type, b.CreateConstGEP1_64(b.getInt64Ty(), entry->getArg(0), number)));
  b.CreateCall(callee, arguments);
  b.CreateRetVoid();
  return entry->getName().str();
}

void emitCountedEntry(Module &module, const std::string &name) {
  emitDeviceEntry(module, name);
  Type *type = Type::getInt64Ty(module.getContext());
  new GlobalVariable(
      module, type, /*isConstant=*/true, GlobalValue::ExternalLinkage,
      ConstantInt::get(type, module.getFunction(name)->arg_size()),
      "parameters." + name);
}

} // namespace shardwright::codegen

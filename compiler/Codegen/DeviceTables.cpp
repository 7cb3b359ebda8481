//===- DeviceTables.cpp - The device code that a program carries ----------===//
#include "compiler/Codegen/DeviceTables.h"

#include "compiler/Codegen/ConstantEmitter.h"

using namespace llvm;

namespace shardwright::codegen {

#define FIELD(type, member, value) SHARDWRIGHT_FIELD(type, member, value)

namespace {

class DeviceTableEmitter : public ConstantEmitter {
public:
  using ConstantEmitter::ConstantEmitter;

  EmittedDeviceCode emit(const DeviceCodeTable &table) {
    EmittedDeviceCode result;
    Constant *kernels =
        arrayOf("kernels", table.kernels,
                [&](const DeviceKernel &value) { return kernel(value); });
    for (size_t i = 0; i < table.kernels.size(); ++i)
      result.kernels.push_back(ConstantExpr::getInBoundsGetElementPtr(
          ArrayType::get(Type::getInt8Ty(context), sizeof(sw_rt_kernel)),
          kernels, ConstantInt::get(Type::getInt64Ty(context), i)));
    Constant *images =
        arrayOf("images", table.images,
                [&](const DeviceImage &value) { return image(value); });
    auto count = [&](size_t size) { return number(static_cast<int32_t>(size)); };
    Constant *code = structure(
        {"sw_rt_device_code",
         sizeof(sw_rt_device_code),
         {FIELD(sw_rt_device_code, struct_bytes,
                number(uint32_t{sizeof(sw_rt_device_code)})),
          FIELD(sw_rt_device_code, num_images, count(table.images.size())),
          FIELD(sw_rt_device_code, num_kernels, count(table.kernels.size())),
          FIELD(sw_rt_device_code, num_attentions,
                count(table.attentions.size())),
          FIELD(sw_rt_device_code, images, images),
          FIELD(sw_rt_device_code, kernels, kernels),
          FIELD(sw_rt_device_code, attentions,
                arrayOf("attentions", table.attentions,
                        [&](const AttentionUse &value) {
                          return attention(value);
                        })),
          FIELD(sw_rt_device_code, update, update(table.update))}});
    result.code = new GlobalVariable(module, code->getType(),
                                     /*isConstant=*/true,
                                     GlobalValue::PrivateLinkage, code,
                                     "device_code");
    return result;
  }

private:
  Constant *step(const DeviceStep &value) {
    return structure(
        {"sw_rt_kernel_step",
         sizeof(sw_rt_kernel_step),
         {FIELD(sw_rt_kernel_step, entry, text(value.entry)),
          FIELD(sw_rt_kernel_step, grid, number(value.grid)),
          FIELD(sw_rt_kernel_step, block, number(value.block)),
          // What kernels share is static.
          FIELD(sw_rt_kernel_step, shared_bytes, number(uint32_t{0})),
          FIELD(sw_rt_kernel_step, reserved, number(uint32_t{0}))}});
  }

  Constant *kernel(const DeviceKernel &value) {
    Constant *steps =
        arrayOf("steps", value.steps,
                [&](const DeviceStep &element) { return step(element); });
    return structure(
        {"sw_rt_kernel",
         sizeof(sw_rt_kernel),
         {FIELD(sw_rt_kernel, name, text(value.name)),
          FIELD(sw_rt_kernel, num_buffers,
                number(static_cast<int32_t>(value.buffers))),
          FIELD(sw_rt_kernel, num_steps,
                number(static_cast<int32_t>(value.steps.size()))),
          FIELD(sw_rt_kernel, steps, steps),
          FIELD(sw_rt_kernel, scratch_bytes, number(value.scratchBytes))}});
  }

  Constant *image(const DeviceImage &value) {
    return structure(
        {"sw_rt_image",
         sizeof(sw_rt_image),
         {FIELD(sw_rt_image, kind, number(int32_t{SW_RT_IMAGE_PTX})),
          FIELD(sw_rt_image, capability, number(value.capability)),
          FIELD(sw_rt_image, data, text(value.ptx)),
          FIELD(sw_rt_image, bytes,
                number(static_cast<int64_t>(value.ptx.size() + 1)))}});
  }

  Constant *attention(const AttentionUse &value) {
    return structure(
        {"sw_rt_attention_use",
         sizeof(sw_rt_attention_use),
         {FIELD(sw_rt_attention_use, shape, value.shape),
          FIELD(sw_rt_attention_use, dtype, number(int32_t{value.dtype})),
          FIELD(sw_rt_attention_use, backward,
                number(int32_t{value.isBackward}))}});
  }

  Constant *update(const DeviceUpdate &value) {
    return structure(
        {"sw_rt_update_kernel",
         sizeof(sw_rt_update_kernel),
         {FIELD(sw_rt_update_kernel, entry, text(value.entry)),
          FIELD(sw_rt_update_kernel, block, number(value.block)),
          FIELD(sw_rt_update_kernel, elements_per_block,
                number(value.elementsPerBlock))}});
  }
};

} // namespace

EmittedDeviceCode emitDeviceTables(const DeviceCodeTable &table,
                                   Module &module) {
  return DeviceTableEmitter(module).emit(table);
}

} // namespace shardwright::codegen

//===- Dump.cpp - Gradients and parameters as a safetensors file ----------===//
#include "runtime/src/train/Dump.h"
#include "runtime/src/train/TensorFile.h"

namespace shardwright::runtime {

sw_rt_status dumpTensors(sw_rt_context &context, const Trainer &trainer,
                         const std::string &path) {
  const Stage &stage = trainer.getStage();
  const sw_rt_program &program = stage.program;
  const auto grad = static_cast<sw_rt_dtype>(program.grad_dtype);
  const auto param = static_cast<sw_rt_dtype>(program.param_dtype);
  const FileTensors tensors = tensorsOf(
      program, context.mesh, {{"grad:", grad}, {"param:", param}});
  Mirror gradients(*context.device, trainer.gradients(),
                   trainer.getArena().bytes(Arena::Gradients), /*read=*/true);
  Mirror parameters(*context.device, trainer.parameters(),
                    trainer.getArena().bytes(Arena::Parameters), /*read=*/true);
  for (const Mirror *mirror : {&gradients, &parameters})
    if (mirror->getStatus() != SW_RT_OK)
      return mirror->getStatus();
  return writeTensors(
      context, tensors, {}, "dump", path, [&](char *data) {
        stage.forEachParameter([&](const ParameterView &view) {
          const int64_t first = view.blockElements + view.parameter->offset;
          const auto write = [&](const char *prefix, sw_rt_dtype dtype,
                                 const char *source) {
            const int64_t width = byteWidth(dtype);
            copyToWhole(stage, view, stage.ownedRange(view), width,
                        source + first * width,
                        data + tensors.at(prefix + view.name()).offset);
          };
          write("grad:", grad, gradients.data());
          write("param:", param, parameters.data());
        });
        return SW_RT_OK;
      });
}

} // namespace shardwright::runtime

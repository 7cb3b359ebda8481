//===- HostDevice.h - The CPU and its memory --------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_HOST_HOSTDEVICE_H
#define SHARDWRIGHT_RUNTIME_BACKEND_HOST_HOSTDEVICE_H

#include "runtime/src/Context.h"

namespace shardwright::runtime {

/// Computes on the context's threads at once; collectives go over its
/// transport.
class HostDevice final : public Device {
public:
  /// `program` gives the update; may be null.
  HostDevice(sw_rt_context &context, const sw_rt_program *program)
      : context(context), program(program) {}

  const char *name() const override { return "host"; }
  bool isHost() const override { return true; }
  char *allocate(int64_t bytes, std::string &why) override;
  void release(char *memory, int64_t bytes) override;
  sw_rt_status fill(void *target, unsigned char value, int64_t bytes) override;
  sw_rt_status toDevice(void *target, const void *source,
                        int64_t bytes) override;
  sw_rt_status toHost(void *target, const void *source, int64_t bytes) override;
  sw_rt_status copyRows(const void *input, int64_t inputStride, void *output,
                        int64_t outputStride, int64_t rowBytes,
                        int64_t rows) override;
  void matmul(const MatmulCall &call) override;
  void attentionForward(const AttentionCall &call) override;
  void attentionBackward(const AttentionCall &call) override;
  void embeddingForward(const EmbeddingCall &call, const void *table,
                        void *output) override;
  void embeddingBackward(const EmbeddingCall &call, const void *gradOutput,
                         void *gradTable) override;
  sw_rt_status launch(const sw_rt_kernel &kernel,
                      void *const *arguments) override;
  sw_rt_status collective(const CollectiveCall &call) override;
  sw_rt_status sumOfSquares(sw_rt_dtype dtype,
                            const std::vector<DeviceRange> &ranges,
                            double &sum) override;
  sw_rt_status update(const UpdateCall &call) override;
  sw_rt_status wait() override { return context.status; }

private:
  sw_rt_context &context;
  const sw_rt_program *program;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_HOST_HOSTDEVICE_H

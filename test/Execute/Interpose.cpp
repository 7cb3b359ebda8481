//===- Interpose.cpp - Faults in a compiled program -----------------------===//
//
// Linked between a compiled program and the runtime (the linker's --wrap), so
// that tests can break one call of a real run. SHARDWRIGHT_TEST_FAULT is one of
//
//   skip CALL PHASE AXES STAGE NUMBER    that call does nothing
//   twice CALL PHASE AXES STAGE NUMBER   that call is made twice
//   stall RANK SECONDS                   the rank sleeps before its 20th matmul
//   kill RANK                            the rank's process is killed there
//
// CALL, PHASE and AXES are spelled as in a ledger; NUMBER counts a rank's calls
// of that spelling over the run; STAGE -1 means every stage.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/Context.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

using namespace shardwright::runtime;

namespace {

struct Fault {
  std::string how, call, phase, axes;
  int64_t stage = -1, number = 0, rank = -1;
  double seconds = 0;
};

const Fault &fault() {
  static const Fault value = [] {
    Fault fault;
    const char *text = std::getenv("SHARDWRIGHT_TEST_FAULT");
    std::istringstream words(text ? text : "");
    words >> fault.how;
    if (fault.how == "stall" || fault.how == "kill")
      words >> fault.rank >> fault.seconds;
    else
      words >> fault.call >> fault.phase >> fault.axes >> fault.stage >>
          fault.number;
    return fault;
  }();
  return value;
}

/// How often to make this call: once, but for the one that is meant.
int times(const sw_rt_context &context, Call call, const std::string &axes) {
  const Fault &meant = fault();
  if (meant.call != name(call) || meant.phase != name(context.phase) ||
      meant.axes != axes)
    return 1;
  thread_local int64_t calls = 0; // a rank is a thread or a process
  const int64_t number = calls++;
  uint32_t pipeline = 0;
  for (size_t i = 0; i < context.mesh.getAxes().size(); ++i)
    if (context.mesh.getAxes()[i].name == "pp")
      pipeline = uint32_t(1) << i;
  if (meant.stage >= 0 &&
      context.mesh.coordinate(context.rank(), pipeline) != meant.stage)
    return 1;
  if (number != meant.number)
    return 1;
  return meant.how == "skip" ? 0 : 2;
}

template <typename Function> sw_rt_status repeat(int count, Function call) {
  sw_rt_status status = SW_RT_OK;
  for (int i = 0; i < count && status == SW_RT_OK; ++i)
    status = call();
  return status;
}

} // namespace

// C++ functions, through which the device of the host makes these calls, whoever
// asks for them: the compiled program or the training loop.
using Reduction = sw_rt_status(sw_rt_context &, Group &, sw_rt_dtype, sw_rt_op,
                               const void *, void *, int64_t);
#define MANGLED(name)                                                          \
  "_ZN11shardwright7runtime" name                                              \
  "ER13sw_rt_contextRNS0_5GroupE11sw_rt_dtype8"                                \
  "sw_rt_opPKvPvl"
Reduction realAllReduce asm("__real_" MANGLED("9allReduce"));
Reduction wrapAllReduce asm("__wrap_" MANGLED("9allReduce"));
Reduction realReduceScatter asm("__real_" MANGLED("13reduceScatter"));
Reduction wrapReduceScatter asm("__wrap_" MANGLED("13reduceScatter"));

sw_rt_status wrapAllReduce(sw_rt_context &context, Group &group,
                           sw_rt_dtype dtype, sw_rt_op op, const void *input,
                           void *output, int64_t count) {
  // All calls of the training loop are in place: a second one sums the sums.
  return repeat(times(context, Call::AllReduce, group.axesName), [&] {
    return realAllReduce(context, group, dtype, op, input, output, count);
  });
}

sw_rt_status wrapReduceScatter(sw_rt_context &context, Group &group,
                               sw_rt_dtype dtype, sw_rt_op op,
                               const void *input, void *output,
                               int64_t count) {
  return repeat(times(context, Call::ReduceScatter, group.axesName), [&] {
    return realReduceScatter(context, group, dtype, op, input, output, count);
  });
}

extern "C" {

sw_rt_status __real_sw_rt_all_gather(sw_rt_context *, uint32_t, sw_rt_dtype,
                                     const void *, void *, int64_t);
sw_rt_status __wrap_sw_rt_all_gather(sw_rt_context *context, uint32_t axes,
                                     sw_rt_dtype dtype, const void *input,
                                     void *output, int64_t count) {
  return repeat(
      times(*context, Call::AllGather, context->group(axes).axesName), [&] {
        return __real_sw_rt_all_gather(context, axes, dtype, input, output,
                                       count);
      });
}

void __real_sw_rt_matmul(sw_rt_context *, sw_rt_dtype, sw_rt_dtype, int32_t,
                         int32_t, int64_t, int64_t, int64_t, const void *,
                         const void *, void *, int32_t);
void __wrap_sw_rt_matmul(sw_rt_context *context, sw_rt_dtype dtype,
                         sw_rt_dtype cDtype, int32_t transposeA,
                         int32_t transposeB, int64_t m, int64_t n, int64_t k,
                         const void *a, const void *b, void *c,
                         int32_t accumulate) {
  thread_local int64_t calls = 0;
  if (++calls == 20 && fault().rank == context->rank()) {
    if (fault().how == "kill")
      std::raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::duration<double>(fault().seconds));
  }
  __real_sw_rt_matmul(context, dtype, cDtype, transposeA, transposeB, m, n, k,
                      a, b, c, accumulate);
}

} // extern "C"

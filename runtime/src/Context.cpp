//===- Context.cpp - Everything that one rank holds -----------------------===//
#include "runtime/src/Context.h"
#include "runtime/src/backend/host/HostDevice.h"

using namespace shardwright::runtime;

namespace shardwright::runtime {

int64_t byteWidth(sw_rt_dtype dtype) {
  switch (dtype) {
  case SW_RT_F64:
    return 8;
  case SW_RT_F32:
  case SW_RT_I32:
    return 4;
  case SW_RT_BF16:
  case SW_RT_F16:
    return 2;
  }
  return 0;
}

const char *name(sw_rt_dtype dtype) {
  switch (dtype) {
  case SW_RT_F64:
    return "f64";
  case SW_RT_F32:
    return "f32";
  case SW_RT_BF16:
    return "bf16";
  case SW_RT_F16:
    return "f16";
  case SW_RT_I32:
    return "i32";
  }
  return "unknown dtype";
}

const char *name(sw_rt_phase phase) {
  switch (phase) {
  case SW_RT_FORWARD:
    return "forward";
  case SW_RT_DATA_GRAD:
    return "data_grad";
  case SW_RT_WEIGHT_GRAD:
    return "weight_grad";
  case SW_RT_REDUCE:
    return "reduce";
  case SW_RT_UPDATE:
    return "update";
  case SW_RT_PHASES:
    break;
  }
  return "unknown phase";
}

} // namespace shardwright::runtime

sw_rt_context::sw_rt_context(Mesh mesh, std::unique_ptr<Transport> transport,
                             double timeoutSeconds)
    : mesh(std::move(mesh)), transport(std::move(transport)),
      device(std::make_unique<HostDevice>(*this, nullptr)),
      timeoutSeconds(timeoutSeconds) {}

sw_rt_context::~sw_rt_context() = default;

Group &sw_rt_context::group(uint32_t axes, uint32_t owners) {
  auto [it, isNew] = groups.try_emplace({axes, owners});
  Group &group = it->second;
  if (!isNew)
    return group;
  group.axes = axes;
  group.owners = owners;
  for (int member : mesh.members(rank(), axes)) {
    if (owners && !(owners >> mesh.coordinate(member, axes) & 1))
      continue;
    if (member == rank())
      group.me = static_cast<int>(group.members.size());
    group.members.push_back(member);
  }
  group.axesName = mesh.name(axes);
  return group;
}

sw_rt_status sw_rt_context::fail(sw_rt_status failure,
                                 const std::string &message) {
  if (status != SW_RT_OK)
    return SW_RT_ABORTED;
  const bool first = transport->poison(message) || transport->foundLoss();
  status = first ? failure : SW_RT_ABORTED;
  error = first ? message : transport->poisonMessage();
  transport->settle();
  return status;
}

sw_rt_status sw_rt_context::failPoisoned(const std::string &awaited) {
  const std::string reason = transport->poisonMessage();
  if (!transport->foundLoss())
    return fail(SW_RT_ABORTED, reason);
  return fail(SW_RT_TIMEOUT, reason + ", while rank " + std::to_string(rank()) +
                               " waited for " + awaited);
}

void sw_rt_context::book(Call call, const std::string &axes,
                         int64_t payloadBytes) {
  ledger.add(call, axes, phase, payloadBytes);
}

extern "C" {

uint32_t sw_rt_abi_version(void) { return SW_RT_ABI_VERSION; }

const char *sw_rt_context_last_error(const sw_rt_context *context) {
  return context->error.c_str();
}

int64_t sw_rt_coordinate(const sw_rt_context *context, uint32_t axes) {
  return context->mesh.coordinate(context->rank(), axes);
}

} // extern "C"

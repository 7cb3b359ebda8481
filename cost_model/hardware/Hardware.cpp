//===- Hardware.cpp - A cluster as an immutable value ---------------------===//
#include "cost_model/hardware/Hardware.h"

#include "cost_model/hardware/ShippedData.h"

#include <algorithm>

namespace shardwright::cost {

std::string_view name(AttentionVariant variant) {
  switch (variant) {
  case AttentionVariant::Unfused:
    return "unfused";
  case AttentionVariant::Flash1:
    return "flash1";
  case AttentionVariant::Flash2:
    return "flash2";
  case AttentionVariant::Flash3:
    return "flash3";
  case AttentionVariant::Host:
    return "host";
  }
  return "";
}

bool resized(const Hardware &hardware, int64_t ranks, Hardware &result,
             Failure &failure) {
  const int64_t perNode = hardware.ranksPerNode();
  if (ranks < 1 || (ranks > perNode && ranks % perNode != 0))
    return refuse(failure, Diag::device_count,
                  "expected number of devices to be at most " +
                      std::to_string(perNode) +
                      " or a multiple of it (cluster '" + hardware.name +
                      "' has nodes of " + std::to_string(perNode) +
                      "), but got " + std::to_string(ranks) +
                      (ranks > perNode
                           ? ", which leave " + std::to_string(ranks % perNode) +
                                 " on a smaller node: nodes have to be alike; "
                                 "nearest: " +
                                 std::to_string(ranks / perNode * perNode) +
                                 ", " +
                                 std::to_string(ceilDiv(ranks, perNode) * perNode)
                           : ""));
  result = hardware;
  result.nodes = ceilDiv(ranks, perNode);
  if (ranks < perNode)
    result.levels.front().size = ranks;
  return true;
}

const char *shippedHardware(std::string_view name) {
  for (const ShippedText &shipped : shippedHardwareTexts())
    if (shipped.name == name)
      return shipped.text;
  return nullptr;
}

std::vector<std::string> shippedHardwareNames() {
  std::vector<std::string> names;
  for (const ShippedText &shipped : shippedHardwareTexts())
    names.emplace_back(shipped.name);
  std::sort(names.begin(), names.end()); // files sort '-' before '.'
  return names;
}

} // namespace shardwright::cost

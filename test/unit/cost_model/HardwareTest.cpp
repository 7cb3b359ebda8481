#include "cost_model/hardware/Hardware.h"
#include "cost_model/hardware/Profile.h"
#include "Shipped.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// The text of a shipped cluster with one piece of it replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text = shippedHardware("dgx-a100");
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string &text) {
  Hardware hardware;
  Failure failure;
  REQUIRE_FALSE(readHardware(text, "c.json", hardware, failure));
  REQUIRE(failure.kind == FailureKind::Input);
  REQUIRE_FALSE(failure.messages.empty());
  return failure.messages.front().text;
}

} // namespace

TEST_CASE("every shipped cluster is read and has nodes of whole sizes") {
  CHECK(shippedHardwareNames() ==
        std::vector<std::string>{"dgx-a100", "dgx-a100-40gb", "dgx-b200",
                                 "dgx-b300", "dgx-h100", "dgx-h200",
                                 "gb200-nvl72", "gb300-nvl72", "hgx-a800",
                                 "hgx-h800", "host", "rtx-pro-6000"});
  for (const std::string &name : shippedHardwareNames()) {
    const Hardware hardware = shipped(name);
    CHECK(hardware.name == name);
    CHECK(hardware.ranksPerNode() >= 1);
    CHECK(hardware.device.usable <= hardware.device.capacity);
    CHECK(hardware.device.peakOf(DType::F32).count() > 0);
  }
  CHECK(shippedHardware("dgx-2") == nullptr);
}

TEST_CASE("every shipped profile is read") {
  for (const std::string &name : shippedProfileNames()) {
    Profile profile;
    Failure failure;
    const bool read = readProfile(shippedProfile(name), name, profile, failure);
    for (const std::string &message : failure.messages)
      UNSCOPED_INFO(message);
    CHECK(read);
    CHECK(profile.name == name);
    CHECK_FALSE(profile.attention.empty());
  }
  CHECK(shippedProfile("native") != nullptr);
  CHECK(shippedProfile("nativ") == nullptr);
}

TEST_CASE("figures of the A100 cluster are those of its datasheet") {
  const Hardware hardware = shipped("dgx-a100");
  CHECK(hardware.ranksPerNode() == 8);
  CHECK(hardware.device.peakOf(DType::BF16).count() == 312e12);
  CHECK(hardware.device.memoryBandwidth.count() == 2.039e12);
  CHECK(hardware.levels[1].nics == 8);
  CHECK(hardware.levels[1].bandwidth.count() == 25e9);
}

TEST_CASE("a cluster is asked for whole nodes or part of one") {
  const Hardware one = shipped("dgx-h100");
  Hardware sized;
  Failure failure;
  REQUIRE(resized(one, 64, sized, failure));
  CHECK(sized.nodes == 8);
  CHECK(sized.ranks() == 64);
  REQUIRE(resized(one, 3, sized, failure));
  CHECK(sized.nodes == 1);
  CHECK(sized.ranks() == 3);
  CHECK_FALSE(resized(one, 12, sized, failure));
  CHECK(failure.kind == FailureKind::Usage);
  CHECK_FALSE(resized(one, 0, sized, failure));
}

TEST_CASE("unknown, missing and duplicate keys of a cluster are errors") {
  CHECK(refusal(edited("\"nodes\": 1,", "\"nodes\": 1, \"racks\": 2,")) ==
        "c.json#/racks: unknown key");
  CHECK(refusal(edited("\"nodes\": 1,", "")) ==
        "c.json#/nodes: expected a value, but the key is missing");
  CHECK(refusal(edited("\"nodes\": 1,", "\"nodes\": 1, \"nodes\": 2,")) ==
        "c.json#/nodes: expected every key once, but got it twice");
  CHECK(refusal(edited("\"nodes\": 1,", "\"nodes\": -1,")) ==
        "c.json#/nodes: expected an integer >= 1, but got -1");
  CHECK(refusal(edited("shardwright.cluster/1", "shardwright.cluster/9")) ==
        "c.json#/schema: expected 'shardwright.cluster/1', but got "
        "'shardwright.cluster/9'");
  CHECK(refusal("{").find("not JSON") != std::string::npos);
  CHECK(refusal("[]").find("expected an object") != std::string::npos);
}

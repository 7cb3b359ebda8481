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

TEST_CASE("figures in the unit of a data sheet are refused with what was meant") {
  CHECK(refusal(edited("\"bytes_per_second\": 2039000000000.0",
                       "\"bytes_per_second\": 2039")) ==
        "c.json#/device/memory/bytes_per_second: expected bytes a second from "
        "1e+07 to 1e+15, but got 2039, which would be 2.039e+12 if it were "
        "GB/s");
  CHECK(refusal(edited("\"capacity_bytes\": 85899345920",
                       "\"capacity_bytes\": 80")) ==
        "c.json#/device/memory/capacity_bytes: expected bytes from 1e+06 to "
        "1e+15, but got 80, which would be 8e+10 if it were GB");
  CHECK(refusal(edited("\"bf16\": 312000000000000.0", "\"bf16\": 312")) ==
        "c.json#/device/peak_flops_per_second/bf16: expected 0 or FLOP a second "
        "from 1e+09 to 1e+18, but got 312, which would be 3.12e+14 if it were "
        "TFLOP/s");
  CHECK(refusal(edited("\"latency_seconds\": 3.3e-06",
                       "\"latency_seconds\": 3.3")) ==
        "c.json#/levels/0/latency_seconds: expected seconds from 0 to 0.1, but "
        "got 3.3, which would be 3.3e-06 if it were microseconds");
  CHECK(refusal(edited("\"ramp_bytes\": 16000000.0", "\"ramp_bytes\": 16")) ==
        "c.json#/collectives/ramp_bytes: expected 0 or bytes from 1000 to "
        "1e+12, but got 16, which would be 1.6e+07 if it were MB");
  CHECK(refusal(edited("\"capacity_bytes\": 85899345920",
                       "\"capacity_bytes\": 85899345920.5")) ==
        "c.json#/device/memory/capacity_bytes: expected whole bytes, but got "
        "85899345920.5");
}

TEST_CASE("every rate, size and latency of a cluster file has its plausible ends") {
  // One figure at a time in another unit: none passes.
  for (const std::string &name : shippedHardwareNames()) {
    const std::string text = shippedHardware(name);
    for (const char *ending : {"bytes_per_second\": ", "_bytes\": ", "seconds\": "})
      for (size_t at = text.find(ending); at != std::string::npos;
           at = text.find(ending, at + 1)) {
        const size_t begin = at + std::string_view(ending).size();
        const size_t end = text.find_first_of(",\n", begin);
        const double figure = std::stod(text.substr(begin, end - begin));
        if (figure == 0)
          continue;
        std::string other = text;
        other.replace(begin, end - begin,
                      std::to_string(figure < 1 ? figure * 1e6 : figure / 1e9));
        INFO(name << ": " << text.substr(begin - 40, 60));
        Hardware hardware;
        Failure failure;
        CHECK_FALSE(readHardware(other, name, hardware, failure));
        CHECK(failure.messages.size() == 1);
        CHECK(failure.messages.front().id == Diag::wrong_unit);
      }
  }
}

TEST_CASE("rings are not faster than the links under them") {
  CHECK(refusal(edited("\"bytes_per_second\": 300000000000.0",
                       "\"bytes_per_second\": 32000000000.0")) ==
        "c.json#/levels/0/bytes_per_second: expected at least ring_channels * "
        "channel_bytes_per_second of /collectives (240.0 GB/s), by which "
        "reductions and gathers inside a node are priced, but got 32.00 GB/s");
}

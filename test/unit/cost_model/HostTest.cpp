//===- HostTest.cpp - What a device waits for its host --------------------===//
//
// Against two clocks: a host that issues pieces of work one after the other,
// and a device that runs them in that order, no piece before it is issued.
//
//===----------------------------------------------------------------------===//
#include "Shipped.h"
#include "cost_model/estimate/LayerTimes.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// Work that takes so long to issue and to run, evenly.
struct Block {
  double issue, device;
};

class TwoClocks {
public:
  double now() const { return device; }
  void wait() { host = std::max(host, device); }
  void run(const Block &block) {
    constexpr int pieces = 200;
    for (int i = 0; i < pieces; ++i) {
      host += block.issue / pieces;
      device = std::max(device, host) + block.device / pieces;
    }
  }

private:
  double host = 0, device = 0;
};

std::mt19937 random(7);
double any(double most) {
  return std::uniform_real_distribution<double>(0, most)(random);
}

} // namespace

TEST_CASE("a layer of experts waits for the counts of their rows") {
  Kind experts;
  experts.name = "experts";
  Parameter weights;
  weights.segment = Segment::Experts;
  experts.parameters.push_back(weights);
  Kind dense;
  dense.name = "dense";
  const Hardware hardware = shipped("dgx-h100");
  const Plan plan;
  for (int round = 0; round < 300; ++round) {
    Profile profile = profileOf("megatron-core");
    REQUIRE(profile.waitsForRows);
    profile.launch = Seconds(1e-3);
    const double launch = profile.launch.count();
    const Block rows{any(2), any(2)}, rest{any(2), any(2)};
    VariantTime time;
    time.forward.compute = Seconds(rows.device + rest.device);
    time.forward.issued = (rows.issue + rest.issue) / launch;
    time.forward.behindCounts = Seconds(rows.device);
    time.forward.issuedBehindCounts = rows.issue / launch;
    time.dataGrad.compute = Seconds(any(8));
    time.dataGrad.issued = any(8) / launch;
    const auto layerOf = [&](const Kind &kind, Recompute policy) {
      return profileLayer(plan, kind, policy, time, time, hardware, profile);
    };
    const auto allOf = [&](const Kind &kind, Recompute policy) {
      const LayerProfile layer = layerOf(kind, policy);
      return (layer.dataGradAll() + layer.weightGrad).count();
    };
    TwoClocks clocks; // layer after layer, from counts to counts
    constexpr int layers = 10;
    for (int i = 0; i < layers; ++i) {
      clocks.wait();
      clocks.run(rows);
      clocks.run(rest);
    }
    CHECK(layerOf(experts, Recompute::None).forwardAll().count() ==
          Approx(launch + clocks.now() / layers).epsilon(0.02));
    // The backward pass has the counts, unless it routes again.
    CHECK(allOf(experts, Recompute::None) ==
          Approx(std::max(time.dataGrad.compute.count(),
                          time.dataGrad.issued * launch)));
    CHECK(allOf(experts, Recompute::Full) >=
          Approx(allOf(dense, Recompute::Full) + launch).epsilon(1e-9));

    const double without =
        std::max(rows.issue + rest.issue, rows.device + rest.device);
    CHECK(layerOf(dense, Recompute::None).forwardAll().count() ==
          Approx(without));
    profile.graphs = GraphCapture::Whole;
    CHECK(layerOf(experts, Recompute::None).forwardAll().count() ==
          Approx(without));
    profile.graphs = GraphCapture::None;
    profile.waitsForRows = false;
    CHECK(layerOf(experts, Recompute::None).forwardAll().count() ==
          Approx(without));
  }
}

#include "cost_model/hardware/Collective.h"
#include "Shipped.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

/// Microseconds of a collective of nccl-tests size `bytes`.
double microseconds(const Hardware &hardware, Collective collective,
                    int64_t bytes, int64_t ranks, int64_t nodes = 1) {
  const int64_t payload =
      collective == Collective::AllGather ? bytes / ranks : bytes;
  return collectiveTime(hardware, collective, Bytes(payload),
                        Placement{ranks, ranks / nodes, nodes, 1})
             .count() *
         1e6;
}

} // namespace

TEST_CASE("groups are placed by stride") {
  CHECK(placeGroup(8, 1, 8) == Placement{8, 8, 1, 1, 8});
  CHECK(placeGroup(4, 8, 8) == Placement{4, 1, 4, 8, 8});
  CHECK(placeGroup(16, 2, 8) == Placement{16, 4, 4, 2, 8});
  CHECK(placeGroup(2, 4, 8) == Placement{2, 2, 1, 1, 8});
  CHECK(placeGroup(2, 2, 8) == Placement{2, 2, 1, 1, 4});
  CHECK(placeGroup(16, 1, 8) == Placement{16, 8, 2, 1, 8});
  CHECK(placeGroup(1, 64, 8).ranks == 1);
}

TEST_CASE("nothing to do takes no time") {
  const Hardware hardware = shipped("dgx-a100");
  CHECK(collectiveTime(hardware, Collective::AllReduce, Bytes(1000),
                       Placement{1, 1, 1, 1}) == Seconds(0));
  CHECK(collectiveTime(hardware, Collective::AllReduce, Bytes(0),
                       Placement{8, 8, 1, 1}) == Seconds(0));
  CHECK(collectiveTime(hardware, Collective::Slice, Bytes(1000),
                       Placement{8, 8, 1, 1}) == Seconds(0));
  CHECK(transferTime(hardware, Bytes(0), 8, 2) == Seconds(0));
}

TEST_CASE("a large ring all-reduce on one A100 node, by hand") {
  // 12 channels of 20 GB/s: 240 GB/s bus. 2 * 7 / 8 * 2^30 B = 1.879 GB on the
  // wire: 7.829 ms; ring latency 8.4 + 14 * 3.4 = 56 us. Both over the fraction
  // 0.90 that is reached, the ramp of 16 MB at most (0.117 ms * 2^30 / (2^30 +
  // 16e6)), the floor of 6 us.
  const Hardware hardware = shipped("dgx-a100");
  const CollectiveTime priced = priceCollective(
      hardware, Collective::AllReduce, Bytes(1 << 30), Placement{8, 8, 1, 1});
  CHECK(priced.algorithm == Algorithm::Ring);
  CHECK(priced.protocol == Protocol::Simple);
  const double wire = 1.75 * (1 << 30) / 240e9;
  const double ramp = wire * 16e6 / ((1 << 30) + 16e6);
  CHECK(priced.time.count() ==
        Approx((wire + 56e-6) / 0.90 + ramp + 6e-6).epsilon(1e-9));
}

TEST_CASE("a box of PCIe alone: its ring, its switches, no LL128") {
  const Hardware hardware = shipped("rtx-pro-6000");
  // NCCL's latencies of PCIe, by hand: 2 * 7 hops of 1 us beside the base 6.6,
  // and a floor of 1 us; 1 KiB at half of the ring's 24.6 GB/s.
  const CollectiveTime small = priceCollective(
      hardware, Collective::AllReduce, Bytes(1024), placeGroup(8, 1, 8));
  CHECK(small.protocol == Protocol::Ll);
  CHECK(small.time.count() ==
        Approx(21.6e-6 + 1.75 * 1024 / 12.3e9).epsilon(0.02));
  for (int64_t bytes = 1024; bytes <= int64_t(1) << 30; bytes *= 2)
    for (int64_t ranks : {2, 4, 8})
      for (Collective collective :
           {Collective::AllReduce, Collective::AllGather,
            Collective::ReduceScatter})
        CHECK(priceCollective(hardware, collective, Bytes(bytes),
                              placeGroup(ranks, 1, 8))
                  .protocol != Protocol::Ll128);
  // Neighbours behind a switch have a faster ring than two that are not, and
  // those the one of all eight.
  const auto rate = [&](int64_t ranks, int64_t stride) {
    const Seconds time =
        collectiveTime(hardware, Collective::AllReduce, Bytes(1 << 30),
                       placeGroup(ranks, stride, 8));
    return wireBytes(Collective::AllReduce, Bytes(1 << 30), ranks) /
           time.count() / 1e9;
  };
  CHECK(rate(2, 1) == Approx(38).epsilon(0.02));
  CHECK(rate(2, 4) == Approx(24.6).epsilon(0.02));
  CHECK(rate(8, 1) == Approx(24.6).epsilon(0.02));
}

TEST_CASE("small messages take a low-latency protocol, large ones NVLS") {
  const Hardware hardware = shipped("dgx-h100");
  const Placement node{8, 8, 1, 1};
  CHECK(priceCollective(hardware, Collective::AllReduce, Bytes(1024), node)
            .protocol == Protocol::Ll);
  CHECK(priceCollective(hardware, Collective::AllReduce, Bytes(1 << 28), node)
            .algorithm == Algorithm::Nvls);
  const Placement nodes{64, 8, 8, 1};
  CHECK(priceCollective(hardware, Collective::AllReduce, Bytes(1024), nodes)
            .algorithm == Algorithm::Tree);
  CHECK(priceCollective(hardware, Collective::AllReduce, Bytes(1 << 28), nodes)
            .algorithm == Algorithm::NvlsTree);
}

TEST_CASE("a forced algorithm is the one priced, or none") {
  const Placement node{8, 8, 1, 1};
  const auto forced = [&](const char *cluster, Bytes bytes, Algorithm only) {
    return priceCollective(shipped(cluster), Collective::AllReduce, bytes, node,
                           only);
  };
  const CollectiveTime nvls = forced("dgx-h100", Bytes(1024), Algorithm::Nvls);
  CHECK(nvls.algorithm == Algorithm::Nvls);
  // Its latency of 25 us is why NCCL does not choose it for small messages.
  CHECK(nvls.time > Seconds(25e-6));
  CHECK(nvls.time > collectiveTime(shipped("dgx-h100"), Collective::AllReduce,
                                   Bytes(1024), node));
  CHECK(forced("dgx-h100", Bytes(1 << 28), Algorithm::Ring).algorithm ==
        Algorithm::Ring);
  // A100 has no NVLS.
  const CollectiveTime none = forced("dgx-a100", Bytes(1024), Algorithm::Nvls);
  CHECK(none.algorithm == Algorithm::None);
  CHECK(none.time == Seconds(0));
}

TEST_CASE("more bytes, or more groups on the NICs, are never faster") {
  for (const std::string &name : shippedHardwareNames()) {
    const Hardware hardware = shipped(name);
    for (const Placement &at :
         {Placement{2, 2, 1, 1}, Placement{8, 8, 1, 1}, Placement{16, 8, 2, 1},
          Placement{8, 1, 8, 8}, Placement{64, 4, 16, 2}}) {
      if (hardware.levels.size() < 2 && at.nodes > 1)
        continue;
      for (Collective collective :
           {Collective::AllReduce, Collective::AllGather,
            Collective::ReduceScatter}) {
        Seconds before(0);
        for (int64_t bytes = 256; bytes < (int64_t(1) << 33);
             bytes += bytes / 3) {
          const Seconds now =
              collectiveTime(hardware, collective, Bytes(bytes), at);
          INFO(name << " " << at.ranks << " " << bytes);
          REQUIRE(now >= before);
          before = now;
          Placement crowded = at;
          crowded.sharing *= 2;
          REQUIRE(collectiveTime(hardware, collective, Bytes(bytes), crowded) >=
                  now);
        }
      }
    }
  }
}

// Measured rows, microseconds: stas00/ml-engineering network/README.md commit
// 744d01e and ai-dynamo/aiconfigurator commit 095f58a (A100, one node);
// NVIDIA/dgxc-benchmarking commit 841f546 nccl/README.md (H100, one node);
// oracle-quickstart/oci-hpc-oke commit 61d210a (16 A100 on two nodes).
TEST_CASE("measured collectives are met") {
  const Hardware a100 = shipped("dgx-a100"), h100 = shipped("dgx-h100");
  const auto within = [](double model, double measured, double share) {
    CHECK(model == Approx(measured).epsilon(share));
  };
  within(microseconds(a100, Collective::AllReduce, 1 << 25, 8), 404.4, 0.15);
  within(microseconds(a100, Collective::AllReduce, 1 << 26, 8), 637.7, 0.15);
  within(microseconds(a100, Collective::AllReduce, 1 << 28, 8), 2256.5, 0.15);
  within(microseconds(a100, Collective::AllReduce, 1 << 30, 8), 8203.9, 0.15);
  within(microseconds(a100, Collective::ReduceScatter, 1 << 26, 4), 303.3,
         0.15);
  within(microseconds(h100, Collective::AllReduce, 1 << 26, 8), 324.7, 0.15);
  within(microseconds(h100, Collective::AllReduce, 1 << 28, 8), 1112.5, 0.15);
  within(microseconds(h100, Collective::AllReduce, 1 << 30, 8), 4029.4, 0.15);
  within(microseconds(a100, Collective::AllReduce, int64_t(1) << 32, 16, 2),
         42747.7, 0.15);
}

TEST_CASE("transfers between nodes share the NICs of a node") {
  const Hardware hardware = shipped("dgx-a100");
  // 8 ranks send at once over 8 NICs of 25 GB/s at 0.96: 24 GB/s each.
  CHECK(transferTime(hardware, Bytes(24'000'000), 8, 2).count() ==
        Approx(22e-6 + 1e-3));
  // Stages of 4 ranks, 4 of them: the second border leaves the node.
  CHECK(transferTime(hardware, Bytes(24'000'000), 4, 4).count() ==
        Approx(22e-6 + 1e-3));
  // Two of them stay inside: NVLink, 300 GB/s at 0.91.
  CHECK(transferTime(hardware, Bytes(273'000'000), 4, 2).count() ==
        Approx(6e-6 + 1e-3));
  CHECK(transferTime(hardware, Bytes(1000), 8, 1) == Seconds(0));
}

TEST_CASE("wire bytes of a ring") {
  CHECK(wireBytes(Collective::AllReduce, Bytes(800), 8) == 1400);
  CHECK(wireBytes(Collective::ReduceScatter, Bytes(800), 8) == 700);
  CHECK(wireBytes(Collective::AllGather, Bytes(100), 8) == 700);
}

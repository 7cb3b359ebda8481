#include "cost_model/estimate/Evidence.h"
#include "cost_model/hardware/Hardware.h"
#include "cost_model/hardware/Profile.h"

#include <catch2/catch.hpp>

using namespace shardwright::cost;

TEST_CASE("an interval holds its prediction and widens without evidence") {
  for (RunFamily family : {RunFamily::Dense16, RunFamily::Dense8, RunFamily::Experts}) {
    const TimeInterval far =
        intervalOf(Seconds(10), "nowhere", "native", family);
    CHECK(far.extrapolating);
    CHECK(far.low.count() < 10);
    CHECK(far.high.count() > 10);
  }
  const TimeInterval near =
      intervalOf(Seconds(10), "dgx-a100", "megatron-2022", RunFamily::Dense16);
  CHECK_FALSE(near.extrapolating);
  const TimeInterval far =
      intervalOf(Seconds(10), "dgx-a100", "native", RunFamily::Dense16);
  CHECK(far.extrapolating);
  CHECK(far.low < near.low);
  CHECK(near.high < far.high);
}

TEST_CASE("cells with evidence are of shipped clusters and profiles") {
  int64_t cells = 0;
  for (const std::string &cluster : shippedHardwareNames())
    for (const std::string &profile : shippedProfileNames())
      for (RunFamily family : {RunFamily::Dense16, RunFamily::Dense8, RunFamily::Experts})
        cells += hasEvidence(cluster, profile, family);
  CHECK(cells == evidenceCells());
  CHECK_FALSE(hasEvidence("host", "native", RunFamily::Dense16));
}

TEST_CASE("plans tie more widely where nothing was measured") {
  const double near =
      tiedWithin("dgx-a100", "megatron-2022", RunFamily::Dense16);
  const double far = tiedWithin("host", "native", RunFamily::Dense16);
  CHECK(near > 1);
  CHECK(near < 1.25);
  CHECK(far == Approx(near * near));
}

//===- CalibrateTest.cpp - Figures come back from the runs they made ------===//
#include "cost_model/validation/Calibrate.h"
#include "cost_model/hardware/Hardware.h"
#include "cost_model/validation/Measured.h"
#include "Shipped.h"

#include <catch2/catch.hpp>

#include <sstream>

using namespace shardwright::cost;
using namespace shardwright::test;

namespace {

using Compare = bool (*)(std::string_view, std::string_view, MeasuredReport &,
                         Failure &, const Hardware *);

/// `lines`, rows but for their closing time, timed as `machine` is predicted.
std::string timed(const std::vector<std::string> &lines, const char *time,
                  Compare compare, const Hardware &machine,
                  double unit = 1e6) {
  std::string asked, text;
  for (const std::string &line : lines)
    asked += line + ", \"" + time + "\": 1}\n";
  MeasuredReport report;
  Failure failure;
  REQUIRE(compare(asked, "asked", report, failure, &machine));
  REQUIRE(report.rows.size() == lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    REQUIRE(report.rows[i].unsupported.empty());
    std::ostringstream seconds;
    seconds.precision(17);
    seconds << report.rows[i].predictedSeconds * unit;
    text += lines[i] + ", \"" + time + "\": " + seconds.str() + "}\n";
  }
  return text;
}

std::vector<std::string> kernels(const std::string &gpu,
                                 const std::vector<std::string> &types) {
  std::vector<std::string> lines;
  const std::string head = "{\"gpu\": \"" + gpu + "\", \"kernel\": ";
  for (int m : {2048, 4096, 8192})
    for (int n : {2048, 4096, 6144})
      for (const std::string &type : types)
        lines.push_back(head + "\"gemm\", \"dtype\": \"" + type +
                        "\", \"shape\": {\"m\": " + std::to_string(m) +
                        ", \"n\": " + std::to_string(n) + ", \"k\": 4096}");
  for (const char *kernel : {"attention_3_fwd", "attention_3_bwd", "attention_3_fwd_bwd"})
    for (int sequence : {1024, 2048, 4096, 8192, 16384})
      lines.push_back(head + "\"" + kernel +
                      "\", \"dtype\": \"bf16\", \"shape\": {\"seq\": " +
                      std::to_string(sequence) +
                      ", \"head_dim\": 128, \"causal\": true}");
  return lines;
}

std::vector<std::string> collectives(const std::string &gpu) {
  std::vector<std::string> lines;
  for (const char *name : {"all_reduce", "all_gather", "alltoall"})
    for (int nodes : {1, 4})
      for (int64_t bytes = 1 << 16; bytes <= 1 << 30; bytes *= 8)
        lines.push_back("{\"gpu\": \"" + gpu + "\", \"collective\": \"" +
                        std::string(name) + "\", \"gpus\": " +
                        std::to_string(8 * nodes) + ", \"nodes\": " +
                        std::to_string(nodes) + ", \"bytes\": " +
                        std::to_string(bytes));
  return lines;
}

CalibrationInput inputOf(const std::string &kernelRows,
                         const std::string &collectiveRows,
                         const std::string &like = "dgx-h100") {
  return {"ours", like, shippedHardware(like),
          {{"kernels.jsonl", kernelRows}}, {{"nccl.jsonl", collectiveRows}}};
}

const CalibratedFigure &figureNamed(const Calibration &calibration,
                                    const std::string &end) {
  for (const CalibratedFigure &figure : calibration.figures)
    if (figure.pointer.size() >= end.size() &&
        figure.pointer.compare(figure.pointer.size() - end.size(), end.size(),
                               end) == 0)
      return figure;
  FAIL("no figure " << end);
  return calibration.figures.front();
}

} // namespace

TEST_CASE("calibration finds the machine whose runs it is given") {
  const Hardware shippedOne = shipped("dgx-h100");
  Hardware machine = shippedOne;
  machine.device.gemm.sustainedFraction *= 0.85;
  machine.device.gemm.fp8Tensor.speedup *= 0.9;
  AttentionCurve *curve = nullptr;
  for (AttentionCurve &one : machine.device.attention)
    if (one.variant == AttentionVariant::Flash3 && one.headDim == 128)
      curve = &one;
  REQUIRE(curve);
  curve->forwardFraction *= 1.1;
  curve->backwardFraction *= 0.8;
  machine.fabric.wireFraction = 0.7;
  machine.fabric.nicFraction = 0.6;

  const std::string mine =
      timed(kernels("NVIDIA H100 80GB HBM3", {"bf16", "fp8"}), "us",
            compareKernels, machine);
  const std::string others =
      timed(kernels("A100-80GB", {"bf16"}), "us", compareKernels,
            shipped("dgx-a100"));
  Calibration calibration;
  Failure failure;
  REQUIRE(calibrate(inputOf(mine + others,
                            timed(collectives("H100-SXM"), "time_us", compareCollectives,
                                  machine)),
                    calibration, failure));
  const auto check = [&](const char *end, double is) {
    const CalibratedFigure &figure = figureNamed(calibration, end);
    CAPTURE(figure.pointer);
    CHECK(figure.is == Approx(is).epsilon(2e-3));
    CHECK(figure.errorIs < 2e-3);
    CHECK(figure.errorWas > 0.02);
    CHECK_FALSE(figure.limited);
  };
  check("sustained_fraction", machine.device.gemm.sustainedFraction);
  check("fp8_tensor", machine.device.gemm.fp8Tensor.speedup);
  check("forward_fraction", curve->forwardFraction);
  check("backward_fraction", curve->backwardFraction);
  check("wire_fraction", 0.7);
  check("nic_fraction", 0.6);
  CHECK(calibration.figures.size() == 6);
  CHECK(calibration.otherRows >= 28);

  // The file prices as the machine did, and says where its figures come from.
  Hardware read;
  REQUIRE(readHardware(calibration.text, "ours", read, failure));
  CHECK(read.name == "ours");
  CHECK(read.device.gemm.sustainedFraction ==
        Approx(machine.device.gemm.sustainedFraction).epsilon(2e-3));
  CHECK(read.device.memoryBandwidth.count() ==
        shippedOne.device.memoryBandwidth.count());
  CHECK(calibration.text.find("sustained_fraction: calibrated with 9 rows of "
                              "kernels.jsonl, median |error|") !=
        std::string::npos);
}

TEST_CASE("figures stay where rows say too little") {
  Hardware machine = shipped("dgx-h100");
  machine.device.gemm.sustainedFraction *= 0.8;
  std::vector<std::string> lines = kernels("H100-SXM5-80GB", {"bf16"});
  lines.resize(4);
  Calibration calibration;
  Failure failure;
  CHECK_FALSE(calibrate(
      inputOf(timed(lines, "us", compareKernels, machine), ""), calibration,
      failure));
  REQUIRE(failure.messages.size() == 1);
  CHECK(failure.messages[0].text.find("/device/gemm/sustained_fraction has 4") !=
        std::string::npos);

  // Enough rows, but as many too fast as too slow.
  lines = kernels("H100-SXM5-80GB", {"bf16"});
  lines.resize(8);
  std::vector<std::string> slow(lines.begin(), lines.begin() + 4),
      fast(lines.begin() + 4, lines.end());
  Hardware quick = shipped("dgx-h100"), late = quick;
  quick.device.gemm.sustainedFraction *= 1.2;
  late.device.gemm.sustainedFraction /= 1.2;
  failure = {};
  Calibration second;
  const std::string reduced =
      timed(collectives("H100-SXM"), "time_us", compareCollectives, shipped("dgx-h100"));
  REQUIRE(calibrate(inputOf(timed(slow, "us", compareKernels, late) +
                                timed(fast, "us", compareKernels, quick),
                            reduced),
                    second, failure));
  const CalibratedFigure &figure = figureNamed(second, "sustained_fraction");
  CHECK(figure.is == Approx(figure.was).epsilon(0.01));
  // Of rows as predicted nothing moves.
  CHECK(figureNamed(second, "wire_fraction").is ==
        figureNamed(second, "wire_fraction").was);
}

TEST_CASE("no fraction is calibrated beyond one") {
  // Every call takes 0.8 of what is predicted, and 0.9 of the wire is reached.
  const Hardware machine = shipped("dgx-a100");
  REQUIRE(machine.fabric.wireFraction == 0.9);
  Calibration calibration;
  Failure failure;
  REQUIRE(calibrate(inputOf("",
                            timed(collectives("A100-80GB"), "time_us",
                                  compareCollectives, machine, 0.8e6),
                            "dgx-a100"),
                    calibration, failure));
  const CalibratedFigure &figure = figureNamed(calibration, "wire_fraction");
  CHECK(figure.limited);
  CHECK(figure.is == 1);
  CHECK(figure.errorIs < figure.errorWas);
}

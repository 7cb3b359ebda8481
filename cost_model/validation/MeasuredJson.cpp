//===- MeasuredJson.cpp - Measured kernels and collectives ----------------===//
#include "cost_model/base/Format.h"
#include "cost_model/base/JsonReader.h"
#include "cost_model/hardware/Collective.h"
#include "cost_model/hardware/Kernel.h"
#include "cost_model/validation/Measured.h"

#include <functional>

namespace shardwright::cost {
namespace {

constexpr double kMebibyte = 1 << 20;
constexpr double kLeastFlops = 1e9; ///< of a product that is worth comparing
constexpr double kLeastMicroseconds = 0.01; ///< of any kernel

/// Shipped hardware of a GPU, read once; or `own` alone.
class Clusters {
public:
  explicit Clusters(const Hardware *own) : own(own) {}

  const Hardware *find(const std::string &gpu) {
    if (own == nullptr)
      return findShipped(gpu);
    if (gpu == own->device.name)
      return own;
    const Hardware *shipped = findShipped(gpu);
    return shipped != nullptr && shipped->device.name == own->device.name
               ? own
               : nullptr;
  }

private:
  const Hardware *findShipped(const std::string &gpu) {
    const char *name = clusterOfGpu(gpu);
    if (name == nullptr)
      return nullptr;
    const auto found = read.find(name);
    if (found != read.end())
      return &found->second;
    Hardware hardware;
    Failure failure;
    if (!readHardware(shippedHardware(name), name, hardware, failure))
      return nullptr;
    return &read.emplace(name, std::move(hardware)).first->second;
  }

  const Hardware *own;
  std::map<std::string, Hardware> read;
};

using Row = std::function<void(JsonObject &, MeasuredOutcome &)>;

/// Calls `each` for every line and closes the report.
bool forEachLine(std::string_view text, std::string_view file,
                 MeasuredReport &report, Failure &failure, const Row &each) {
  std::map<std::string, std::vector<double>> errors;
  std::vector<double> all;
  const bool good =
      forEachJsonLine(text, file, failure, [&](JsonObject object) {
        MeasuredOutcome outcome;
        if (object.has("source"))
          outcome.source = object.string("source");
        each(object, outcome);
        if (!outcome.unsupported.empty()) {
          ++report.unsupported[outcome.unsupported];
        } else if (outcome.measuredSeconds > 0) {
          const double error =
              outcome.predictedSeconds / outcome.measuredSeconds - 1;
          errors[outcome.group].push_back(error);
          all.push_back(error);
        }
        report.rows.push_back(std::move(outcome));
      });
  for (auto &[group, values] : errors)
    report.groups[group] = statisticsOf(std::move(values));
  report.summary = statisticsOf(std::move(all));
  return good;
}

bool collectiveNamed(const std::string &name, Collective &collective) {
  const std::pair<const char *, Collective> known[] = {
      {"all_reduce", Collective::AllReduce},
      {"all_gather", Collective::AllGather},
      {"reduce_scatter", Collective::ReduceScatter},
      {"alltoall", Collective::AllToAll}};
  for (const auto &[text, value] : known)
    if (name == text) {
      collective = value;
      return true;
    }
  return false;
}

/// How a source took its collectives, where not as nccl-tests does by default:
/// calls queued one behind another, algorithms as NCCL chooses them.
struct Benchmark {
  const char *source; ///< what its rows' source begins with
  double hostSeconds; ///< of a call, which the device waits for
  Algorithm only;
};
constexpr Benchmark kBenchmarks[] = {
    // all_reduce_bench.py times a call on an idle device, PyTorch's host time
    // included: 20 to 30 us by its own text (network/benchmarks).
    {"stas00/ml-engineering", 25e-6, Algorithm::None},
    // Benchmarks/NVIDIA/NCCLBandwidth.py sets NCCL_ALGO=NVLS on 8 devices.
    {"Azure/AI-benchmarking-guide", 0, Algorithm::Nvls}};

Benchmark benchmarkOf(const std::string &source) {
  for (const Benchmark &known : kBenchmarks)
    if (source.rfind(known.source, 0) == 0)
      return known;
  return {"", 0, Algorithm::None};
}

double numberOr(JsonObject &object, const std::string &key, double otherwise) {
  return object.has(key) ? object.number(key) : otherwise;
}
int64_t integerOr(JsonObject &object, const std::string &key,
                  int64_t otherwise) {
  return object.has(key) ? object.integer(key, 0) : otherwise;
}

/// Seconds that a kernel row states, from its time or its rate.
double secondsOf(JsonObject &object, double flops) {
  if (object.has("us"))
    return object.number("us", kLeastMicroseconds) * 1e-6;
  const double rate = numberOr(object, "tflops", 0) * 1e12;
  return rate > 0 ? flops / rate : 0;
}

/// Rate of a type of 8 or 4 bits; null for other types.
const NarrowRate *narrowRate(const GemmCurve &curve, const std::string &dtype) {
  if (dtype == "fp8" || dtype == "fp8_static" || dtype == "fp8_e4m3")
    return &curve.fp8Tensor;
  if (dtype == "fp8_block")
    return &curve.fp8Block;
  if (dtype == "nvfp4")
    return &curve.fp4Block;
  return nullptr;
}

/// Where the cluster file has `rate`, one of `curve`'s.
std::string figureOf(const GemmCurve &curve, const NarrowRate *rate) {
  const std::string gemm = "/device/gemm/";
  return rate == nullptr            ? gemm + "sustained_fraction"
         : rate == &curve.fp8Tensor ? gemm + "narrow_speedup/fp8_tensor"
         : rate == &curve.fp8Block  ? gemm + "narrow_speedup/fp8_block"
                                    : gemm + "narrow_speedup/fp4_block";
}

/// Where it has the curve of this variant and width; empty if it has none.
std::string figureOf(const Device &device, AttentionVariant variant,
                     int64_t headDim, bool backward) {
  for (size_t i = 0; i < device.attention.size(); ++i)
    if (device.attention[i].variant == variant &&
        device.attention[i].headDim == headDim)
      return "/device/attention/" + std::to_string(i) +
             (backward ? "/backward_fraction" : "/forward_fraction");
  return "";
}

void compareProduct(JsonObject &object, JsonObject &shape, Device device,
                    const Profile &profile, const std::string &dtype,
                    MeasuredOutcome &outcome) {
  const GemmShape product{1, shape.integer("m", 1), shape.integer("n", 1),
                          shape.integer("k", 1)};
  const double m = static_cast<double>(product.m),
               n = static_cast<double>(product.n),
               k = static_cast<double>(product.k);
  outcome.shape = std::to_string(product.m) + "x" + std::to_string(product.n) +
                  "x" + std::to_string(product.k);
  if (2 * m * n * k < kLeastFlops) {
    outcome.unsupported = "product of less than 1 GFLOP";
    return;
  }
  device.gemm.powerFraction = 1;
  outcome.measuredSeconds = secondsOf(object, 2 * m * n * k);
  const NarrowRate *narrow = narrowRate(device.gemm, dtype);
  outcome.figure = figureOf(device.gemm, narrow);
  const double width = narrow == nullptr ? 2 : dtype == "nvfp4" ? 0.5 : 1;
  const Bytes bytes(
      static_cast<int64_t>(width * (m * k + k * n) + 2 * m * n));
  outcome.predictedSeconds =
      kernelTime(device, profile,
                 gemmComputeTime(device, product, DType::BF16, false, narrow),
                 memoryTime(device, KernelClass::Gemm, bytes))
          .count();
}

void compareAttention(const std::string &kernel, JsonObject &object,
                      JsonObject &shape, const Device &device, Profile profile,
                      MeasuredOutcome &outcome) {
  AttentionShape attention;
  attention.queries = attention.keys = shape.integer("seq", 1);
  attention.headDim = shape.integer("head_dim", 1);
  attention.causal = shape.has("causal") && shape.boolean("causal");
  // The flash-attention benchmarks run 16384 tokens of width 2048.
  attention.batch = integerOr(shape, "batch",
                              std::max<int64_t>(1, 16384 / attention.queries));
  attention.heads = integerOr(shape, "heads", 2048 / attention.headDim);
  const bool both = kernel.find("fwd_bwd") != std::string::npos;
  const bool backward = both || kernel.find("_bwd") != std::string::npos;
  profile.attention = {kernel.find("_2_") != std::string::npos
                           ? AttentionVariant::Flash2
                           : AttentionVariant::Flash3};
  AttentionCurve curve;
  if (!attentionCurve(device, profile, attention.headDim, curve))
    profile.attention = {AttentionVariant::Flash2};
  outcome.figure = figureOf(device, profile.attention.front(),
                            attention.headDim, backward);
  outcome.shape =
      std::to_string(attention.batch) + "x" + std::to_string(attention.heads) +
      "x" + std::to_string(attention.queries) + "x" +
      std::to_string(attention.headDim) + (attention.causal ? " causal" : "");
  const double pairs = static_cast<double>(attention.queries) *
                       static_cast<double>(attention.keys) /
                       (attention.causal ? 2 : 1);
  const double forwardFlops = 4 * pairs * static_cast<double>(attention.batch) *
                              static_cast<double>(attention.heads) *
                              static_cast<double>(attention.headDim);
  // Their backward counts 2.5 times the forward flops.
  outcome.measuredSeconds = secondsOf(
      object, forwardFlops * (both ? 3.5 : backward ? 2.5 : 1));
  const Bytes bytes(8 * attention.batch * attention.heads * attention.queries *
                    attention.headDim);
  Seconds time(0);
  if (both || !backward)
    time =
        attentionTime(device, profile, attention, false, DType::BF16, bytes);
  if (backward)
    time +=
        attentionTime(device, profile, attention, true, DType::BF16, 2 * bytes);
  if (kernel.find("prefill") != std::string::npos) {
    // A serving library's operation: before the attention kernel another one
    // reads queries, keys and values and writes them, turned, to their cache.
    const int64_t heads = checkedAdd(
        attention.heads, 2 * integerOr(shape, "kv_heads", attention.heads));
    const Bytes values(checkedMul(
        checkedMul(attention.batch * attention.queries, heads),
        2 * attention.headDim));
    time += kernelTime(device, profile, Seconds(0),
                       memoryTime(device, KernelClass::Elementwise, 2 * values));
  }
  outcome.predictedSeconds = time.count();
}

} // namespace

bool compareCollectives(std::string_view text, std::string_view file,
                        MeasuredReport &report, Failure &failure,
                        const Hardware *own) {
  Clusters clusters(own);
  return forEachLine(
      text, file, report, failure,
      [&](JsonObject &object, MeasuredOutcome &outcome) {
        const std::string gpu = object.string("gpu"),
                          name = object.string("collective");
        const int64_t ranks = object.integer("gpus", 1),
                      nodes = object.integer("nodes", 1);
        const double bytes = object.number("bytes");
        outcome.measuredSeconds = object.number("time_us") * 1e-6;
        outcome.shape = std::to_string(ranks) + plural(ranks, " rank") + ", " +
                        std::to_string(static_cast<int64_t>(bytes)) + " B";
        const Hardware *shipped = clusters.find(gpu);
        Collective collective = Collective::AllReduce;
        if (shipped == nullptr)
          outcome.unsupported = "no cluster file for " + gpu;
        else if (!collectiveNamed(name, collective))
          outcome.unsupported = "collective " + name;
        else if (nodes > 1 && ranks % nodes != 0)
          outcome.unsupported = "uneven nodes";
        if (!outcome.unsupported.empty())
          return;
        Hardware hardware = *shipped;
        const int64_t perNode = ranks / nodes;
        const int64_t nics = integerOr(object, "nic_per_node", 0);
        const double gigabits = numberOr(object, "nic_gbps", 0);
        if (nics > 0 && gigabits > 0 && hardware.levels.size() > 1)
          hardware.levels[1].bandwidth = BytesPerSecond(gigabits * 1e9 / 8);
        setNode(hardware, ranks, perNode, nics);
        hardware.nodes = ceilDiv(ranks, hardware.ranksPerNode());
        // nccl-tests' size is the larger side; ours is a rank's input.
        const double payload = collective == Collective::AllGather
                                   ? bytes / static_cast<double>(ranks)
                                   : bytes;
        const Benchmark how = benchmarkOf(outcome.source);
        outcome.group = shipped->name + " " + name +
                        (nodes > 1 ? ", several nodes" : ", one node") +
                        (bytes >= kMebibyte ? ", >= 1 MiB" : ", < 1 MiB");
        if (how.only != Algorithm::None)
          outcome.group += ", " + std::string(cost::name(how.only)) + " forced";
        const Placement at = placeGroup(ranks, 1, hardware.ranksPerNode());
        // An exchange inside a node goes at a share of its links that no file
        // has (kExchangeFraction).
        if (bytes >= kMebibyte && ranks > 1 &&
            (at.nodes > 1 || collective != Collective::AllToAll))
          outcome.figure = at.nodes > 1 ? "/collectives/nic_fraction"
                                        : "/collectives/wire_fraction";
        const CollectiveTime priced = priceCollective(
            hardware, collective, Bytes(static_cast<int64_t>(payload)), at,
            how.only);
        if (ranks > 1 && priced.algorithm == Algorithm::None)
          outcome.unsupported =
              "NCCL_ALGO=" + std::string(cost::name(how.only)) + " on " + gpu;
        outcome.predictedSeconds = priced.time.count() + how.hostSeconds;
      });
}

bool compareKernels(std::string_view text, std::string_view file,
                    MeasuredReport &report, Failure &failure,
                    const Hardware *own) {
  Clusters clusters(own);
  Profile profile;
  return forEachLine(
      text, file, report, failure,
      [&](JsonObject &object, MeasuredOutcome &outcome) {
        const std::string gpu = object.string("gpu"),
                          kernel = object.string("kernel"),
                          dtype = object.string("dtype");
        const Hardware *shipped = clusters.find(gpu);
        const bool attention = kernel.find("attention") != std::string::npos &&
                               kernel.find("torch") == std::string::npos;
        const bool sixteenBits =
            (dtype.find("bf") == 0 && dtype.find("fp8") == std::string::npos) ||
            dtype == "fp16" || dtype == "fp16/bf16";
        if (shipped == nullptr)
          outcome.unsupported = "no cluster file for " + gpu;
        else if (kernel != "gemm" && !attention)
          outcome.unsupported = "kernel " + kernel;
        else if (!sixteenBits) {
          const NarrowRate *narrow =
              kernel == "gemm" ? narrowRate(shipped->device.gemm, dtype)
                               : nullptr;
          if (narrow == nullptr || narrow->speedup == 0)
            outcome.unsupported = "type " + dtype;
        }
        if (!outcome.unsupported.empty())
          return;
        outcome.group = shipped->name + " " +
                        (sixteenBits ? kernel : dtype + " product");
        JsonObject shape = object.child("shape");
        if (kernel == "gemm")
          compareProduct(object, shape, shipped->device, profile, dtype,
                         outcome);
        else
          compareAttention(kernel, object, shape, shipped->device, profile,
                           outcome);
      });
}

std::string measuredJson(const MeasuredReport &report) {
  nlohmann::json root;
  root["rows"] = nlohmann::json::array();
  for (const MeasuredOutcome &outcome : report.rows) {
    nlohmann::json row;
    row["shape"] = outcome.shape;
    if (!outcome.unsupported.empty()) {
      row["unsupported"] = outcome.unsupported;
    } else {
      row["group"] = outcome.group;
      row["source"] = outcome.source;
      row["measured_seconds"] = outcome.measuredSeconds;
      row["predicted_seconds"] = outcome.predictedSeconds;
    }
    root["rows"].push_back(std::move(row));
  }
  const auto statistics = [](const ErrorStatistics &value) {
    return nlohmann::json{{"rows", value.configurations},
                          {"mean_absolute_error", value.mean},
                          {"median_absolute_error", value.median},
                          {"p90_absolute_error", value.p90},
                          {"maximum_absolute_error", value.maximum},
                          {"median_signed_error", value.signedMedian}};
  };
  root["groups"] = nlohmann::json::object();
  for (const auto &[name, value] : report.groups)
    root["groups"][name] = statistics(value);
  root["summary"] = statistics(report.summary);
  root["unsupported"] = nlohmann::json::object();
  for (const auto &[reason, count] : report.unsupported)
    root["unsupported"][reason] = count;
  return root.dump(2) + "\n";
}

} // namespace shardwright::cost

//===- Validation.cpp - Predictions against published runs ----------------===//
#include "cost_model/validation/Validation.h"
#include "cost_model/hardware/Imbalance.h"
#include "cost_model/rules/Rules.h"
#include "cost_model/hardware/Kernel.h"
#include "cost_model/validation/Measured.h"
#include "cost_model/validation/RunLayout.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace shardwright::cost {
namespace {

constexpr double kGibibyte = 1 << 30;
constexpr double kRounding = 0.1; ///< between names of one card's memory
constexpr int64_t kFastestPort = 800; ///< Gb/s; what is faster is a node's

/// The shipped profile of a framework of a year; nullptr if there is none.
const char *ownProfile(const ValidationRow &row) {
  const std::string &framework = row.framework;
  if (framework == "megatron" && row.softwareYear <= 2021)
    return "megatron-2021";
  // DeepSpeed's own optimizers: in bf16 over gradients in f32.
  if (framework == "megatron-deepspeed" && row.zero > 0 && row.pp > 1) {
    if (row.softwareYear <= 2022)
      return row.precision == "bf16" ? "deepspeed-2022-bf16" : "deepspeed-2022";
    if (row.precision == "bf16")
      return "deepspeed";
  }
  // The DeepSpeed fork of 2022 stands on Megatron-LM of 2021.
  if (framework == "megatron-deepspeed" && row.softwareYear <= 2022)
    return "megatron-2021";
  if (framework == "megatron" && row.softwareYear == 2022)
    return "megatron-2022";
  // Rows that name a kernel of their own for each run are of Aleph Alpha's
  // study, whose code has Megatron's layers but not its optimizer and pipeline.
  if (framework == "megatron" && row.softwareYear == 2023 &&
      !row.attentionKernel.empty())
    return "scaling-2023";
  if (framework == "megatron" || framework == "megatron-deepspeed")
    return "megatron-flash-2023";
  if (framework == "nanotron")
    return "nanotron";
  if (framework == "internevo")
    return "internevo";
  if (framework == "megatron-core")
    return "megatron-core";
  if (framework == "fsdp1" && row.softwareYear <= 2023)
    return "fsdp-2023";
  if (framework == "fsdp1" || framework == "fsdp2" || framework == "torchtitan")
    return "fsdp";
  return nullptr;
}

/// The shipped profile that a row is predicted with.
struct ChosenProfile {
  const char *name;
  bool standIn; ///< of another framework, as its own has none
};
ChosenProfile profileFor(const ValidationRow &row) {
  if (const char *own = ownProfile(row))
    return {own, false};
  // MaxText's layers are compiled: they are fused and sum in fewer passes, like
  // those of Transformer Engine. Others that shard layers have Megatron's, the
  // rest PyTorch's.
  const bool recent = row.softwareYear >= 2024;
  if (row.framework == "maxtext")
    return {"megatron-core", true};
  if (row.tp > 1 || row.pp > 1)
    return {recent ? "megatron-core" : "megatron-flash-2023", true};
  return {recent ? "fsdp" : "fsdp-2023", true};
}

/// NICs of a node and Gb/s of each from texts such as "8x200Gb HDR IB/node",
/// "4 x 200 Gb/s" or "1600 Gbps/node"; false if the text says nothing. A rate
/// alone ("InfiniBand, 200Gb/s") that a port has is a port's: NICs are 0, as
/// many as usual.
bool networkOf(std::string_view text, int64_t &nics, double &gigabits) {
  const std::string lower = [&] {
    std::string copy(text);
    for (char &c : copy)
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return copy;
  }();
  for (size_t at = lower.find("gb"); at != std::string::npos;
       at = lower.find("gb", at + 1)) {
    // "GB/s" in capitals is the rate of NVLink.
    if (text.substr(at, 2) != "Gb")
      continue;
    size_t end = at;
    const auto skipBlanks = [&] {
      while (end > 0 && lower[end - 1] == ' ')
        --end;
    };
    const auto number = [&](int64_t &value) {
      skipBlanks();
      size_t begin = end;
      while (begin > 0 && lower[begin - 1] >= '0' && lower[begin - 1] <= '9')
        --begin;
      if (begin == end || end - begin > 6)
        return false;
      value = std::stoll(lower.substr(begin, end - begin));
      end = begin;
      return value > 0;
    };
    int64_t rate = 0, count = 0;
    if (!number(rate))
      continue;
    skipBlanks();
    if (end > 0 && (lower[end - 1] == 'x' || lower[end - 1] == '*')) {
      --end;
      if (number(count)) {
        nics = count;
        gigabits = static_cast<double>(rate);
        return true;
      }
      continue;
    }
    const bool ofNode = lower.find("node", at) != std::string::npos ||
                        rate > kFastestPort;
    nics = ofNode ? 8 : 0;
    gigabits = static_cast<double>(rate) / (ofNode ? 8 : 1);
    return true;
  }
  return false;
}

/// Cards of one name are sold with other memory: in proportion to `gigabytes`,
/// if that is no rounding of what the device has.
void setMemory(double gigabytes, Device &device) {
  const double share =
      gigabytes * kGibibyte / static_cast<double>(device.capacity.count());
  if (gigabytes <= 0 || std::fabs(share - 1) < kRounding)
    return;
  for (Bytes *bytes : {&device.capacity, &device.usable})
    *bytes = Bytes(static_cast<int64_t>(
        share * static_cast<double>(bytes->count())));
}

/// The attention kernel that a row names, in place of the profile's.
void chooseAttention(const std::string &kernel, Profile &profile) {
  if (kernel.empty())
    return;
  const auto starts = [&](std::string_view prefix) {
    return kernel.compare(0, prefix.size(), prefix) == 0;
  };
  if (starts("flash_attention3"))
    profile.attention = {AttentionVariant::Flash3};
  else if (starts("flash_attention2"))
    profile.attention = {AttentionVariant::Flash2};
  else if (starts("flash_attention"))
    profile.attention = {AttentionVariant::Flash1};
  else
    profile.attention = {AttentionVariant::Unfused};
  if (kernel == "torch") {
    // Scale 4, mask 4, f32 copy 6, softmax 8, copy back 6; backward: copy 6,
    // softmax 12, copy 6, mask 4, scale 4. Kept: scores in f32 and 16 bits,
    // mask.
    profile.scoreBytesForward = 28;
    profile.scoreBytesBackward = 32;
    profile.scoreSavedBytes = 9;
  }
  if (kernel.find("RMS kernel") != std::string::npos)
    profile.norm = {};
}

/// How rows reach their experts. Where a row does not say: Megatron-Bridge of
/// 2026 sets HybridEP for NVLink domains of 72 (its performance recipes).
std::string dispatcherOf(const ValidationRow &row) {
  if (!row.dispatcher.empty() || row.framework != "megatron-core" ||
      row.softwareYear < 2026 || row.gpu.compare(0, 2, "GB") != 0)
    return row.dispatcher;
  return "hybridep";
}

/// "none", "full_iteration", "transformer_engine" or "local:full_iteration", of
/// which the scope comes last.
GraphCapture graphsOf(const std::string &text) {
  const std::string scope = text.substr(text.rfind(':') + 1);
  if (scope.empty() || scope == "none")
    return GraphCapture::None;
  return scope == "full_iteration" ? GraphCapture::Whole : GraphCapture::Layers;
}

/// Whether grouped products quantize and activate in their own kernels, and
/// exchanges run beside the other microbatch. Where a row does not say: of
/// experts, Megatron-Bridge captures a whole step only with the fused grouped
/// MLP, as nothing else runs without the host learning how many rows there are,
/// and its recipes that do overlap exchanges too (scripts/performance: configs,
/// utils/overrides.py).
bool isWholeExpertStep(const ValidationRow &row) {
  return row.model.experts > 0 && row.framework == "megatron-core" &&
         graphsOf(row.cudaGraph) == GraphCapture::Whole;
}

std::string configurationOf(const ValidationRow &row) {
  std::ostringstream text;
  text << row.model.layers << '/' << row.model.hidden << '/' << row.model.ffn
       << '/' << row.model.heads << '/' << row.model.kvHeads << '/'
       << row.model.vocab << '/' << row.model.sequence << '/' << row.model.gated
       << ' ' << row.gpu << 'x' << row.gpus << ' ' << row.interconnect << ' '
       << row.tp << '/' << row.pp << '/' << row.cp << '/' << row.dp << '/'
       << row.ep << '/' << row.etp << '/' << row.chunks << '/' << row.sp << '/'
       << row.zero << ' ' << row.globalBatch << '/' << row.microBatch << ' '
       << row.precision << ' ' << row.recompute << ' ' << row.attentionKernel;
  return text.str();
}

/// Rows that differ in nothing but the layout share it.
std::string problemOf(const ValidationRow &row) {
  std::ostringstream text;
  text << row.set << ' ' << row.model.name << ' ' << row.model.layers << '/'
       << row.model.hidden << '/' << row.model.sequence << ' ' << row.gpu << 'x'
       << row.gpus << ' ' << row.globalBatch << ' ' << row.precision << ' '
       << row.attentionKernel;
  return text.str();
}

/// What of a stage a source counts: tensors, what their allocator took (a peak
/// of unnamed kind too), or, where it does not say, what the device lost.
Bytes countedBytes(const StageEstimate &stage, const std::string &memoryKind) {
  const auto says = [&](const char *word) {
    return memoryKind.find(word) != std::string::npos;
  };
  if (says("allocated"))
    return stage.allocated();
  return says("reserved") || says("peak") ? stage.reserved() : stage.total();
}

/// What a module that Megatron Core recomputes on its own is in labels of the
/// program (--recompute-modules, megatron/core/transformer).
struct RecomputeModule {
  const char *name;
  std::vector<std::string> labels;
};
const std::vector<RecomputeModule> &recomputeModules() {
  static const std::vector<RecomputeModule> modules = {
      {"core_attn", {"core_attention"}},
      {"layernorm", {"attn_norm", "mlp_norm"}},
      {"mla_up_proj",
       {"q_nope", "q_rope", "q_rope_turned", "k_up", "v_up", "k_rope_turned"}},
      {"moe_act", {"expert_act"}},
      {"mlp", {"gate", "up", "act", "down"}},
      {"shared_experts", {"shared_*"}},
      {"moe",
       {"router", "route", "dispatch", "row_*", "group_*", "ungroup_rows",
        "combine", "expert*", "shared_*"}}};
  return modules;
}

/// Labels that "selective:moe_act,layernorm" redoes; none if the text names no
/// known module.
std::vector<std::string> redoneLabels(const std::string &text) {
  std::vector<std::string> labels;
  const std::string prefix = "selective:";
  if (text.compare(0, prefix.size(), prefix) != 0)
    return labels;
  std::istringstream names(text.substr(prefix.size()));
  for (std::string name; std::getline(names, name, ',');)
    for (const RecomputeModule &module : recomputeModules())
      if (name == module.name)
        labels.insert(labels.end(), module.labels.begin(),
                      module.labels.end());
  // The attention core alone is what selective recomputation is.
  return labels == recomputeModules().front().labels
             ? std::vector<std::string>()
             : labels;
}

/// Whether the router is forced to send every expert as many rows. Where a row
/// does not say: recipes of Megatron-Bridge that measure speed force it, and
/// reduce gradients in 16 bits or compute in MXFP8 (scripts/performance).
bool isForced(const ValidationRow &row) {
  if (!row.routing.empty())
    return row.routing == "balanced";
  return row.bf16Gradients.value_or(false) || row.fp8Recipe == "mxfp8";
}

} // namespace

const char *clusterOfGpu(std::string_view gpu) {
  // As its driver names it.
  if (constexpr std::string_view vendor = "NVIDIA ";
      gpu.substr(0, vendor.size()) == vendor)
    gpu.remove_prefix(vendor.size());
  const auto starts = [&](std::string_view prefix) {
    return gpu.substr(0, prefix.size()) == prefix;
  };
  if (starts("A100-40GB") || starts("A100-SXM-40G") ||
      starts("A100-SXM4-40G"))
    return "dgx-a100-40gb";
  if (starts("A100-80GB") || starts("A100-SXM-80G") ||
      starts("A100-SXM4-80G"))
    return "dgx-a100";
  if (gpu == "H100" || starts("H100-SXM") || starts("H100 80GB HBM3") ||
      starts("H100-80G"))
    return "dgx-h100";
  if (gpu == "H200" || starts("H200-SXM"))
    return "dgx-h200";
  if (starts("B200"))
    return "dgx-b200";
  if (starts("B300"))
    return "dgx-b300";
  if (starts("GB200"))
    return "gb200-nvl72";
  if (starts("GB300"))
    return "gb300-nvl72";
  if (starts("A800"))
    return "hgx-a800";
  if (starts("H800"))
    return "hgx-h800";
  if (starts("RTX PRO 6000"))
    return "rtx-pro-6000";
  return nullptr;
}

void setNode(Hardware &hardware, int64_t ranks, int64_t perNode, int64_t nics) {
  Level &node = hardware.levels.front();
  // A domain wider than a node: as many whole nodes of it as divide the job.
  int64_t domain = perNode;
  for (int64_t size = perNode; size <= node.size; size += perNode)
    if (ranks % size == 0)
      domain = size;
  if (hardware.levels.size() > 1) {
    Level &net = hardware.levels[1];
    net.nics = nics > 0 ? checkedMul(nics, domain) / perNode
                        : std::max<int64_t>(1, net.nics * domain / node.size);
  }
  node.size = domain;
}

std::optional<double> ValidationOutcome::memoryError() const {
  if (!measuredGib || !predictedGib)
    return std::nullopt;
  return *predictedGib / *measuredGib - 1;
}

std::optional<double> ValidationOutcome::error() const {
  if (!measuredSeconds || !predictedSeconds)
    return std::nullopt;
  return *predictedSeconds / *measuredSeconds - 1;
}

namespace {

/// Microbatches that chunks run in a row: rows do not say, so the least.
int64_t groupOf(const ValidationRow &row) {
  return leastGroup(row.pp, row.globalBatch / (row.dp * row.microBatch));
}

} // namespace

std::string unsupportedReason(const ValidationRow &row) {
  if (row.model.experts > 0 && (row.model.topK < 1 || row.model.expertFfn < 1))
    return "experts of unstated size";
  if (row.model.latent && row.model.kvRank < 1)
    return "latent attention of unstated size";
  if (row.model.mtpLayers > 1)
    return "more than one multi-token prediction module";
  if (row.model.family == "qwen3-next")
    return "linear attention";
  if (row.precision != "bf16" && row.precision != "fp16" &&
      row.precision != "fp8" && row.precision != "fp4")
    return "precision " + row.precision;
  if (row.zeroGroup > 0 && (row.dp * row.cp % row.zeroGroup != 0 ||
                            row.zeroGroup % row.cp != 0))
    return "optimizer state sharded over ranks that do not divide the data "
           "axis";
  if (row.recompute != "none" && row.recompute != "selective" &&
      row.recompute != "full")
    return "recomputation '" + row.recompute + "'";
  if (clusterOfGpu(row.gpu) == nullptr)
    return "no cluster file for " + row.gpu;
  if (row.dp * row.tp * row.pp * row.cp != row.gpus)
    return "degrees that do not multiply to the number of GPUs";
  if (row.globalBatch % (row.dp * row.microBatch) != 0)
    return "global batch that is no multiple of dp * microbatch";
  if (row.chunks > 1) {
    if (row.pp == 1)
      return "virtual stages without pipeline";
    // Embedding and head may count as a layer each; layers are spread evenly
    // then, which is at most one layer a stage from the truth.
    if (row.model.layers % (row.pp * row.chunks) != 0 && row.layoutKnown)
      return "layers that do not divide over virtual stages";
    if (groupOf(row) == 0)
      return "interleaving with fewer microbatches than stages";
  }
  return "";
}

std::string validationCase(const ValidationRow &row, const Program &program,
                           ValidationCase &result) {
  if (std::string reason = unsupportedReason(row); !reason.empty())
    return reason;
  Failure failure;
  Hardware shipped;
  const char *cluster = clusterOfGpu(row.gpu);
  if (!readHardware(shippedHardware(cluster), cluster, shipped, failure))
    return failure.messages.front();
  int64_t nics = 0;
  double gigabits = 0;
  if (shipped.levels.size() > 1 && networkOf(row.interconnect, nics, gigabits))
    shipped.levels[1].bandwidth = BytesPerSecond(gigabits * 1e9 / 8);
  setMemory(row.gpuMemoryGb, shipped.device);
  setNode(shipped, row.gpus, row.gpusPerNode, nics);
  if (!resized(shipped, row.gpus, result.hardware, failure))
    return failure.messages.front();

  const char *profile = profileFor(row).name;
  if (!readProfile(shippedProfile(profile), profile, result.profile, failure))
    return failure.messages.front();
  chooseAttention(row.attentionKernel, result.profile);
  Narrow narrow = Narrow::None;
  if (row.precision == "fp8" || row.precision == "fp4") {
    const auto says = [&](const char *word) {
      return row.fp8Recipe.find(word) != std::string::npos;
    };
    narrow = row.precision == "fp4" ? Narrow::Fp4Block
             : says("mx")           ? Narrow::Mxfp8
             : says("block")        ? Narrow::Fp8Block
                                    : Narrow::Fp8;
    if (narrowRate(result.hardware.device, narrow).speedup == 0)
      return "precision " + row.precision + " on " + row.gpu;
  }
  result.profile.graphs = graphsOf(row.cudaGraph);
  result.profile.redoneLabels = redoneLabels(row.recomputeText);
  if (row.tensorOverlap)
    result.profile.overlapForwardTensor = result.profile.overlapDataGradient =
        result.profile.overlapWeightGather = *row.tensorOverlap;
  if (row.dataOverlap)
    result.profile.overlapGradientReduce =
        result.profile.overlapParameterGather = *row.dataOverlap;
  const std::string dispatcher = dispatcherOf(row);
  result.profile.exchangeOncePerNode =
      dispatcher == "deepep" || dispatcher == "hybridep";
  result.profile.exchangePermutes = dispatcher == "hybridep";
  result.profile.groupedProductsFuse = isWholeExpertStep(row);
  result.profile.exchangeBesideOther =
      row.exchangeOverlap.value_or(isWholeExpertStep(row));
  if (row.transferOverlap)
    result.profile.overlapTransfers = *row.transferOverlap;

  Plan &plan = result.plan;
  plan.modelName = program.name;
  plan.clusterName = result.hardware.name;
  plan.dp = row.dp;
  plan.cp = row.cp;
  plan.cpKind = factsOf(result.profile.framework).cpKinds.front();
  plan.tp = row.tp;
  plan.pp = row.pp;
  plan.ep = row.ep;
  plan.etp = row.etp;
  plan.kvReplicas = kvReplicasOf(program, plan.tp);
  plan.sp = row.sp;
  plan.zero = zeroAsRun(result.profile.framework, row.zero, row.pp);
  if (row.zero > 0 && row.zeroGroup < row.dp * row.cp)
    plan.zeroRanks = row.zeroGroup / row.cp;
  plan.globalBatch = row.globalBatch;
  plan.microBatch = row.microBatch;
  plan.sequence = program.sequence;
  if (row.model.experts > 0 && !isForced(row))
    result.profile.expertImbalance = busiestOverMean(
        plan.ep, rowsTogether(plan, plan.sequence, row.model.topK), 0.5);
  plan.dtypes = result.profile.dtypes;
  plan.dtypes.param = plan.dtypes.compute =
      row.precision == "fp16" ? DType::F16 : DType::BF16;
  // Gradients that are f16 with f16 parameters are f32 with bf16 ones
  // (Megatron-LM's accumulate_allreduce_grads_in_fp32).
  if (row.precision == "bf16" && plan.dtypes.grad == DType::F16)
    plan.dtypes.grad = plan.dtypes.reduce = DType::F32;
  plan.dtypes.products = narrow;
  if (row.bf16Gradients && *row.bf16Gradients)
    plan.dtypes.grad = plan.dtypes.reduce = DType::BF16;
  setMesh(plan);
  plan.schedule = row.chunks > 1 ? ScheduleKind::Interleaved
                                 : ScheduleKind::OneFOneB;
  plan.chunks = row.chunks;
  if (const int64_t group = groupOf(row); row.chunks > 1 && group != row.pp)
    plan.group = group;
  plan.stages = runStages(row, program, result.profile, plan);
  const std::vector<Violation> violations =
      checkPlan(program, plan, ModelCheck::NameOnly);
  if (!violations.empty())
    return "plan that breaks rule " + violations.front().rule;
  return "";
}

ValidationReport validate(const std::vector<ValidationRow> &rows,
                          const ProgramSource &programOf, ValidationBy by) {
  ValidationReport report;
  std::map<ValidationModel, Program> programs;
  for (const ValidationRow &row : rows) {
    ValidationOutcome outcome;
    outcome.id = row.id;
    outcome.set = row.set;
    outcome.grade = row.grade;
    outcome.peer = row.peer;
    outcome.configuration = configurationOf(row);
    outcome.problem = problemOf(row);
    outcome.gpu = row.gpu;
    outcome.kind = row.model.experts > 0 ? "experts" : "dense";
    outcome.precision = row.precision;
    outcome.family =
        familyOf(row.model.experts > 0,
                 row.precision != "bf16" && row.precision != "fp16");
    outcome.framework = row.framework + " " + std::to_string(row.softwareYear);
    outcome.memoryKind = row.memoryKind;
    outcome.headline = row.headline;
    outcome.measuredSeconds = row.stepSeconds;
    outcome.measuredGib = row.memoryGib;
    outcome.measuredFits = !row.outOfMemory;
    outcome.unsupported = unsupportedReason(row);
    ValidationCase input;
    if (outcome.unsupported.empty()) {
      const ValidationModel &model = row.model;
      auto found = programs.find(model);
      if (found == programs.end()) {
        Program program;
        Failure failure;
        if (programOf(model, program, failure))
          found = programs.emplace(model, std::move(program)).first;
        else
          outcome.unsupported =
              "model: " + (failure.messages.empty() ? std::string("not built")
                                                    : failure.messages.front().text);
      }
      if (outcome.unsupported.empty())
        outcome.unsupported = validationCase(row, found->second, input);
      if (outcome.unsupported.empty()) {
        const Estimate prediction =
            estimate(found->second, input.hardware, input.profile, input.plan);
        outcome.cluster = input.hardware.name;
        outcome.profile = input.profile.name;
        outcome.standIn = profileFor(row).standIn;
        if (outcome.standIn)
          ++report.standIns[row.framework + " by " + outcome.profile];
        outcome.predictedSeconds = prediction.stepTime.count();
        outcome.fullest = *std::max_element(
            prediction.stages.begin(), prediction.stages.end(),
            [&](const StageEstimate &a, const StageEstimate &b) {
              return countedBytes(a, row.memoryKind) <
                     countedBytes(b, row.memoryKind);
            });
        outcome.predictedGib =
            gibibytes(countedBytes(outcome.fullest, row.memoryKind));
        outcome.predictedFits = prediction.fits;
        outcome.terms = prediction.terms;
        // No run of this profile is evidence for another framework.
        outcome.interval = intervalOf(prediction.stepTime, outcome.cluster,
                                      outcome.standIn ? "" : outcome.profile,
                                      outcome.family);
      }
    }
    if (!outcome.unsupported.empty())
      ++report.unsupported[outcome.unsupported];
    report.rows.push_back(std::move(outcome));
  }

  groupOutcomes(report, by);
  return report;
}

} // namespace shardwright::cost

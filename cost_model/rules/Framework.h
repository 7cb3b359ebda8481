//===- Framework.h - Whose software runs a plan -----------------*- C++ -*-===//
//
// What a framework can run at all, as data: rules and search read it. How fast
// it runs that is in a Profile.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_RULES_FRAMEWORK_H
#define SHARDWRIGHT_COST_MODEL_RULES_FRAMEWORK_H

#include "cost_model/plan/Plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

enum class Framework { Native, MegatronCore, TorchTitan, DeepSpeed };
inline constexpr Framework frameworks[] = {
    Framework::Native, Framework::MegatronCore, Framework::TorchTitan,
    Framework::DeepSpeed};
std::string_view name(Framework framework);
bool parseFramework(std::string_view text, Framework &framework);
/// "native, megatron-core, torchtitan or deepspeed"
std::string frameworkNames();

/// When a framework can keep what layers save on the host.
enum class HostActivations {
  Never,
  WithoutPipeline, ///< and without recomputation
  Checkpoints,     ///< the inputs of layers that run again
};

/// Into how many parts a framework can split one expert (etp).
enum class ExpertTensor {
  Any,
  OneOrTensor, ///< one or tp
  TensorUnlessExperts, ///< one or tp with ep > 1, else tp
};

struct FrameworkFacts {
  std::string_view version; ///< that was read
  std::string_view source;
  std::vector<int> zero;    ///< stages of sharding that it has
  std::vector<int> zeroUnderPipeline;
  std::vector<ScheduleKind> schedules; ///< with more than one stage
  bool tensorNeedsSequence = false;    ///< tp > 1 always comes with sp
  bool replicatesKvHeads = false;      ///< tp may exceed key/value heads
  std::vector<CpKind> cpKinds;         ///< its default first
  bool contextUnderPipeline = true;    ///< cp > 1 with pp > 1
  std::vector<int> copies;  ///< ZeRO stages whose shards may have copies (HSDP)
  std::vector<int> offload; ///< stages whose optimizer may live on the host
  std::vector<MeshOrder> orders = {MeshOrder::PpDp};
  std::vector<DType> gradients; ///< of 16-bit training; its default first
  std::vector<Narrow> products = {Narrow::None};
  bool offloadsMaster = true; ///< to the host, beside the moments
  HostActivations activations = HostActivations::Never;
  ExpertTensor expertTensor = ExpertTensor::Any;
  /// Each stage of a pipeline may recompute another number of its layers.
  bool recomputesByStage = false;
  /// To a multiple of 128 * tp, as plans here are (paddedVocab).
  bool padsVocabulary = true;
  bool evenGroups = false; ///< interleaved microbatches in evenGroup's groups
  /// Where tp exceeds key/value heads, tp ranks split the product of queries,
  /// keys and values evenly, gather what it gives and take their heads of it.
  bool gathersHeads = false;
};
const FrameworkFacts &factsOf(Framework framework);

/// The ZeRO stage that `framework` runs where `zero` is asked for: under a
/// pipeline the largest that it has there and that is no larger.
int zeroAsRun(Framework framework, int zero, int64_t pp);

/// Whether experts over `ep` ranks may be in `etp` parts each, whatever divides
/// them, where the other layers are split over `tp`.
bool splitsExperts(ExpertTensor how, int64_t tp, int64_t ep, int64_t etp);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_RULES_FRAMEWORK_H

//===- Profile.h - What a framework does with a plan, as data ---*- C++ -*-===//
//
// `native` is what this compiler emits; the others predict what others'
// software does with the same plan. Data only (D19): no formula branches on a
// profile's name. Schema: "shardwright.profile/1" (data/profiles/*.json).
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_PROFILE_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_PROFILE_H

#include "cost_model/hardware/Hardware.h"
#include "cost_model/rules/Framework.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// Memory traffic of an op that runs as several kernels, in bytes per element
/// of its input; 0: one kernel that reads operands and writes results.
struct EagerTraffic {
  double forward = 0, backward = 0;
  /// Bytes per element that such kernels keep for the backward pass beside what
  /// one kernel would.
  double saved = 0;
};

/// Of an operator's host time, the part that is its launch: what another kernel
/// of a loop without Python costs.
inline constexpr double kLaunchOfLoop = 0.5;

enum class GraphCapture {
  None,
  Layers, ///< all but what works on the rows of experts, whose count varies
  Whole
};

/// How a framework lays layers over the stages of a pipeline.
enum class StageLayout {
  Layers,   ///< as many layers on each
  Products, ///< as much of the weights of layers and head, the earlier more
  Modules   ///< as many modules: embedding, layers, last norm and head
};
std::string_view name(StageLayout layout);

struct Profile {
  std::string name;
  std::string description;
  /// Whose software has these habits: what it can run at all (Framework.h).
  Framework framework = Framework::Native;

  /// Attention kernels in order of preference: the first that the device has a
  /// curve for is used, Unfused needs none.
  std::vector<AttentionVariant> attention;
  /// Unfused attention: memory traffic per score besides the two products
  /// (softmax, dropout), and what is saved of it for the backward pass.
  double scoreBytesForward = 0, scoreBytesBackward = 0, scoreSavedBytes = 0;

  bool fuseElementwise = false; ///< chains of maps are one kernel
  bool fuseNorm = false;        ///< norms join those chains
  /// Products of one input (q, k, v; gate and up) are one product, and the
  /// sums of their input gradients accumulate inside it.
  bool fuseSiblingProducts = false;
  /// ... but gate and up: two layers, each of which gathers its input, and sums
  /// the gradient of its input over the tensor group, on its own.
  bool gatedInputsApart = false;
  /// Inputs gathered under sequence parallelism are kept for the weight gradient,
  /// instead of gathered again.
  bool keepsGatheredInputs = false;
  /// The weight-gradient product adds into the gradient buffer itself.
  bool fuseGradientAccumulation = false;
  /// Full recomputation runs the whole forward pass of the layer again, not
  /// only what the backward pass needs.
  bool recomputeWholeLayer = false;
  /// Selective recomputation keeps the output of attention, which the product
  /// behind it reads.
  bool selectiveKeepsOutput = false;
  /// What the framework calls selective is full recomputation of this share of
  /// the layers (0: of the attention core of each).
  double selectiveLayerShare = 0;
  StageLayout stages = StageLayout::Layers;

  bool overlapForwardTensor = false; ///< forward tp collectives, with products
  bool overlapDataGradient = false;  ///< of dx, with the weight gradient
  bool overlapWeightGather = false;  ///< gathers for dW, with the data gradient
  bool overlapGradientReduce = false;  ///< dp reduction, with the last backward
  bool overlapParameterGather = false; ///< ZeRO gather, with the next forward
  bool overlapTransfers = false;       ///< pipeline transfers, with compute
  /// Pipeline transfers carry 1/tp of a replicated stream and are gathered by
  /// the receiver inside its node.
  bool scatterTransfers = false;

  /// ZeRO 1 and 2 sum whole gradients on every rank, instead of leaving each
  /// rank its part of the sum.
  bool allReduceUnderZero = false;
  /// Width of a gradient on the wire (0: as it is stored), and memory traffic
  /// of an element before and after: flattening, scaling, casts.
  double reducedGradientBytes = 0, reductionTraffic = 0;
  /// The logits are gathered: every rank of a tensor group computes the loss
  /// over the whole vocabulary.
  bool gatherLogits = false;

  /// Head and loss go over so many equal parts of a sequence one after the
  /// other, and over each again in the backward pass: there are logits of one
  /// part at a time. Chosen per run; no profile file sets it.
  int64_t lossParts = 1;

  /// Of ops that the framework spells out in small kernels, f32 copies
  /// included. Norm: backward with the gradient of its weight. Loss: everything
  /// that reads the logits.
  EagerTraffic norm, rotary, activation, loss;

  /// Host time to issue one operator, and how many are issued (views, casts and
  /// autograd nodes too) for each op of the program. A layer takes the longer
  /// of its device time and the host time to issue it.
  Seconds launch;
  double forwardOperators = 1, backwardOperators = 1;
  /// Operators issued for each op that routes rows to experts and back, or
  /// works on them, forward or backward, in place of those.
  double expertOperators = 1;
  /// Operators that a product of 8 or 4 bits issues more, for scales and
  /// quantized copies; of experts for each of them.
  double narrowOperators = 0;
  /// The host waits for the counts of rows that each expert gets, in every forward
  /// pass of a layer of experts, unless the whole step is captured.
  bool waitsForRows = false;
  /// What is replayed, and not issued. Chosen per run; no profile file sets it.
  GraphCapture graphs = GraphCapture::None;
  /// Memory traffic of the update per parameter: of the sharded state, and of
  /// the whole gradient buffer (zeroing).
  double stateBytesPerParameter = 0, gradientBytesPerParameter = 0;
  Bytes frameworkBytes;      ///< context and library workspaces
  Bytes communicatorBytes;   ///< buffers of one communicator
  double allocatorSlack = 0; ///< reserved beyond allocated, share of it
  /// Under ZeRO 3 no 16-bit shard lies beside the master: what is gathered is
  /// cast from it.
  bool masterIsParameter = false;
  /// 16-bit gradients that autograd makes beside the buffer of gradients, and
  /// flat buckets of a data-parallel wrapper, bytes per parameter of a rank.
  double gradientCopyBytes = 0, bucketBytesPerParameter = 0;
  /// What the update makes per parameter whose state a rank holds: copies of
  /// gradients, temporaries of the optimizer.
  double updateBytesPerParameter = 0;
  double savedMaskBytes = 0; ///< dropout masks per element of a layer's
                             ///< stream: one byte for each dropout on it

  /// Ops of these labels run again in the backward pass, and what they leave is
  /// not saved; a trailing '*' stands for any end. Chosen per run; no profile
  /// file sets it.
  std::vector<std::string> redoneLabels;
  bool redoes(std::string_view label) const;

  /// Rows of the busiest expert rank over the mean: stretches its products and
  /// the exchange of rows. 1 is balanced; no profile file sets it.
  double expertImbalance = 1;
  /// A token crosses the network once for each node with one of its experts,
  /// and is copied inside the node (DeepEP, HybridEP), instead of once for each
  /// expert. Chosen per run; no profile file sets it.
  bool exchangeOncePerNode = false;
  /// Rows are put in order by the kernels of the exchange (HybridEP).
  bool exchangePermutes = false;
  /// Exchanges of a microbatch's forward pass run beside the backward pass of the
  /// one before it, and theirs beside its forward pass. Chosen per run; no profile
  /// file sets it.
  bool exchangeBesideOther = false;
  /// Activations between grouped products, and the quantizing of what they and
  /// their gradients give to the next product, are done in the kernels of the
  /// products (fused grouped MLP). Chosen per run; no profile file sets it.
  bool groupedProductsFuse = false;

  DTypes dtypes; ///< of 16-bit training; f16 or bf16 as the run says
};

/// Reads a profile file. Unknown, missing and duplicate keys are errors.
bool readProfile(std::string_view text, std::string_view file, Profile &profile,
                 Failure &failure);

/// Text of a shipped profile, or null; names in alphabetical order.
const char *shippedProfile(std::string_view name);
std::vector<std::string> shippedProfileNames();

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_PROFILE_H

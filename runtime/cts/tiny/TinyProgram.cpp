//===- TinyProgram.cpp - Tables of the tiny program -----------------------===//
#include "runtime/cts/tiny/TinyProgram.h"
#include "runtime/cts/tiny/TinyKernels.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace shardwright::runtime::cts {
namespace {

constexpr int64_t H = tinyHidden, F = tinyFfn;
enum AxisBit : uint32_t { PP = 1, DP = 2, TP = 4 };

int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
int64_t aligned(int64_t bytes) { return roundUp(bytes, 256); }

/// Lays parameters in buckets one after the other.
struct BlockBuilder {
  std::vector<sw_rt_parameter> parameters;
  std::vector<sw_rt_bucket> buckets;
  int64_t shards, elements = 0, used = 0;

  void bucket(uint32_t extraAxes, bool decay) {
    close();
    buckets.push_back({elements, 0, extraAxes, decay});
    used = 0;
  }
  void close() {
    if (buckets.empty())
      return;
    buckets.back().elements = roundUp(used, shards * 128);
    elements = buckets.back().offset + buckets.back().elements;
  }
  int64_t add(sw_rt_parameter parameter) {
    parameter.bucket = static_cast<int32_t>(buckets.size() - 1);
    parameter.offset = buckets.back().offset + used;
    int64_t size = 1;
    for (int32_t i = 0; i < parameter.ndims; ++i)
      size *= parameter.dims[i].local;
    used += size;
    parameters.push_back(parameter);
    return parameter.offset;
  }
  sw_rt_block block() {
    close();
    return {elements, static_cast<int32_t>(parameters.size()),
            static_cast<int32_t>(buckets.size()), parameters.data(),
            buckets.data()};
  }
};

struct StageTables {
  std::vector<std::vector<sw_rt_run>> runs; ///< by chunk
  std::vector<sw_rt_chunk> chunks;
  std::vector<sw_rt_action> actions;
};

/// Owner of everything that the tables point to.
struct Tables {
  std::vector<sw_rt_axis> axes;
  BlockBuilder embed, layer, head, shared;
  std::vector<sw_rt_kind> kinds;
  std::vector<StageTables> stageTables;
  std::vector<sw_rt_stage> stages;
  sw_rt_program program;
};

sw_rt_parameter matrix(const char *name, sw_rt_dim rows, sw_rt_dim columns,
                       int64_t hfRows, int64_t hfColumns, int64_t hfOffset) {
  sw_rt_parameter p{};
  p.name = name;
  p.ndims = 2;
  p.dims[0] = rows;
  p.dims[1] = columns;
  p.hf_offset = hfOffset;
  p.hf_shape[0] = hfRows;
  p.hf_shape[1] = hfColumns;
  p.init = 2;
  p.init_scale = 0.3;
  return p;
}

/// Chunks of a stage whose stream goes on, and whose stream comes from
/// elsewhere. Each has border buffers of its own: of the stream that leaves and
/// of the gradient that arrives, and of the gradient that leaves.
struct Borders {
  Borders(const TinyPlan &plan, int64_t stage)
      : behind(plan.chunks - (stage + 1 == plan.pp)),
        before(plan.chunks - (stage == 0)), first(stage == 0) {}
  int64_t count() const { return 2 * behind + before; }
  int64_t stream(int64_t chunk) const { return chunk < behind ? chunk : -1; }
  int64_t arrives(int64_t chunk) const {
    return chunk < behind ? behind + chunk : -1;
  }
  int64_t leaves(int64_t chunk) const {
    return first && chunk == 0 ? -1 : 2 * behind + chunk - first;
  }
  int64_t behind, before;
  bool first;
};

void addActions(const TinyPlan &plan, int64_t stage, int64_t microbatches,
                int32_t &slots, std::vector<sw_rt_action> &actions) {
  const bool first = stage == 0;
  const Borders borders(plan, stage);
  const int64_t next = (stage + 1) % plan.pp,
                previous = (stage + plan.pp - 1) % plan.pp;
  auto act = [&](int32_t kind, int64_t m, int64_t slot, int64_t chunk = 0) {
    sw_rt_action action{kind,
                        static_cast<int32_t>(chunk),
                        static_cast<int32_t>(m),
                        static_cast<int32_t>(slot),
                        -1,
                        -1,
                        -1,
                        0};
    auto set = [](int32_t &field, int64_t value) {
      field = static_cast<int32_t>(value);
    };
    switch (kind) {
    case SW_RT_ACT_FORWARD:
      set(action.leaves, borders.stream(chunk));
      break;
    case SW_RT_ACT_BACKWARD_DATA:
      set(action.takes, borders.arrives(chunk));
      set(action.leaves, borders.leaves(chunk));
      break;
    case SW_RT_ACT_SEND_FORWARD:
      set(action.takes, borders.stream(chunk));
      set(action.peer, next);
      break;
    case SW_RT_ACT_RECV_FORWARD:
      set(action.peer, previous);
      break;
    case SW_RT_ACT_SEND_BACKWARD:
      set(action.takes, borders.leaves(chunk));
      set(action.peer, previous);
      break;
    case SW_RT_ACT_RECV_BACKWARD:
      set(action.leaves, borders.arrives(chunk));
      set(action.peer, next);
      break;
    default:
      break;
    }
    actions.push_back(action);
  };
  auto backward = [&](int64_t m, int64_t slot, int64_t chunk = 0) {
    act(SW_RT_ACT_BACKWARD_DATA, m, slot, chunk);
    act(SW_RT_ACT_BACKWARD_WEIGHT, m, slot, chunk);
  };
  slots = static_cast<int32_t>(microbatches);
  if (plan.oneFOneB && plan.pp == 2) {
    slots = 2;
    if (first) {
      for (int64_t m = 0; m < microbatches + 1; ++m) {
        if (m < microbatches) {
          act(SW_RT_ACT_FORWARD, m, m % 2);
          act(SW_RT_ACT_SEND_FORWARD, m, 0);
        }
        if (m > 0) {
          act(SW_RT_ACT_RECV_BACKWARD, m - 1, 0);
          backward(m - 1, (m - 1) % 2);
        }
      }
    } else {
      act(SW_RT_ACT_RECV_FORWARD, 0, 0);
      for (int64_t m = 0; m < microbatches; ++m) {
        act(SW_RT_ACT_FORWARD, m, m % 2);
        backward(m, m % 2);
        // Stage 0 sends its next stream before it takes this gradient.
        if (m + 1 < microbatches)
          act(SW_RT_ACT_RECV_FORWARD, m + 1, (m + 1) % 2);
        act(SW_RT_ACT_SEND_BACKWARD, m, 0);
      }
    }
  } else {
    // One microbatch after the other through all chunks.
    for (int64_t m = 0; m < microbatches; ++m)
      for (int64_t c = 0; c < plan.chunks; ++c) {
        if (borders.leaves(c) >= 0)
          act(SW_RT_ACT_RECV_FORWARD, m, m, c);
        act(SW_RT_ACT_FORWARD, m, m, c);
        if (borders.stream(c) >= 0)
          act(SW_RT_ACT_SEND_FORWARD, m, 0, c);
      }
    for (int64_t m = microbatches; m-- > 0;)
      for (int64_t c = plan.chunks; c-- > 0;) {
        if (borders.arrives(c) >= 0)
          act(SW_RT_ACT_RECV_BACKWARD, m, 0, c);
        backward(m, m, c);
        if (borders.leaves(c) >= 0)
          act(SW_RT_ACT_SEND_BACKWARD, m, 0, c);
      }
  }
  act(SW_RT_ACT_REDUCE, 0, 0);
  act(SW_RT_ACT_STEP, 0, 0);
}

void addParameters(const TinyPlan &plan, Tables &t) {
  const TinyShape &x = tinyShape;
  const int64_t shards = plan.zero ? plan.dp : 1;
  t.embed.shards = t.layer.shards = t.head.shards = t.shared.shards = shards;
  const sw_rt_dim vocab = {x.vocab, tinyVocab, H, TP, 0};
  const sw_rt_dim hidden = {H, H, 1, 0, 0};
  const sw_rt_parameter table =
      matrix("embed.weight", vocab, hidden, tinyVocab, H, 0);
  if (plan.tied) {
    t.shared.bucket(0, true);
    tinyShape.table = tinyShape.head = t.shared.add(table);
  } else {
    t.embed.bucket(0, true);
    tinyShape.table = t.embed.add(table);
    sw_rt_parameter head = table;
    head.name = "head.weight";
    t.head.bucket(0, true);
    tinyShape.head = t.head.add(head);
  }
  // Buckets by (extra axes, decay): the matrices, then the scale.
  t.layer.bucket(0, true);
  const sw_rt_dim ffnRows = {x.ffn, F, H, TP, 0};
  tinyShape.gate = t.layer.add(
      matrix("layers.{}.fused.weight", ffnRows, hidden, 2 * F, H, 0));
  tinyShape.up = t.layer.add(
      matrix("layers.{}.fused.weight", ffnRows, hidden, 2 * F, H, F * H));
  tinyShape.down = t.layer.add(matrix("layers.{}.down.weight", {H, H, 1, 0, 0},
                                      {x.ffn, F, H, TP, 0}, F, H, 0));
  t.layer.bucket(plan.tp > 1 ? TP : 0u, false);
  sw_rt_parameter scale{};
  scale.name = "layers.{}.scale";
  scale.ndims = 1;
  scale.dims[0] = hidden;
  scale.hf_shape[0] = H;
  scale.init = 1;
  tinyShape.scale = t.layer.add(scale);
}

sw_rt_arena arenaOf(const Tables &t, const TinyPlan &plan, int64_t stage,
                    int64_t elements, int64_t slotsBytes, int64_t width) {
  const TinyShape &x = tinyShape;
  const int64_t stream = aligned(x.tokens * H * width);
  sw_rt_arena a{};
  a.elements = elements;
  a.optimizer_elements = elements / (plan.zero ? plan.dp : 1);
  a.parameters_bytes = a.gradients_bytes = elements * width;
  a.optimizer_bytes = 3 * a.optimizer_elements * width;
  a.slots_bytes = slotsBytes;
  a.p2p_bytes = Borders(plan, stage).count() * stream;
  // The largest all-reduce or reduce-scatter, over the smallest group.
  int64_t largest = std::max(x.tokens * H, 2 * x.tokens);
  for (const BlockBuilder *b : {&t.embed, &t.layer, &t.head, &t.shared})
    for (const sw_rt_bucket &bucket : b->buckets)
      largest = std::max(largest, bucket.elements);
  a.comm_bytes = aligned((largest + 1) / 2 * width);
  a.gradient_stream = aligned(tinyWorkspaceElements() * width);
  a.workspace_bytes = a.gradient_stream + 2 * stream;
  int64_t at = 0;
  auto place = [&](int64_t &offset, int64_t bytes) {
    offset = at;
    at += aligned(bytes);
  };
  place(a.parameters, a.parameters_bytes);
  place(a.gradients, a.gradients_bytes);
  place(a.optimizer, a.optimizer_bytes);
  place(a.slots, a.slots_bytes);
  place(a.p2p, a.p2p_bytes);
  place(a.comm, a.comm_bytes);
  place(a.workspace, a.workspace_bytes);
  a.total = at;
  return a;
}

} // namespace

bool parseTinyPlan(const std::string &text, TinyPlan &plan) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value =
        equals == std::string::npos ? "" : item.substr(equals + 1);
    int64_t number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    if (key == "dp")
      plan.dp = number;
    else if (key == "tp")
      plan.tp = number;
    else if (key == "pp")
      plan.pp = number;
    else if (key == "vp")
      plan.chunks = number;
    else if (key == "zero")
      plan.zero = number;
    else if (key == "micro")
      plan.micro = number;
    else if (key == "tied")
      plan.tied = true;
    else if (key == "1f1b")
      plan.oneFOneB = true;
    else if (key == "f32")
      plan.singlePrecision = true;
    else if (key == "device")
      plan.device = true;
    else if (key == "fault")
      plan.fault = value;
    else
      return false;
  }
  return plan.dp > 0 && plan.tp > 0 && plan.pp > 0 && plan.micro > 0 &&
         plan.chunks > 0 && plan.layers >= plan.pp * plan.chunks &&
         (plan.chunks == 1 || plan.pp > 1);
}

const sw_rt_program &tinyProgram(const TinyPlan &plan) {
  static Tables t;
  t = Tables();
  const int64_t width = plan.singlePrecision ? 4 : 8;
  TinyShape &x = tinyShape;
  x.plan = plan;
  x.tokens = tinySequence * plan.micro;
  x.ffn = F / plan.tp;
  x.paddedVocab = roundUp(tinyVocab, 8 * plan.tp);
  x.vocab = x.paddedVocab / plan.tp;
  x.tpAxis = TP;
  x.lossScale = 1.0 / (tinyGlobalBatch * tinySequence);
  addParameters(plan, t);

  t.axes = {{"pp", plan.pp}, {"dp", plan.dp}, {"tp", plan.tp}};
  const TinyFunctions f =
      plan.singlePrecision ? tinyFunctions<float>() : tinyFunctions<double>();
  t.kinds = {{"embed.none", f.embedForward, nullptr, f.embedWeightGrad,
              t.embed.block(), 0},
             {"layer.none", f.layerForward, f.layerDataGrad, f.layerWeightGrad,
              t.layer.block(), aligned(tinyLayerSavedElements() * width)},
             {"head.none", f.headForward, f.headDataGrad, f.headWeightGrad,
              t.head.block(), aligned(tinyHeadSavedElements() * width)}};
  const int64_t microbatches = tinyGlobalBatch / (plan.dp * plan.micro);
  const int64_t stream = aligned(x.tokens * H * width);
  t.stageTables.resize(static_cast<size_t>(plan.pp));
  const int64_t positions = plan.pp * plan.chunks;
  for (int64_t stage = 0; stage < plan.pp; ++stage) {
    StageTables &s = t.stageTables[static_cast<size_t>(stage)];
    const bool first = stage == 0, last = stage + 1 == plan.pp;
    int32_t slots = 0;
    addActions(plan, stage, microbatches, slots, s.actions);
    int64_t elements = 0, slotsBytes = 0;
    s.runs.resize(static_cast<size_t>(plan.chunks));
    for (int64_t c = 0; c < plan.chunks; ++c) {
      std::vector<sw_rt_run> &runs = s.runs[static_cast<size_t>(c)];
      const int64_t position = c * plan.pp + stage,
                    layer = position * plan.layers / positions,
                    end = (position + 1) * plan.layers / positions;
      if (position == 0)
        runs.push_back({0, 1, 0});
      runs.push_back({1, static_cast<int32_t>(end - layer), layer});
      if (position + 1 == positions)
        runs.push_back({2, 1, 0});
      int64_t slot = 0;
      for (const sw_rt_run &run : runs) {
        const sw_rt_kind &kind = t.kinds[static_cast<size_t>(run.kind)];
        elements += run.count * kind.block.elements;
        slot += run.count * (kind.saved_bytes + (run.kind == 0 ? 0 : stream));
      }
      // Chunks of one size share slots: those of each behind the one before.
      int64_t before = 0, first = slotsBytes;
      for (const sw_rt_chunk &other : s.chunks)
        if (other.slot_bytes == slot) {
          first = other.first_slot;
          ++before;
        }
      s.chunks.push_back({static_cast<int32_t>(runs.size()), slots, runs.data(),
                          first, slot, static_cast<int32_t>(position), 0});
      for (sw_rt_action &action : s.actions)
        if (action.chunk == c && (action.kind <= SW_RT_ACT_BACKWARD_WEIGHT ||
                                  action.kind == SW_RT_ACT_RECV_FORWARD))
          action.slot += static_cast<int32_t>(before) * slots;
      slotsBytes += slots * slot;
    }
    for (sw_rt_chunk &chunk : s.chunks)
      chunk.num_slots = static_cast<int32_t>(
          slots * std::count_if(s.chunks.begin(), s.chunks.end(),
                                [&](const sw_rt_chunk &other) {
                                  return other.slot_bytes == chunk.slot_bytes;
                                }));
    sw_rt_stage table{};
    if (plan.tied && (first || last)) {
      table.shared = t.shared.block();
      table.shared_owners = 1u | 1u << (plan.pp - 1);
      elements += table.shared.elements;
    }
    table.num_chunks = static_cast<int32_t>(s.chunks.size());
    table.num_actions = static_cast<int32_t>(s.actions.size());
    table.chunks = s.chunks.data();
    table.actions = s.actions.data();
    table.arena = arenaOf(t, plan, stage, elements, slotsBytes, width);
    t.stages.push_back(table);
  }

  sw_rt_program &p = t.program;
  p = {};
  p.abi_version = SW_RT_ABI_VERSION;
  p.struct_bytes = sizeof(sw_rt_program);
  p.model = "tiny";
  p.plan = "{}";
  p.predicted = "[]";
  p.num_axes = 3;
  p.num_stages = static_cast<int32_t>(plan.pp);
  p.num_kinds = 3;
  p.pp_axis = 0;
  p.dp_axis = 1;
  p.zero = static_cast<int32_t>(plan.zero);
  p.compute_dtype = p.param_dtype = p.grad_dtype = p.master_dtype =
      p.stat_dtype = plan.singlePrecision ? SW_RT_F32 : SW_RT_F64;
  p.vocab = tinyVocab;
  p.sequence = tinySequence;
  p.micro_batch = plan.micro;
  p.global_batch = tinyGlobalBatch;
  p.microbatches = microbatches;
  p.stream_elements = x.tokens * H;
  p.axes = t.axes.data();
  p.kinds = t.kinds.data();
  p.stages = t.stages.data();
  p.update = f.update;
  // No kernels: the functions above are the host's. The image is one that a
  // fake driver takes and a real one refuses.
  static const char text[] = "// no PTX: .entry sw_sum";
  static const sw_rt_image image = {SW_RT_IMAGE_PTX, 80, text, sizeof(text)};
  static sw_rt_device_code code = {
      sizeof(sw_rt_device_code), 1, 0, 0, &image, nullptr, nullptr,
      {"tiny_update", 256, 1024}};
  if (plan.singlePrecision)
    code.update.entry = "tiny_update_f32";
  p.device_code = plan.device ? &code : nullptr;
  return p;
}

} // namespace shardwright::runtime::cts

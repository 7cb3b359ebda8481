#include "cost_model/partition/Layout.h"

#include <algorithm>

namespace shardwright::cost {

namespace {

/// Of a version of a value: see Temporary.
int64_t bytesOf(const Plan &plan, const Function &function,
                const PlannedFunction &planned, ValueId value, int version) {
  const Encoding &encoding =
      version == 0
          ? planned.encodings[value]
          : planned.values[value].reshards.steps[version - 1].result;
  return localBytes(plan, function.values[value], encoding).count();
}

/// Turns one function into temporaries on a line of time.
class Timeline {
public:
  Timeline(const Plan &plan, const Function &function,
           const PlannedFunction &planned, Temporary::Where where, int start)
      : plan(plan), function(function), planned(planned), where(where),
        clock(start) {}

  /// Appends the temporaries; returns the first time behind the function.
  /// `kept[i]`: where the temporary of kept value i stands in `out`, or -1;
  /// read by the weight gradient, written by the data gradient.
  int run(std::vector<Temporary> &out, std::vector<int> &kept) {
    time();
    for (size_t value = 0; value < planned.values.size(); ++value)
      addValue(static_cast<ValueId>(value), out, kept);
    return clock;
  }

private:
  /// Gives every op and every reshard step its event.
  void time() {
    const int ops = static_cast<int>(function.ops.size());
    std::vector<std::vector<std::pair<int, int>>> standing(ops + 1);
    stepTime.resize(planned.values.size());
    for (size_t value = 0; value < planned.values.size(); ++value) {
      const std::vector<int> &before = planned.values[value].before;
      stepTime[value].resize(before.size());
      for (size_t step = 0; step < before.size(); ++step)
        standing[before[step]].emplace_back(value, step);
    }
    opTime.resize(ops);
    producer.assign(function.values.size(), -1);
    for (int op = 0; op <= ops; ++op) {
      for (auto [value, step] : standing[op])
        stepTime[value][step] = clock++;
      if (op == ops)
        break;
      opTime[op] = clock++;
      for (ValueId result : function.ops[op].results)
        producer[result] = op;
    }
  }

  void addValue(ValueId value, std::vector<Temporary> &out,
                std::vector<int> &kept) {
    const auto &valuePlan = planned.values[value];
    const std::vector<ReshardStep> &steps = valuePlan.reshards.steps;
    const int versions = static_cast<int>(steps.size()) + 1;
    std::vector<int> made(versions), last(versions), keptAs(versions, -1);
    std::vector<bool> elsewhere(versions, false);

    made[0] = producer[value] < 0 ? -1 : opTime[producer[value]];
    for (int step = 0; step + 1 < versions; ++step)
      made[step + 1] = stepTime[value][step];
    last = made;
    for (const auto &use : valuePlan.uses) {
      if (use.op >= 0) {
        last[use.served] = std::max(last[use.served], opTime[use.op]);
        continue;
      }
      const Result &result = function.results[use.operand];
      if (result.kind == ResultKind::Kept)
        keptAs[use.served] = result.index;
      else
        elsewhere[use.served] = true;
    }
    for (int step = 0; step + 1 < versions; ++step)
      last[steps[step].source] =
          std::max(last[steps[step].source], stepTime[value][step]);

    int keptArgument = -1;
    if (producer[value] < 0) {
      elsewhere[0] = true;
      for (const Argument &argument : function.arguments)
        if (argument.value == value && argument.kind == ArgKind::Kept)
          keptArgument = argument.index;
    }
    if (keptArgument >= 0 &&
        static_cast<size_t>(keptArgument) < kept.size() &&
        kept[keptArgument] >= 0) {
      Interval &interval = out[kept[keptArgument]].interval;
      interval.last = std::max(interval.last, last[0]);
    }

    // An all-reduce works in the buffer of its source if it reads it last;
    // `buffer[version]` is the version whose buffer it lies in.
    std::vector<int> buffer(versions);
    for (int version = 0; version < versions; ++version) {
      buffer[version] = version;
      if (version == 0)
        continue;
      const ReshardStep &step = steps[version - 1];
      if (step.collective == Collective::AllReduce &&
          last[step.source] == made[version] && producer[value] >= 0)
        buffer[version] = buffer[step.source];
    }
    for (int version = 0; version < versions; ++version) {
      if (buffer[version] != version)
        continue;
      bool outside = false;
      int keptIndex = -1, end = last[version];
      for (int other = version; other < versions; ++other) {
        if (buffer[other] != version)
          continue;
        outside = outside || elsewhere[other];
        end = std::max(end, last[other]);
        if (keptAs[other] >= 0)
          keptIndex = keptAs[other];
      }
      if (outside)
        continue;
      if (keptIndex >= 0) {
        if (kept.size() <= static_cast<size_t>(keptIndex))
          kept.resize(keptIndex + 1, -1);
        kept[keptIndex] = static_cast<int>(out.size());
        end = std::max(end, clock - 1); // to the end of the data gradient
      }
      out.push_back({where, value, version,
                     {made[version], end,
                      bytesOf(plan, function, planned, value, version)}});
    }
  }

  const Plan &plan;
  const Function &function;
  const PlannedFunction &planned;
  Temporary::Where where;
  int clock;
  std::vector<int> opTime, producer;
  std::vector<std::vector<int>> stepTime;
};

Bytes packed(const std::vector<Temporary> &temporaries) {
  std::vector<Interval> intervals;
  intervals.reserve(temporaries.size());
  for (const Temporary &temporary : temporaries)
    intervals.push_back(temporary.interval);
  std::vector<int64_t> offsets;
  return Bytes(pack(intervals, offsets));
}

} // namespace

Temporaries temporariesOf(const Plan &plan, const KindVariant &variant,
                          const PlannedVariant &planned) {
  Temporaries result;
  std::vector<int> none, kept;
  Timeline(plan, variant.forward, planned.forward, Temporary::Forward, 0)
      .run(result.forward, none);
  int end = Timeline(plan, variant.dataGrad, planned.dataGrad,
                     Temporary::DataGrad, 0)
                .run(result.backward, kept);
  Timeline(plan, variant.weightGrad, planned.weightGrad, Temporary::WeightGrad,
           end)
      .run(result.backward, kept);
  return result;
}

void resize(Temporaries &temporaries, const Plan &plan,
            const KindVariant &variant, const PlannedVariant &planned) {
  const auto resizeAll = [&](std::vector<Temporary> &all) {
    for (Temporary &temporary : all) {
      const bool forward = temporary.function == Temporary::Forward,
                 data = temporary.function == Temporary::DataGrad;
      const Function &function = forward ? variant.forward
                                 : data  ? variant.dataGrad
                                         : variant.weightGrad;
      temporary.interval.bytes = bytesOf(plan, function,
                                         forward ? planned.forward
                                         : data  ? planned.dataGrad
                                                 : planned.weightGrad,
                                         temporary.value, temporary.version);
    }
  };
  resizeAll(temporaries.forward);
  resizeAll(temporaries.backward);
}

Bytes workspaceBytes(const Temporaries &temporaries) {
  return std::max(packed(temporaries.forward), packed(temporaries.backward));
}

} // namespace shardwright::cost

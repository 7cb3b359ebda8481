//===- Goodput.cpp - What is left of a step in months of running ----------===//
#include "cost_model/estimate/Goodput.h"
#include "cost_model/base/Normal.h"
#include "cost_model/partition/Layout.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace shardwright::cost {

const std::vector<FailurePreset> &failurePresets() {
  static const std::vector<FailurePreset> presets = {
      {"llama-3", 419.0 / 54 / 16384,
       "419 unexpected interruptions in 54 days on 16,384 H100: The Llama 3 "
       "Herd of Models, arXiv 2407.21783, section 3.3.4"},
      {"rsc-1", 6.50 / 1000 / 8,
       "6.50 failures per 1000 days of a node of 8 A100: Kokolis et al., "
       "Revisiting Reliability in Large-Scale Machine Learning Research "
       "Clusters, arXiv 2410.21680"},
      {"rsc-2", 2.34 / 1000 / 8,
       "2.34 failures per 1000 days of a node of 8 A100: arXiv 2410.21680"},
      {"bloom", 1.5 / 7 / 384,
       "one to two failures of a GPU a week on 384 A100: BLOOM, arXiv "
       "2211.05100"},
      {"one-in-a-thousand", 1e-3,
       "0.1 % of devices a day, a round figure: 10 failures a day of 10,000"},
  };
  return presets;
}

const FailurePreset *failurePreset(std::string_view name) {
  for (const FailurePreset &preset : failurePresets())
    if (preset.name == name)
      return &preset;
  return nullptr;
}

double expectedLargestNormal(int64_t count) {
  if (count <= 1)
    return 0;
  const double n = static_cast<double>(count);
  return normalAbove(1 - (n - 0.375) / (n + 0.25));
}

double checkpointBytes(double parameters, const DTypes &dtypes) {
  return parameters * static_cast<double>(byteWidth(dtypes.param) +
                                          optimizerBytesPerElement(dtypes));
}

CheckpointInterval atInterval(Seconds interval, Seconds stall,
                              Seconds meanTimeBetween) {
  return {interval, stall.count() / interval.count(),
          interval.count() / (2 * meanTimeBetween.count())};
}

CheckpointInterval bestInterval(Seconds stall, Seconds meanTimeBetween) {
  if (stall.count() <= 0) // every step then; nothing is lost
    return {};
  return atInterval(
      Seconds(std::sqrt(2 * stall.count() * meanTimeBetween.count())), stall,
      meanTimeBetween);
}

Goodput goodput(const GoodputQuestion &question) {
  constexpr double day = 86400;
  const Operations &operations = question.operations;
  assert(operations.storageWrite.count() > 0 && question.step.count() > 0);
  Goodput result;
  const double devices = static_cast<double>(question.devices);
  result.failuresPerDay = operations.failuresPerDeviceDay * devices;
  result.write =
      Seconds(question.checkpoint / operations.storageWrite.count());
  result.read = result.write;
  result.stall = result.write;
  if (question.asynchronous)
    result.stall = Seconds(question.checkpoint / devices /
                           question.hostCopy.count());
  result.tokensPerSecond = question.tokensPerStep / question.step.count();
  result.useful = 1;
  if (result.failuresPerDay > 0) {
    result.meanTimeBetween = Seconds(day / result.failuresPerDay);
    const auto choose = [&](Seconds stall, Seconds between, Seconds least) {
      CheckpointInterval best = bestInterval(stall, between);
      const Seconds wanted =
          question.interval.count() > 0 ? question.interval : best.interval;
      const Seconds interval = maximum(wanted, least);
      return interval.count() > 0 ? atInterval(interval, stall, between) : best;
    };
    result.twoTiers = operations.nodeWrite.count() > 0;
    const double share = result.twoTiers ? operations.nodeLossShare : 1;
    if (share > 0)
      result.shared =
          choose(result.stall, Seconds(result.meanTimeBetween.count() / share),
                 question.asynchronous ? result.write : Seconds(0));
    if (result.twoTiers) {
      result.nodeStall =
          Seconds(question.checkpoint / static_cast<double>(question.nodes) /
                  operations.nodeWrite.count());
      if (share < 1)
        result.node = choose(
            result.nodeStall,
            Seconds(result.meanTimeBetween.count() / (1 - share)), Seconds(0));
      result.read = Seconds(share * result.write.count() +
                            (1 - share) * result.nodeStall.count());
    }
    result.restarting = (operations.restart + result.read).count() /
                        result.meanTimeBetween.count();
    result.useful =
        std::max(0.0, 1 - result.shared.checkpointing -
                          result.shared.repeating - result.node.checkpointing -
                          result.node.repeating - result.restarting);
  }
  result.tokensPerDay = result.tokensPerSecond * day * result.useful;
  result.dataBytesPerSecond = result.tokensPerSecond * question.tokenBytes;
  if (question.tokens > 0 && result.tokensPerDay > 0) {
    result.days = question.tokens / result.tokensPerDay;
    result.deviceHours = result.days * 24 * devices;
    result.money = result.deviceHours * operations.pricePerDeviceHour;
  }
  return result;
}

} // namespace shardwright::cost

#include "cost_model/Schedule.h"

#include <catch2/catch.hpp>

#include <random>

using namespace shardwright::cost;

namespace {
constexpr ScheduleKind kinds[] = {ScheduleKind::GPipe, ScheduleKind::OneFOneB};

/// "F0 F1 B0W0": the list of a stage without transfers.
std::string computes(const Schedule &schedule, int64_t stage) {
  std::string text;
  for (const Action &action : schedule.actions[stage]) {
    if (action.kind == ActionKind::Forward)
      text += " F" + std::to_string(action.microbatch);
    if (action.kind == ActionKind::BackwardData)
      text += " B" + std::to_string(action.microbatch);
    if (action.kind == ActionKind::BackwardWeight)
      text += "W" + std::to_string(action.microbatch);
  }
  return text;
}
} // namespace

TEST_CASE("1F1B of three stages and four microbatches, by hand") {
  Schedule s = makeSchedule(ScheduleKind::OneFOneB, 3, 4);
  CHECK(computes(s, 0) == " F0 F1 F2 B0W0 F3 B1W1 B2W2 B3W3");
  CHECK(computes(s, 1) == " F0 F1 B0W0 F2 B1W1 F3 B2W2 B3W3");
  CHECK(computes(s, 2) == " F0 B0W0 F1 B1W1 F2 B2W2 F3 B3W3");
  CHECK(s.slots == std::vector<int64_t>{3, 2, 1});
}

TEST_CASE("GPipe runs all forwards, then backwards in reverse") {
  Schedule s = makeSchedule(ScheduleKind::GPipe, 2, 3);
  CHECK(computes(s, 0) == " F0 F1 F2 B2W2 B1W1 B0W0");
  CHECK(computes(s, 1) == " F0 F1 F2 B2W2 B1W1 B0W0");
  CHECK(s.slots == std::vector<int64_t>{3, 3});
}

TEST_CASE("two stages and one microbatch, action for action") {
  using K = ActionKind;
  Schedule s = makeSchedule(ScheduleKind::OneFOneB, 2, 1);
  std::vector<K> first, second;
  for (const Action &action : s.actions[0])
    first.push_back(action.kind);
  for (const Action &action : s.actions[1])
    second.push_back(action.kind);
  CHECK(first == std::vector<K>{K::Forward, K::SendForward, K::RecvBackward,
                                K::BackwardData, K::BackwardWeight, K::Reduce,
                                K::Step});
  CHECK(second == std::vector<K>{K::RecvForward, K::Forward, K::BackwardData,
                                 K::BackwardWeight, K::SendBackward, K::Reduce,
                                 K::Step});
}

TEST_CASE("every schedule passes the independent check") {
  for (ScheduleKind kind : kinds)
    for (int64_t stages = 1; stages <= 8; ++stages)
      for (int64_t microbatches = 1; microbatches <= 16; ++microbatches) {
        Schedule s = makeSchedule(kind, stages, microbatches);
        INFO(name(kind) << " " << stages << " " << microbatches);
        CHECK(verify(s) == "");
        for (int64_t stage = 0; stage < stages; ++stage)
          CHECK(s.slots[stage] ==
                slotCount(kind, stages, microbatches, stage));
      }
  CHECK(verify(makeSchedule(ScheduleKind::OneFOneB, 16, 128)) == "");
  CHECK(verify(makeSchedule(ScheduleKind::GPipe, 16, 40)) == "");
}

TEST_CASE("a mutated schedule fails the check") {
  std::mt19937 random(7);
  int mutations = 0;
  for (ScheduleKind kind : kinds)
    for (int64_t stages = 1; stages <= 4; ++stages)
      for (int64_t microbatches = 1; microbatches <= 6; ++microbatches) {
        const Schedule good = makeSchedule(kind, stages, microbatches);
        for (size_t stage = 0; stage < good.actions.size(); ++stage)
          for (size_t i = 0; i < good.actions[stage].size(); ++i) {
            INFO(name(kind) << " " << stages << " " << microbatches << " stage "
                            << stage << " action " << i);
            Schedule dropped = good;
            dropped.actions[stage].erase(dropped.actions[stage].begin() + i);
            CHECK(verify(dropped) != "");
            Schedule doubled = good;
            doubled.actions[stage].insert(doubled.actions[stage].begin() + i,
                                          good.actions[stage][i]);
            CHECK(verify(doubled) != "");
            mutations += 2;
          }
      }
  CHECK(mutations > 1000);
}

TEST_CASE("named mistakes are named") {
  Schedule good = makeSchedule(ScheduleKind::OneFOneB, 2, 3);
  auto mentions = [](const Schedule &s, const std::string &text) {
    INFO(verify(s));
    return verify(s).find(text) != std::string::npos;
  };
  Schedule s = good; // both stages want to receive first
  std::swap(s.actions[0][0], s.actions[0][1]);
  CHECK(mentions(s, "does not hold"));

  s = good; // one slot less than is alive
  s.slots[0] = 1;
  CHECK(mentions(s, "slot is out of range or still alive"));

  s = good; // two microbatches in one slot
  for (Action &action : s.actions[0])
    action.slot = 0;
  CHECK(mentions(s, "still alive"));

  s = good; // step before reduce
  std::swap(s.actions[1][s.actions[1].size() - 1],
            s.actions[1][s.actions[1].size() - 2]);
  CHECK(mentions(s, "step without reduce"));

  s = good; // crossing transfers: each side sends what the other awaits later
  for (size_t i = 0; i + 1 < s.actions[0].size(); ++i)
    if (s.actions[0][i].kind == ActionKind::SendForward &&
        s.actions[0][i + 1].kind == ActionKind::RecvBackward) {
      std::swap(s.actions[0][i], s.actions[0][i + 1]);
      break;
    } else if (s.actions[0][i].kind == ActionKind::RecvBackward &&
               s.actions[0][i + 1].kind == ActionKind::SendForward) {
      std::swap(s.actions[0][i], s.actions[0][i + 1]);
      break;
    }
  CHECK(mentions(s, "deadlock"));
}

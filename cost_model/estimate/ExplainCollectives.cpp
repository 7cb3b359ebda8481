//===- ExplainCollectives.cpp - Every collective of an estimate -----------===//
#include "cost_model/estimate/ExplainCollectives.h"
#include "cost_model/estimate/LayerTimes.h"
#include "cost_model/estimate/StageWork.h"
#include "cost_model/hardware/Collective.h"

#include <algorithm>
#include <cmath>

namespace shardwright::cost {
namespace {

/// Mesh axes of a group as the ledger names it.
Axes axesNamed(const Plan &plan, const std::string &axis) {
  Axes axes;
  for (size_t begin = 0; begin <= axis.size();) {
    const size_t end = std::min(axis.find('+', begin), axis.size());
    const std::string part = axis.substr(begin, end - begin);
    for (size_t i = 0; i < plan.mesh.size(); ++i)
      if (plan.mesh[i].name == part)
        axes.push_back(static_cast<Axis>(i));
    begin = end + 1;
  }
  if (!axes.empty())
    return axes;
  for (Degree degree : {Degree::Dp, Degree::Cp, Degree::Tp, Degree::Edp,
                        Degree::Ep, Degree::Etp})
    if (name(degree) == axis)
      return axesOfDegree(plan, degree);
  return axes;
}

Placement placementNamed(const Plan &plan, const Hardware &hardware,
                         const std::string &axis) {
  if (axis == "world")
    return placeGroup(plan.ranks(), 1, hardware.ranksPerNode());
  if (axis == "pp") // two ranks that hold the same parameters
    return placeGroup(2, pipelineStride(plan), hardware.ranksPerNode());
  return placementOf(plan, hardware, axesNamed(plan, axis));
}

/// Bytes of one call that leave a node through one of its NICs: a ring passes
/// every node once, for each of the groups that share its NICs; of rows for
/// experts the part for other nodes leaves.
double nicBytes(const Hardware &hardware, Collective collective, Bytes payload,
                const Placement &at) {
  if (at.nodes <= 1 || hardware.levels.size() < 2)
    return 0;
  const double perRank =
      collective == Collective::AllToAll
          ? static_cast<double>(at.perNode) *
                static_cast<double>(at.ranks - at.perNode) /
                static_cast<double>(at.ranks) *
                static_cast<double>(payload.count())
          : wireBytes(collective, payload, at.ranks);
  return perRank * static_cast<double>(at.sharing) /
         static_cast<double>(hardware.levels[1].nics);
}

class Collectives {
public:
  Collectives(const Program &program, const Hardware &hardware,
              const Profile &profile, const Plan &plan)
      : program(program), hardware(hardware), profile(profile), plan(plan) {}

  std::vector<ExplainedCollective> run(int64_t rank) {
    std::map<LedgerKey, Moved> moved;
    const auto microbatches = static_cast<double>(
        chunkMicrobatches(plan.schedule, plan.microbatches()));
    forEachRun(plan, rank, [&](const StageRun &run, int64_t) {
      const int kind = kindIndex(program, run.kind);
      for (const auto &[phase, move] :
           layerMoves(plan, program.kinds[static_cast<size_t>(kind)],
                      run.recompute, hardware, profile)) {
        const double calls =
            static_cast<double>(run.count) * microbatches * move.calls;
        moved[{move.collective, axisName(plan, move.axes, move.ofExperts),
               phase}]
            .add(calls, calls * static_cast<double>(move.payload.count()),
                 calls * move.time);
      }
    });
    for (const auto &[key, entry] :
         transfersBesideLayers(program, plan, rank)) {
      const auto calls = static_cast<double>(entry.calls);
      moved[key].add(calls, static_cast<double>(entry.payload.count()),
                     calls * timeBesideLayers(
                                 key, Bytes(entry.payload.count() / entry.calls)));
    }
    for (const auto &[key, sum] : moved)
      addCollective(key, sum);
    return std::move(result);
  }

private:
  /// Calls of one key: of all of them together.
  struct Moved {
    double calls = 0, bytes = 0;
    Seconds time;
    void add(double moreCalls, double moreBytes, Seconds moreTime) {
      calls += moreCalls;
      bytes += moreBytes;
      time += moreTime;
    }
  };

  Seconds timeBesideLayers(const LedgerKey &key, Bytes payload) const {
    return isTransfer(key.collective)
               ? borderTime(program, hardware, profile, plan)
               : collectiveTime(hardware, key.collective, payload,
                                placementNamed(plan, hardware, key.axis));
  }
  static bool isTransfer(Collective collective) {
    return collective == Collective::Send || collective == Collective::Recv;
  }

  void addCollective(const LedgerKey &key, const Moved &sum) {
    ExplainedCollective line;
    line.collective = name(key.collective);
    line.axis = key.axis;
    line.phase = name(key.phase);
    line.calls = std::llround(sum.calls);
    line.payloadBytes = sum.bytes / sum.calls;
    line.seconds = sum.time.count();
    line.secondsPerCall = line.seconds / sum.calls;
    const Bytes payload(static_cast<int64_t>(line.payloadBytes));
    if (isTransfer(key.collective)) {
      line.ranks = 2;
      line.algorithm = "p2p";
      // Between neighbours of the pipeline, or of the ring of cp.
      const bool ring = key.axis != "pp";
      const int64_t stride = ring ? plan.tp : pipelineStride(plan);
      const int64_t members = ring ? plan.cp : plan.pp;
      const int64_t perNode = hardware.ranksPerNode();
      if (stride * members > perNode && hardware.levels.size() > 1) {
        line.nodes = 2;
        if (key.collective == Collective::Send) // whose bytes leave the node
          line.nicBytesPerCall =
              line.payloadBytes *
              static_cast<double>(std::min(stride, perNode)) /
              static_cast<double>(hardware.levels[1].nics);
      }
    } else {
      const Placement at = placementNamed(plan, hardware, key.axis);
      line.ranks = at.ranks;
      line.nodes = at.nodes;
      line.perNode = at.perNode;
      line.sharing = at.sharing;
      const CollectiveTime priced =
          priceCollective(hardware, key.collective, payload, at);
      line.algorithm = name(priced.algorithm);
      line.protocol = name(priced.protocol);
      line.nicBytesPerCall = nicBytes(hardware, key.collective, payload, at);
    }
    result.push_back(std::move(line));
  }

  const Program &program;
  const Hardware &hardware;
  const Profile &profile;
  const Plan &plan;
  std::vector<ExplainedCollective> result;
};

} // namespace

std::vector<ExplainedCollective>
explainCollectives(const Program &program, const Hardware &hardware,
                   const Profile &profile, const Plan &plan, int64_t rank) {
  return Collectives(program, hardware, profile, plan).run(rank);
}

} // namespace shardwright::cost

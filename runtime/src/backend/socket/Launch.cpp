//===- Launch.cpp - What a launcher has told this process -----------------===//
#include "runtime/src/backend/socket/SocketWorld.h"

#include <charconv>
#include <cstdlib>

namespace shardwright::runtime {
namespace {

/// Reads variable `name` if it is there. False with `why` if it is no number of
/// the range.
bool number(const char *name, int least, int most, int &value, bool &isThere,
            std::string &why) {
  const char *text = std::getenv(name);
  isThere = text != nullptr;
  if (!isThere)
    return true;
  const std::string_view view(text);
  const auto [end, error] =
      std::from_chars(view.data(), view.data() + view.size(), value);
  if (error == std::errc() && end == view.data() + view.size() &&
      value >= least && value <= most)
    return true;
  why = std::string("expected the environment's ") + name +
        " to be a number from " + std::to_string(least) + " to " +
        std::to_string(most) + ", but got '" + text + "'";
  return false;
}

bool missing(const char *name, const char *beside, std::string &why) {
  why = std::string("expected the environment to have ") + name + " beside " +
        beside + ", but it has not";
  return false;
}

constexpr int mostRanks = 1 << 20;

} // namespace

std::string firstSlurmHost(const std::string &list) {
  const size_t bracket = list.find_first_of("[,");
  std::string host = list.substr(0, bracket);
  if (bracket != std::string::npos && list[bracket] == '[') {
    const size_t end = list.find_first_of("-,]", bracket);
    host += list.substr(bracket + 1, end - bracket - 1);
    // What follows the bracket belongs to the name too.
    const size_t close = list.find(']', bracket);
    if (close != std::string::npos)
      host += list.substr(close + 1, list.find(',', close) - close - 1);
  }
  return host;
}

bool Launch::read(Launch &launch, std::string &why) {
  launch = {};
  bool isThere = false;
  const char *sizeName = "WORLD_SIZE", *rankName = "RANK",
             *localName = "LOCAL_RANK";
  if (!number(sizeName, 1, mostRanks, launch.size, isThere, why))
    return false;
  const bool isTorchrun = isThere;
  if (!isTorchrun) {
    // Set by srun alone: a batch script itself is no rank.
    sizeName = "SLURM_STEP_NUM_TASKS";
    rankName = "SLURM_PROCID";
    localName = "SLURM_LOCALID";
    if (!number(sizeName, 1, mostRanks, launch.size, isThere, why))
      return false;
    if (!isThere)
      return true;
  }
  if (launch.size == 1)
    return true;
  if (!number(rankName, 0, launch.size - 1, launch.rank, isThere, why))
    return false;
  if (!isThere)
    return missing(rankName, sizeName, why);
  if (!number(localName, 0, launch.size - 1, launch.localRank, isThere, why))
    return false;
  if (!isThere)
    return missing(localName, sizeName, why);

  if (const char *host = std::getenv("MASTER_ADDR")) {
    launch.host = host;
  } else if (isTorchrun) {
    return missing("MASTER_ADDR", sizeName, why);
  } else {
    const char *nodes = std::getenv("SLURM_STEP_NODELIST");
    if (!nodes)
      return missing("SLURM_STEP_NODELIST", sizeName, why);
    launch.host = firstSlurmHost(nodes);
  }
  if (!number("MASTER_PORT", 1, 65534, launch.port, isThere, why))
    return false;
  if (isThere) {
    // torchrun's own store listens at that port.
    launch.port += isTorchrun ? 1 : 0;
  } else if (isTorchrun) {
    return missing("MASTER_PORT", sizeName, why);
  } else {
    // All processes of a step know the job's number; others seldom share it.
    int job = 0;
    if (!number("SLURM_JOB_ID", 0, INT32_MAX, job, isThere, why))
      return false;
    launch.port = 20000 + job % 20000;
  }
  return true;
}

} // namespace shardwright::runtime

//===- Goodput.h - What is left of a step in months of running --*- C++ -*-===//
//
// Failures, checkpoints, restarts, stragglers, data and money. First-order
// formulas that a calculator repeats; every input has a name and a source.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_ESTIMATE_GOODPUT_H
#define SHARDWRIGHT_COST_MODEL_ESTIMATE_GOODPUT_H

#include "cost_model/hardware/Operations.h"
#include "cost_model/plan/Plan.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::cost {

/// How often devices failed in a published run.
struct FailurePreset {
  std::string_view name;
  double perDeviceDay; ///< interruptions of the job, per device and day
  std::string_view source;
};
const std::vector<FailurePreset> &failurePresets();
/// Null if there is none of that name.
const FailurePreset *failurePreset(std::string_view name);

/// Expected largest of `count` standard normal numbers, by Blom's quantile
/// (n - 0.375) / (n + 0.25): 3.2 of 1024. For large n sqrt(2 ln n) to first
/// order. 0 of one. Ranks that meet in a step wait for the slowest: with speeds
/// that deviate by s a step takes s times this longer.
double expectedLargestNormal(int64_t count);

/// Bytes of a checkpoint: every parameter once, in its own width and as master
/// copy and two moments.
double checkpointBytes(double parameters, const DTypes &dtypes);

/// Interval of checkpoints that loses least, for failures `meanTimeBetween`
/// apart and checkpoints that hold training up for `stall`: sqrt(2 C M); lost
/// are C / T for checkpoints and T / (2 M) for work that is done again, together
/// sqrt(2 C / M). Source: Young, CACM 17(9):530-531, 1974.
struct CheckpointInterval {
  Seconds interval;
  double checkpointing = 0, repeating = 0; ///< shares of the time
};
CheckpointInterval bestInterval(Seconds stall, Seconds meanTimeBetween);
/// The same losses at an interval that somebody chose.
CheckpointInterval atInterval(Seconds interval, Seconds stall,
                              Seconds meanTimeBetween);

struct GoodputQuestion {
  int64_t devices = 1, nodes = 1;
  Seconds step;
  double tokensPerStep = 0;
  double checkpoint = 0; ///< bytes
  Operations operations; ///< complete: no zeros where a division needs it
  /// Checkpoints are copied to the host and written while training goes on: they
  /// hold it up for the copy alone, but follow one another no faster than they
  /// are written.
  bool asynchronous = false;
  BytesPerSecond hostCopy; ///< of one device, for asynchronous checkpoints
  Seconds interval;        ///< 0: the best one
  double tokens = 0;       ///< to train on; 0: not asked
  double tokenBytes = 4;   ///< read for a token
};

struct Goodput {
  double failuresPerDay = 0;
  Seconds meanTimeBetween;
  Seconds write;           ///< of one checkpoint to the shared file system
  Seconds stall;           ///< that it holds training up
  CheckpointInterval shared;
  bool twoTiers = false;   ///< nodes keep checkpoints of their own
  Seconds nodeStall;
  CheckpointInterval node;
  Seconds read;            ///< of a checkpoint, after a failure
  double restarting = 0;   ///< share of the time
  double useful = 0;       ///< share of the time that steps are kept
  double tokensPerSecond = 0, tokensPerDay = 0; ///< of useful time
  double dataBytesPerSecond = 0;                ///< that the tokens need
  double days = 0, deviceHours = 0, money = 0;  ///< to `tokens`
};
/// With two tiers, failures that leave the nodes whole go back to the nodes'
/// checkpoints, and only nodeLossShare of them to the shared ones.
Goodput goodput(const GoodputQuestion &question);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_ESTIMATE_GOODPUT_H

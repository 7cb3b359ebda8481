//===- Options.h - Flags of a compiled program ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_OPTIONS_H
#define SHARDWRIGHT_RUNTIME_TRAIN_OPTIONS_H

#include <cstdint>
#include <string>

namespace shardwright::runtime {

enum class LrDecay { Constant, Linear, Cosine };

struct Options {
  int64_t ranks = 0;   ///< 0: as many as the plan has
  int64_t threads = 0; ///< of this process; 0: see JobOptions
  int64_t steps = 10;
  std::string data;
  uint64_t seed = 0;
  double learningRate = 3e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8,
         weightDecay = 0.1, clip = 1.0;
  LrDecay decay = LrDecay::Constant;
  double minLearningRate = 0;
  int64_t warmupSteps = 0;
  int64_t decaySteps = 0; ///< 0: as many as steps
  double timeoutSeconds = 120;
  double linkLatencyMicroseconds = 0, linkMegabitsPerSecond = 0;
  std::string trace, dump, save, load;
  int64_t saveEvery = 0; ///< 0: behind the last step
  bool otherData = false; ///< than what --load was trained on
  bool json = false, dryRun = false, help = false, tf32 = false;
  int64_t rank = -1; ///< of --dry-run; below 0: not given, the first
};

/// Reads the flags, "--name value" or "--name=value". Returns false with `why`.
bool parseOptions(int argc, const char *const *argv, Options &options,
                  std::string &why);
/// Text of --help.
std::string helpText(const char *program, const char *model,
                     const std::string &mesh);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_OPTIONS_H

//===- Options.cpp - Flags of a compiled program --------------------------===//
#include "runtime/src/train/Options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace shardwright::runtime {
namespace {

struct Flag {
  const char *name;
  const char *value; ///< what it takes; null for a switch
  const char *help;
  /// Sets the option; false if the text is not what it takes.
  std::function<bool(Options &, std::string_view)> set;
};

template <typename T> bool number(std::string_view text, T &target) {
  const char *end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, target);
  return error == std::errc() && at == end && !text.empty();
}

std::function<bool(Options &, std::string_view)>
integer(int64_t Options::*field, int64_t least,
        int64_t most = std::numeric_limits<int64_t>::max()) {
  return [=](Options &options, std::string_view text) {
    return number(text, options.*field) && options.*field >= least &&
           options.*field <= most;
  };
}

std::function<bool(Options &, std::string_view)> real(double Options::*field,
                                                      bool positive = false) {
  return [=](Options &options, std::string_view text) {
    double value = 0;
    if (!number(text, value) || !std::isfinite(value) || value < 0 ||
        (positive && value == 0))
      return false;
    options.*field = value;
    return true;
  };
}

std::function<bool(Options &, std::string_view)>
share(double Options::*field) {
  return [=](Options &options, std::string_view text) {
    return real(field)(options, text) && options.*field < 1;
  };
}

std::function<bool(Options &, std::string_view)>
path(std::string Options::*field) {
  return [=](Options &options, std::string_view text) {
    options.*field = text;
    return !text.empty();
  };
}

std::function<bool(Options &, std::string_view)> on(bool Options::*field) {
  return
      [=](Options &options, std::string_view) { return options.*field = true; };
}

/// In the order of --help.
const std::vector<Flag> &flags() {
  static const std::vector<Flag> table = {
      {"--data", "a file",
       "tokens to train on: bytes of a text, or u16 in a .bin",
       path(&Options::data)},
      {"--steps", "a number from 1", "optimizer steps (10)",
       integer(&Options::steps, 1)},
      {"--ranks", "a number from 1",
       "ranks, as threads of this process; must equal the plan's",
       integer(&Options::ranks, 1)},
      {"--threads", "a number from 1 to 1024",
       "that the ranks of this process compute with (all cores; 1 under MPI)",
       integer(&Options::threads, 1, 1024)},
      {"--seed", "a number from 0", "of initial parameters and data order (0)",
       [](Options &options, std::string_view text) {
         return number(text, options.seed);
       }},
      {"--lr", "a number from 0", "learning rate (3e-4)",
       real(&Options::learningRate)},
      {"--lr-decay", "constant, linear or cosine",
       "to --min-lr, behind the warm-up (constant)",
       [](Options &options, std::string_view text) {
         constexpr std::pair<std::string_view, LrDecay> styles[] = {
             {"constant", LrDecay::Constant},
             {"linear", LrDecay::Linear},
             {"cosine", LrDecay::Cosine}};
         for (const auto &[name, style] : styles)
           if (text == name) {
             options.decay = style;
             return true;
           }
         return false;
       }},
      {"--min-lr", "a number from 0", "where the decay ends (0)",
       real(&Options::minLearningRate)},
      {"--lr-warmup-steps", "a number from 0",
       "over which it grows from 0 (0)", integer(&Options::warmupSteps, 0)},
      {"--lr-decay-steps", "a number from 1",
       "at which the decay ends (--steps)", integer(&Options::decaySteps, 1)},
      {"--beta1", "a number from 0 and below 1", "of AdamW (0.9)",
       share(&Options::beta1)},
      {"--beta2", "a number from 0 and below 1", "of AdamW (0.95)",
       share(&Options::beta2)},
      {"--eps", "a number above 0", "of AdamW (1e-8)",
       real(&Options::eps, true)},
      {"--weight-decay", "a number from 0", "of AdamW, on matrices (0.1)",
       real(&Options::weightDecay)},
      {"--clip", "a number from 0", "largest global gradient norm; 0: none (1)",
       real(&Options::clip)},
      {"--tf32", nullptr,
       "multiply f32 in tf32 on GPUs that can; others ignore it",
       on(&Options::tf32)},
      {"--json", nullptr, "one JSON object a step, then a summary",
       on(&Options::json)},
      {"--save", "a file",
       "checkpoint: parameters and optimizer state behind the last step",
       path(&Options::save)},
      {"--save-every", "a number from 1",
       "steps behind which --save is written, too",
       integer(&Options::saveEvery, 1)},
      {"--load", "a file",
       "checkpoint to go on from, of any plan of the model; --steps counts its "
       "steps, too",
       path(&Options::load)},
      {"--other-data", nullptr,
       "go on from --load with tokens other than it was trained on",
       on(&Options::otherData)},
      {"--dump", "a file",
       "safetensors of the last step's gradients before "
       "clipping and of the parameters after it",
       path(&Options::dump)},
      {"--trace", "a file", "chrome trace of the run", path(&Options::trace)},
      {"--timeout", "a number of seconds above 0",
       "longest wait for another rank (120)",
       real(&Options::timeoutSeconds, true)},
      {"--link-latency-us", "a number from 0",
       "emulated latency of a message in microseconds (0)",
       real(&Options::linkLatencyMicroseconds)},
      {"--link-bandwidth-mbps", "a number from 0",
       "emulated bandwidth out of a rank in 10^6 bits per second (0: no limit)",
       real(&Options::linkMegabitsPerSecond)},
      {"--dry-run", nullptr,
       "print what --rank would do, communicate and hold; run nothing",
       on(&Options::dryRun)},
      {"--rank", "a number from 0", "rank of --dry-run (0)",
       integer(&Options::rank, 0)},
      {"--help", nullptr, "print this", on(&Options::help)},
  };
  return table;
}

} // namespace

/// No output may be the data or the other output: one would destroy the other.
static bool filesApart(const Options &options, std::string &why) {
  namespace fs = std::filesystem;
  const std::pair<const char *, const std::string *> files[] = {
      {"--data", &options.data},
      {"--load", &options.load},
      {"--save", &options.save},
      {"--dump", &options.dump},
      {"--trace", &options.trace}};
  std::error_code error;
  for (size_t i = 0; i < std::size(files); ++i)
    for (size_t j = 0; j < i; ++j) {
      const std::string &a = *files[j].second, &b = *files[i].second;
      if (a.empty() || b.empty() || fs::is_character_file(b, error))
        continue;
      if (&a == &options.load && &b == &options.save)
        continue; // the new one takes its place when it is whole
      if (fs::path(a).lexically_normal() == fs::path(b).lexically_normal() ||
          fs::equivalent(a, b, error)) {
        why = std::string("expected ") + files[i].first + " to be another file "
              "than " + files[j].first + ", but got '" + b + "' for both";
        return false;
      }
    }
  return true;
}

/// What says how a rate decays has to be one that does.
static bool decays(const Options &options, std::string &why) {
  const auto refuse = [&](std::string text) {
    why = std::move(text);
    return false;
  };
  const auto text = [](double value) {
    char digits[32];
    return std::string(digits, std::to_chars(digits, std::end(digits), value).ptr);
  };
  if (options.decay == LrDecay::Constant) {
    for (const auto &[flag, isGiven] :
         {std::pair("--min-lr", options.minLearningRate > 0),
          std::pair("--lr-decay-steps", options.decaySteps > 0)})
      if (isGiven)
        return refuse(std::string("expected --lr-decay linear or cosine "
                                  "beside ") +
                      flag + ", but the rate is constant");
    return true;
  }
  if (options.minLearningRate > options.learningRate)
    return refuse("expected --min-lr to be at most the " +
                  text(options.learningRate) + " of --lr, but got " +
                  text(options.minLearningRate));
  if (options.decaySteps && options.decaySteps <= options.warmupSteps)
    return refuse("expected --lr-decay-steps to be above the " +
                  std::to_string(options.warmupSteps) +
                  " of --lr-warmup-steps, but got " +
                  std::to_string(options.decaySteps));
  return true;
}

bool parseOptions(int argc, const char *const *argv, Options &options,
                  std::string &why) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i], value;
    const size_t equals = argument.find('=');
    const bool joined = equals != std::string_view::npos;
    if (joined) {
      value = argument.substr(equals + 1);
      argument = argument.substr(0, equals);
    }
    const Flag *flag = nullptr;
    for (const Flag &candidate : flags())
      if (argument == candidate.name)
        flag = &candidate;
    if (!flag) {
      why = "expected a flag that --help lists, but got '" +
            std::string(argument) + "'";
      return false;
    }
    if (!flag->value && joined) {
      why = std::string("expected ") + flag->name +
            " to take no value, but got '" + std::string(value) + "'";
      return false;
    }
    if (flag->value && !joined) {
      if (i + 1 == argc) {
        why = std::string("expected ") + flag->name + " to be followed by " +
              flag->value + ", but got nothing";
        return false;
      }
      value = argv[++i];
    }
    if (!flag->set(options, value)) {
      why = std::string("expected ") + flag->name + " to be " + flag->value +
            ", but got '" + std::string(value) + "'";
      return false;
    }
  }
  if (options.rank >= 0 && !options.dryRun && !options.help) {
    why = "expected --dry-run beside --rank, which chooses the rank that it "
          "prints, but got --rank " + std::to_string(options.rank) + " alone";
    return false;
  }
  options.rank = std::max<int64_t>(options.rank, 0);
  if (options.saveEvery && options.save.empty()) {
    why = "expected --save FILE beside --save-every, but got none";
    return false;
  }
  if (options.otherData && options.load.empty()) {
    why = "expected --load FILE beside --other-data, but got none";
    return false;
  }
  return decays(options, why) && filesApart(options, why);
}

std::string helpText(const char *program, const char *model,
                     const std::string &mesh) {
  std::string text = std::string("Trains ") + model + " on " + mesh +
                     ".\n\nusage: " + program +
                     " --data FILE [flags]\n       mpirun -n RANKS " + program +
                     " --data FILE [flags]\n       torchrun or srun, with one "
                     "process a rank\n\n";
  for (const Flag &flag : flags()) {
    std::string line = std::string("  ") + flag.name;
    if (flag.value)
      line += " X";
    line.resize(std::max<size_t>(line.size() + 1, 28), ' ');
    text += line + flag.help + "\n";
  }
  text += "\nexit codes: 0 done, 1 a bug, 2 a check failed or a rank is gone, "
          "3 unsupported,\n            4 bad input file, 5 bad usage\n";
  return text;
}

} // namespace shardwright::runtime

//===- Inputs.h - Files and names that the verbs read -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_INPUTS_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_INPUTS_H

#include "compiler/Files/OutputFile.h"
#include "compiler/Files/ReadText.h"
#include "cost_model/hardware/Hardware.h"
#include "cost_model/hardware/Profile.h"
#include "cost_model/program/Program.h"

#include <string>
#include <string_view>
#include <vector>

namespace shardwright::tools {

/// A model as the tools need it: the program and what names it in a plan.
struct Model {
  cost::Program program;
  std::string sha256; ///< of the canonical program.json
  std::vector<std::string> notes; ///< what the importer left out on purpose
};

/// A cluster cut to the ranks that the question is about.
struct Cluster {
  cost::Hardware hardware;
  std::string sha256; ///< of the cluster file's text
};

/// Refuses an output that is one of `inputs` (files, or model folders), another
/// output of the same command, or a folder. Empty names are skipped.
bool checkOutputs(const std::vector<std::string> &outputs,
                  const std::vector<std::string> &inputs,
                  cost::Failure &failure);

/// `path` is a config.json or its folder; `sequence` 0 means the config's.
bool loadModel(const std::string &path, int64_t sequence, Model &model,
               cost::Failure &failure);

struct ClusterText {
  std::string text;
  std::string file; ///< as messages name it
};

/// `name`, behind `flag`, is that of a shipped cluster, or a file.
bool readClusterText(const std::string &name, const std::string &flag,
                     ClusterText &cluster, cost::Failure &failure);
/// The same of --cluster. Not resized.
bool loadCluster(const std::string &name, Cluster &cluster,
                 cost::Failure &failure);
/// Cuts or extends `cluster` to `gpus`; 0 keeps its own size.
bool resizeCluster(Cluster &cluster, int64_t gpus, cost::Failure &failure);

/// `name` is that of a shipped profile, or a file.
bool loadProfile(const std::string &name, cost::Profile &profile,
                 cost::Failure &failure);

/// A rate one way: "50e9" and "50GB/s" are bytes a second, "400Gb/s" bits.
bool parseRate(const std::string &text, cost::BytesPerSecond &rate);

/// A positive count of bytes: "80GiB", "64 GB", "1e9", "85899345920".
bool parseBytes(const std::string &text, cost::Bytes &bytes);

/// "a, b"
std::string joined(const std::vector<std::string> &words,
                   std::string_view between = ", ");

/// ": did you mean 'x'?" for the nearest of `names`, or nothing.
std::string nearest(const std::string &word,
                    const std::vector<std::string> &names);

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_INPUTS_H

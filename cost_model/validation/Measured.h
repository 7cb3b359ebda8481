//===- Measured.h - Predictions against kernels and collectives -*- C++ -*-===//
//
// Rows of JSON lines, one measured kernel or collective each, and what the
// formulas of Kernel.h and Collective.h say of them.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_VALIDATION_MEASURED_H
#define SHARDWRIGHT_COST_MODEL_VALIDATION_MEASURED_H

#include "cost_model/validation/Validation.h"

namespace shardwright::cost {

/// The shipped cluster of a GPU by any of its usual names ("H100-SXM",
/// "A100-SXM-80G (p4de.24xlarge)", "NVIDIA A100-SXM4-80GB"); null if there is
/// none.
const char *clusterOfGpu(std::string_view gpu);

/// Sizes the node of a shipped cluster for a job of `ranks`, `perNode` to a
/// node with `nics` ports (0: as many for each device as the cluster has).
/// Where the domain of fast links is wider than a node (NVL72), it becomes the
/// largest multiple of a node within it that divides the job.
void setNode(Hardware &hardware, int64_t ranks, int64_t perNode, int64_t nics);

struct MeasuredOutcome {
  std::string group;       ///< device, kernel or collective, dtype
  std::string source;      ///< as the row states it; may be empty
  std::string shape;       ///< for people
  std::string unsupported; ///< empty if predicted
  /// Of the cluster file, as a JSON pointer: the figure to which the prediction
  /// is inversely proportional, all but latencies; empty if there is none.
  std::string figure;
  double measuredSeconds = 0, predictedSeconds = 0;
};

struct MeasuredReport {
  std::vector<MeasuredOutcome> rows;
  std::map<std::string, ErrorStatistics> groups;
  ErrorStatistics summary;
  std::map<std::string, int64_t> unsupported; ///< reason -> rows
};

/// Collectives as nccl-tests reports them: `bytes` is its size column. Rows are
/// grouped by device, nodes and whether they are of 1 MiB at least. Of sources
/// that are known to time something else (a call with the host's part, one forced
/// algorithm) the same is predicted. `own`: predict the rows of its device, and
/// no others, with it; null: each with the shipped cluster of its GPU.
bool compareCollectives(std::string_view text, std::string_view file,
                        MeasuredReport &report, Failure &failure,
                        const Hardware *own = nullptr);

/// Products of 1 GFLOP at least in bf16 or f16, and fused attention. Kernel
/// tables are short runs: the power limit (GemmCurve::powerFraction) is left
/// out.
bool compareKernels(std::string_view text, std::string_view file,
                    MeasuredReport &report, Failure &failure,
                    const Hardware *own = nullptr);

/// The report as JSON: `rows`, `groups`, `summary`, `unsupported`.
std::string measuredJson(const MeasuredReport &report);

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_VALIDATION_MEASURED_H

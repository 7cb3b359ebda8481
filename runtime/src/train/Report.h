//===- Report.h - What a run prints and writes ------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_REPORT_H
#define SHARDWRIGHT_RUNTIME_TRAIN_REPORT_H

#include "runtime/src/train/Trainer.h"

namespace shardwright::runtime {

struct StepLine {
  int64_t step; ///< from 1
  StepResult result;
  double seconds, tokensPerSecond;
};
std::string stepText(const StepLine &line);
std::string stepJson(const StepLine &line);

/// Facts of one rank for the summary, as a JSON object.
std::string rankReport(const sw_rt_context &context, const Trainer &trainer,
                       const Ledger &ledger, bool stepsAgree);

struct RunFacts {
  const char *backend; ///< "threads", "mpi" or "sockets"
  const char *device;  ///< "host" or "cuda"
  int64_t steps;
  double seconds; ///< of all steps
  StepResult last;
};
/// {"summary": {...}} from the reports of all ranks: the measured ledger of one
/// step per stage, beside whether it equals the prediction in the program.
std::string summaryJson(const sw_rt_program &program, const Mesh &mesh,
                        const RunFacts &facts,
                        const std::vector<std::string> &ranks);

/// Rank 0 gets the text of every rank, in order; the others an empty list.
sw_rt_status gatherTexts(sw_rt_context &context, const std::string &text,
                         std::vector<std::string> &texts);

/// All ranks get the bytes that rank 0 has.
sw_rt_status shareUnbooked(sw_rt_context &context, void *bytes, int64_t count);

/// "the host", "CUDA GPUs (sm_80, sm_90)".
std::string targetText(const sw_rt_program &program);
/// What --dry-run prints.
std::string dryRunText(const sw_rt_program &program, const Mesh &mesh,
                       int64_t rank);
std::string dryRunJson(const sw_rt_program &program, const Mesh &mesh,
                       int64_t rank);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_REPORT_H

#include "tools/shardwright/SavedPlan.h"

#include "tools/shardwright/PlanFlags.h"

#include <ostream>

namespace shardwright::tools {

using namespace cost;

bool readSavedPlan(const std::string &path, const std::string &model,
                   const QuestionFlags &flags, bool searches, Plan &plan,
                   Question &question, std::ostream &err, Failure &failure) {
  std::string stated;
  const auto states = [&](bool given, const std::string &flag) {
    if (given)
      stated += (stated.empty() ? "" : ", ") + flag;
  };
  states(flags.gpus > 0, "--gpus " + std::to_string(flags.gpus));
  states(!flags.dtype.empty(), "--dtype " + flags.dtype);
  // What a search beside the plan may choose from is a question.
  states(!flags.products.empty() && !(searches && flags.products == "any"),
         "--products " + flags.products);
  states(!flags.gradients.empty() && !(searches && flags.gradients == "any"),
         "--gradients " + flags.gradients);
  if (!stated.empty())
    return refuse(failure, Diag::conflicting_flags,
                  path + ": the plan states GPUs and types; drop " + stated +
                      " (--global-batch and --sequence ask what it costs for "
                      "another step)");
  if (!loadPlan(path, model, plan, failure) ||
      !readQuestion(model, flags, plan.sequence, question, failure) ||
      !requireLegal(path, question.model.program, plan, FailureKind::Input,
                    failure, flags.asked(question.framework)))
    return false;
  std::string changes;
  if (flags.globalBatch && flags.globalBatch != plan.globalBatch) {
    plan.globalBatch = flags.globalBatch;
    changes += " with --global-batch " + std::to_string(plan.globalBatch);
  }
  if (flags.sequence && flags.sequence != plan.sequence) {
    Question other;
    if (!readQuestion(model, flags, flags.sequence, other, failure))
      return false;
    question = std::move(other);
    plan.sequence = flags.sequence;
    plan.modelSha256 = question.model.sha256; // which depends on it
    changes += " with --sequence " + std::to_string(plan.sequence);
  }
  if (!changes.empty() &&
      !requireLegal(path + changes, question.model.program, plan,
                    FailureKind::Usage, failure,
                    flags.asked(question.framework)))
    return false;
  warnOfCluster(path, plan, question.cluster, err);
  question.base.dtypes = plan.dtypes;
  return true;
}

} // namespace shardwright::tools

//===- CommandSweep.cpp - The best plan over many questions ---------------===//

#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Constraints.h"
#include "tools/shardwright/PlanJson.h"
#include "tools/shardwright/Question.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct SweepOptions {
  std::vector<std::string> models, clusters;
  std::vector<int64_t> gpus, sequences, batches;
  QuestionFlags question;
  SearchFlags search;
  bool csv = false, json = false;
};

/// One question of a sweep and its answer.
struct SweepLine {
  std::string model, cluster;
  int64_t gpus = 0, sequence = 0, globalBatch = 0;
  int64_t askedBatch = 0; ///< 0: the default, which grows with the GPUs
  bool proven = true;     ///< the search ended, so `best` is the best
  std::string planText;     ///< or why there is none
  std::optional<RankedPlan> best;
  Json json;
};

double tokensPerSecond(const SweepLine &line) {
  return static_cast<double>(line.globalBatch) *
         static_cast<double>(line.sequence) /
         line.best->estimate.stepTime.count();
}

bool ask(const SweepOptions &options, const std::string &model,
         const std::string &cluster, int64_t gpus, int64_t sequence,
         int64_t batch, SweepLine &line, std::ostream &err, Failure &failure) {
  QuestionFlags flags = options.question;
  flags.cluster = cluster;
  flags.gpus = gpus;
  flags.sequence = sequence;
  flags.globalBatch = batch;
  Question question;
  SearchAnswer found;
  if (!readQuestion(model, flags, 0, question, failure))
    return false;
  const Program &program = question.model.program;
  line.model = program.name;
  line.askedBatch = batch;
  Failure why;
  if (!answer(question, flags, options.search, {err, err}, found, why)) {
    // One size that the cluster cannot be cut to is no reason to say nothing of
    // the others.
    if (why.messages.front().id != Diag::device_count) {
      failure = why;
      return false;
    }
    line.cluster = question.cluster.hardware.name;
    line.gpus = gpus;
    line.sequence = program.sequence;
    line.globalBatch = batch;
    line.planText = why.messages.front().text;
    return true;
  }
  line.cluster = question.cluster.hardware.name;
  line.gpus = found.options.gpus;
  line.sequence = program.sequence;
  line.globalBatch = found.options.globalBatch;
  line.proven = found.result.counters.proven;
  if (found.result.plans.empty()) {
    line.planText = whyNothing(question, found).messages.front().text;
    return true;
  }
  line.best = found.result.plans.front();
  line.planText = planText(program, line.best->plan);
  line.json = pricedPlanJson(program, line.best->plan, line.best->estimate,
                             found.options.memoryLimit);
  return true;
}

/// How the speed of a line relates to the one before, a GPU of each: what more
/// GPUs bring. Empty if the lines differ in more than their size.
std::string scalingText(const std::vector<SweepLine> &lines, size_t i) {
  if (i == 0 || !lines[i].best || !lines[i - 1].best ||
      lines[i].model != lines[i - 1].model ||
      lines[i].cluster != lines[i - 1].cluster ||
      lines[i].sequence != lines[i - 1].sequence ||
      lines[i].askedBatch != lines[i - 1].askedBatch ||
      lines[i].gpus == lines[i - 1].gpus)
    return "";
  return percentText(lines[i].best->estimate.tokensPerSecondPerGpu /
                     lines[i - 1].best->estimate.tokensPerSecondPerGpu);
}

std::string inQuotes(const std::string &text) {
  std::string result = "\"";
  for (char c : text)
    result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

/// A field of a plan; of a list the numbers, joined as `predict` takes them.
std::string csvText(const Json &value) {
  if (value.is_string())
    return value.get<std::string>();
  if (!value.is_array())
    return value.dump();
  std::string list;
  for (const Json &entry : value)
    list += (list.empty() ? "" : ",") + entry.dump();
  return inQuotes(list);
}

void print(const std::vector<SweepLine> &lines, std::ostream &out) {
  using Align = Table::Align;
  Table table({"model", "cluster", "GPUs", "sequence", "batch", "step", "MFU",
               "tokens/s", "tokens/s/GPU", "of the last", "memory/rank",
               "best plan"},
              {Align::Left, Align::Left, Align::Right, Align::Right,
               Align::Right, Align::Right, Align::Right, Align::Right,
               Align::Right, Align::Right, Align::Right, Align::Left});
  for (size_t i = 0; i < lines.size(); ++i) {
    const SweepLine &line = lines[i];
    std::vector<std::string> cells = {
        line.model, line.cluster, groupedText(line.gpus),
        groupedText(line.sequence), groupedText(line.globalBatch)};
    if (line.best) {
      const Estimate &estimate = line.best->estimate;
      cells.insert(cells.end(),
                   {secondsText(estimate.stepTime),
                    percentText(estimate.modelFlopsUtilization),
                    siText(tokensPerSecond(line)),
                    groupedText(std::llround(estimate.tokensPerSecondPerGpu)),
                    scalingText(lines, i), bytesText(line.best->memory)});
    } else {
      cells.insert(cells.end(), {"-", "-", "-", "-", "", "-"});
    }
    cells.push_back(line.planText + (line.proven ? "" : " (search stopped)"));
    table.add(cells);
  }
  out << table.text();
}

void printCsv(const std::vector<SweepLine> &lines, std::ostream &out) {
  out << "model,cluster,gpus,sequence,global_batch,step_time_seconds,mfu,"
         "tokens_per_second,tokens_per_second_per_gpu,"
         "memory_bytes_per_rank_max,tp,pp,dp,cp,cp_kind,ep,etp,sp,zero,"
         "zero_ranks,offload,order,products,gradients,microbatch,microbatches,"
         "schedule,vp,microbatch_group,layers_per_stage,recompute,"
         "recompute_layers_per_stage,proven,plan\n";
  for (const SweepLine &line : lines) {
    out << inQuotes(line.model) << ',' << inQuotes(line.cluster) << ','
        << line.gpus << ',' << line.sequence << ',' << line.globalBatch << ',';
    if (line.best) {
      const Plan &plan = line.best->plan;
      out << line.best->estimate.stepTime.count() << ','
          << line.best->estimate.modelFlopsUtilization << ','
          << tokensPerSecond(line) << ','
          << line.best->estimate.tokensPerSecondPerGpu << ','
          << line.best->memory.count() << ',' << plan.tp << ',' << plan.pp
          << ',' << plan.dp << ',';
      // The rest as in the JSON, which has a value for every field.
      const Json &fields = line.json.at("parallel");
      for (const char *field :
           {"cp", "cp_kind", "ep", "etp", "sp", "zero", "zero_ranks", "offload",
            "order", "products", "gradients", "microbatch", "microbatches",
            "schedule", "vp", "microbatch_group", "layers_per_stage",
            "recompute", "recompute_layers_per_stage"})
        out << csvText(fields.at(field)) << ',';
    } else {
      out << std::string(27, ',');
    }
    out << (line.proven ? "true" : "false") << ',' << inQuotes(line.planText)
        << "\n";
  }
}

void printJson(const std::vector<SweepLine> &lines, std::ostream &out) {
  Json rows = Json::array();
  for (const SweepLine &line : lines) {
    Json row = {{"model", line.model},
                {"cluster", line.cluster},
                {"gpus", line.gpus},
                {"sequence", line.sequence},
                {"global_batch", line.globalBatch},
                {"proven", line.proven}};
    if (line.best)
      row["best"] = line.json;
    else
      row["why_none"] = line.planText;
    rows.push_back(std::move(row));
  }
  out << Json{{"rows", rows}}.dump(2) << "\n";
}

ExitCode runSweep(SweepOptions options, Streams streams) {
  options.search.top = 1;
  for (std::vector<int64_t> *list :
       {&options.gpus, &options.sequences, &options.batches})
    if (list->empty())
      list->push_back(0); // the default of a question
  Failure failure;
  std::vector<SweepLine> lines;
  bool any = false;
  for (const std::string &model : options.models)
    for (const std::string &cluster : options.clusters)
      for (int64_t sequence : options.sequences)
        for (int64_t batch : options.batches)
          for (int64_t gpus : options.gpus) {
            SweepLine &line = lines.emplace_back();
            if (!ask(options, model, cluster, gpus, sequence, batch, line,
                     streams.err, failure))
              return report(failure, streams.err);
            any = any || line.best.has_value();
          }
  if (options.json)
    printJson(lines, streams.out);
  else if (options.csv)
    printCsv(lines, streams.out);
  else
    print(lines, streams.out);
  if (any)
    return ExitCode::Done;
  if (std::any_of(lines.begin(), lines.end(),
                  [](const SweepLine &line) { return !line.proven; }))
    refuse(failure, Diag::search_stopped,
           "no plan was found before the searches of the sweep were stopped");
  else
    refuse(failure, Diag::no_plan_fits,
           "no question of the sweep has a plan that fits");
  return report(failure, streams.err);
}

} // namespace

void addSweep(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App *command = app.add_subcommand(
      "sweep", "The best plan for every size, sequence, batch, cluster, model");
  command->add_option("models", options->models, "config.json files or folders")
      ->required();
  const auto list = [&](const char *flag, auto &values, const char *help) {
    return command->add_option(flag, values, help)
        ->delimiter(',')
        ->group("Question");
  };
  list("--cluster", options->clusters, "Clusters, joined by commas")->required();
  list("--gpus", options->gpus, "Numbers of GPUs, joined by commas")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 18));
  list("--sequence", options->sequences, "Tokens of a sequence")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24));
  list("--global-batch", options->batches,
       "Sequences of a step (default: 16,384 tokens a GPU)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  options->question.addMachineless(*command);
  options->search.add(*command);
  CLI::Option *csv =
      command->add_flag("--csv", options->csv, "Print CSV on stdout");
  command->add_flag("--json", options->json, "Print JSON on stdout")
      ->excludes(csv);
  command->footer("Examples:\n"
                  "  shardwright sweep examples/models/llama-3-70b --cluster "
                  "dgx-h100 --gpus 64,128,256,512 --global-batch 1024\n"
                  "\n"
                  "\"of the last\": tokens a second of a GPU against the line "
                  "before: what more GPUs lose.");
  command->callback([=, &exitCode] { exitCode = runSweep(*options, streams); });
}

} // namespace shardwright::tools

//===- CommandInspect.cpp - What a model is -------------------------------===//

#include "cost_model/base/Sha256.h"
#include "cost_model/partition/Assignment.h"
#include "cost_model/program/ModelParts.h"
#include "cost_model/program/ProgramJson.h"
#include "cost_model/search/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/PlanJson.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <ostream>

namespace shardwright::tools {

using namespace cost;

namespace {

struct InspectOptions {
  std::string model, programFile;
  int64_t sequence = 0;
  bool json = false;
};

/// The parts of one kind and segment, together.
struct Group {
  const ModelPart *first = nullptr;
  std::vector<const ModelPart *> parts;
  int64_t parameters = 0; ///< of all layers
  double flops = 0;       ///< of all layers, forward, per token
};

std::vector<Group> groupsOf(const std::vector<ModelPart> &parts) {
  std::vector<Group> groups;
  for (const ModelPart &part : parts) {
    if (groups.empty() || groups.back().first->kind != part.kind ||
        groups.back().first->segment != part.segment)
      groups.push_back({&part, {}, 0, 0});
    Group &group = groups.back();
    group.parts.push_back(&part);
    group.parameters += part.allParameters();
    group.flops += part.allFlops();
  }
  return groups;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::vector<int64_t> sizes(const std::vector<Dim> &dims) {
  std::vector<int64_t> result;
  for (const Dim &dim : dims)
    result.push_back(dim.size);
  return result;
}

const char *describe(FlopsConvention convention) {
  switch (convention) {
  case FlopsConvention::CausalHalved:
    return "causal attention pairs once, logits counted (default)";
  case FlopsConvention::FullAttention:
    return "every attention pair, logits counted (PaLM)";
  case FlopsConvention::SixN:
    return "6 x active parameters without embedding lookup, no attention";
  }
  return "";
}

double forwardFlops(const Program &program) {
  return modelFlopsPerToken(program, FlopsConvention::CausalHalved) / 3;
}

Json inspectJson(const Program &program, const std::string &sha256) {
  const int64_t total = parameterCount(program);
  const double flops = forwardFlops(program);
  const std::vector<ModelPart> all = modelParts(program);
  Json parts = Json::array(), rows = Json::array();
  for (const Group &group : groupsOf(all)) {
    const int64_t layers = group.first->layers;
    parts.push_back(
        {{"kind", group.first->kind},
         {"part", name(group.first->segment)},
         {"layers", layers},
         {"parameters_per_layer", group.parameters / layers},
         {"parameters", group.parameters},
         {"parameters_share",
          share(static_cast<double>(group.parameters), static_cast<double>(total))},
         {"forward_flops_per_token", group.flops},
         {"forward_flops_share", share(group.flops, flops)}});
    for (const ModelPart *part : group.parts)
      rows.push_back({{"kind", part->kind},
                      {"part", name(part->segment)},
                      {"name", part->name},
                      {"layers", part->layers},
                      {"shape", part->shape},
                      {"parameters", part->allParameters()},
                      {"forward_flops_per_token", part->allFlops()}});
  }
  Json stack = Json::array();
  for (const Run &run : program.stack)
    stack.push_back(Json::array({program.kinds[run.kind].name, run.count}));
  Json tensors = Json::array();
  for (const Run &run : runsByKind(program))
    for (const Parameter &parameter : program.kinds[run.kind].parameters) {
      Json tensor = {{"name", parameter.hfName},
                     {"kind", program.kinds[run.kind].name},
                     {"part", name(parameter.segment)},
                     {"shape", sizes(parameter.dims)},
                     {"checkpoint_shape", parameter.hfShape},
                     {"layers", run.count},
                     {"parameters", elementCount(parameter)}};
      if (!parameter.shared.empty())
        tensor["shared"] = parameter.shared;
      tensors.push_back(std::move(tensor));
    }
  return {{"model", program.name},
          {"family", program.family},
          // What a hand-written plan names as model.sha256.
          {"sha256", sha256},
          {"parameters",
           {{"total", total}, {"active", activeParameterCount(program)}}},
          {"layers", program.layers},
          {"stack", stack},
          {"sequence", program.sequence},
          {"hidden", program.hidden},
          {"ffn", program.ffn},
          {"expert_ffn", feedForwardWidths(program).expert},
          {"heads", program.heads},
          {"kv_heads", program.kvHeads},
          {"head_dim", program.headDim},
          {"vocab", program.vocab},
          {"notes", modelFacts(program)},
          {"forward_flops_per_token", flops},
          {"flops_per_token",
           modelFlopsPerToken(program, FlopsConvention::CausalHalved)},
          {"flops_convention", name(FlopsConvention::CausalHalved)},
          {"flops_per_token_by_convention", flopsByConventionJson(program)},
          {"parts", parts},
          {"rows", rows},
          {"tensors", tensors}};
}

/// What a model consists of: a line a group, a line a tensor, the sum.
std::string partsTable(const Program &program) {
  using Align = Table::Align;
  const double total = static_cast<double>(parameterCount(program)),
               flops = forwardFlops(program);
  Table table({"part", "layers", "shape", "parameters", "share",
               "forward FLOP/token", "share"},
              {Align::Left, Align::Right, Align::Left});
  auto add = [&](const std::string &name, const std::string &layers,
                 const std::string &shape, int64_t parameters, double work) {
    table.add({name, layers, shape, parameters ? groupedText(parameters) : "-",
               parameters ? percentText(share(static_cast<double>(parameters),
                                              total))
                          : "-",
               work > 0 ? siText(work) : "-",
               work > 0 ? percentText(share(work, flops)) : "-"});
  };
  const std::vector<ModelPart> parts = modelParts(program);
  for (const Group &group : groupsOf(parts)) {
    add(group.first->kind + " " + std::string(name(group.first->segment)),
        std::to_string(group.first->layers), "", group.parameters, group.flops);
    for (const ModelPart *part : group.parts)
      add("  " + part->name, "", shapeText(part->shape), part->allParameters(),
          part->allFlops());
  }
  add("total", std::to_string(program.layers), "", parameterCount(program), flops);
  return table.text();
}

/// "18432, 2048 an expert"; a width that no layer has is left out.
std::string ffnText(const Program &program) {
  const FfnWidths widths = feedForwardWidths(program);
  if (widths.expert == 0)
    return std::to_string(program.ffn);
  return (widths.dense > 0 ? std::to_string(widths.dense) + ", " : "") +
         std::to_string(widths.expert) + " an expert";
}

void printInspect(const Program &program, std::ostream &out) {
  using Align = Table::Align;
  out << program.name << ": " << program.family << ", "
      << groupedText(parameterCount(program)) << " parameters"
      << (program.experts > 0
              ? " (" + groupedText(activeParameterCount(program)) + " active)"
              : "")
      << ", "
      << program.layers << plural(program.layers, " layer") << "\n"
      << "hidden " << program.hidden << ", ffn " << ffnText(program)
      << ", heads "
      << program.heads << " (" << program.kvHeads << " key/value) x "
      << program.headDim << ", vocabulary " << program.vocab;
  if (const int64_t padded = paddedVocab(program.vocab, 1);
      padded != program.vocab)
    out << " (plans pad it to a multiple of 128 * tp: " << padded
        << " at tp 1)";
  out << ", sequence " << program.sequence << "\n";
  for (const std::string &fact : modelFacts(program))
    out << "- " << fact << "\n";
  out << "- weights take " << bytesText(Bytes(2 * parameterCount(program)))
      << " in 16 bits\n\n"
      << partsTable(program) << "\n";
  Table flops({"arithmetic of a training token", "", "convention"},
              {Align::Left, Align::Right, Align::Left});
  for (FlopsConvention convention : flopsConventions)
    flops.add({std::string(name(convention)),
               siText(modelFlopsPerToken(program, convention)) + "FLOP",
               describe(convention)});
  out << flops.text();
}

/// Parameters and shapes need no length: where neither flag nor config gives one,
/// FLOPs are those of sequences of kUnstatedSequence tokens, and a note says so.
bool loadInspected(const InspectOptions &options, Model &model,
                   Failure &failure) {
  constexpr int64_t kUnstatedSequence = 2048;
  if (loadModel(options.model, options.sequence, model, failure))
    return true;
  if (failure.messages.size() != 1 ||
      failure.messages[0].id != Diag::missing_sequence)
    return false;
  failure = {};
  model = {};
  if (!loadModel(options.model, kUnstatedSequence, model, failure))
    return false;
  model.notes.push_back("the config states no sequence length; shown for " +
                        std::to_string(kUnstatedSequence) +
                        " tokens, --sequence changes it");
  return true;
}

ExitCode runInspect(const InspectOptions &options, Streams streams) {
  Failure failure;
  Model model;
  if (!checkOutputs({options.programFile}, {options.model}, failure) ||
      !loadInspected(options, model, failure))
    return report(failure, streams.err);
  for (const std::string &text : model.notes)
    note(text, streams.err);
  if (options.json)
    streams.out << inspectJson(model.program, model.sha256).dump(2) << "\n";
  else
    printInspect(model.program, streams.out);
  if (!options.programFile.empty() &&
      !writeText(options.programFile, programJson(model.program), failure))
    return report(failure, streams.err);
  return ExitCode::Done;
}

} // namespace

void addInspect(CLI::App &app, Streams streams, ExitCode &exitCode) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App *command = app.add_subcommand(
      "inspect", "Show what a model is: parameters, shapes, FLOPs per token");
  command
      ->add_option("model", options->model, "config.json, or its folder")
      ->required();
  command
      ->add_option("--sequence", options->sequence,
                   "Tokens of a sequence (default: the config's longest)")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 24));
  command->add_option("--program", options->programFile,
                      "Write the training step to this file, as the cost model "
                      "reads it (program.json)");
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer(
      "Examples:\n"
      "  shardwright inspect examples/models/llama-3-8b\n"
      "  shardwright inspect examples/models/llama-3-8b --sequence 4096 "
      "--json\n"
      "\n"
      "FLOPs are those of matrix products and attention, 2 for a multiply-add;\n"
      "the backward pass takes twice those of the forward pass.");
  command->callback([=, &exitCode] {
    exitCode = runInspect(*options, streams);
  });
}

} // namespace shardwright::tools

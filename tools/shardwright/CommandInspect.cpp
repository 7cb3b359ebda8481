//===- CommandInspect.cpp - What a model is -------------------------------===//

#include "cost_model/Report.h"
#include "tools/shardwright/Command.h"
#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/PlanJson.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <set>

namespace shardwright::tools {

using namespace cost;

namespace {

struct InspectOptions {
  std::string model;
  int64_t sequence = 0;
  bool json = false;
};

/// Parameters of one kind and segment, over all its layers.
struct Part {
  std::string kind;
  std::string segment;
  int64_t layers = 0;
  int64_t perLayer = 0;
};

/// Runs of the stack, those of a kind together: alternating kinds are listed
/// once.
std::vector<Run> kindsOf(const Program &program) {
  std::vector<Run> kinds;
  for (const Run &run : program.stack) {
    auto same = std::find_if(kinds.begin(), kinds.end(), [&](const Run &other) {
      return other.kind == run.kind;
    });
    if (same == kinds.end())
      kinds.push_back(run);
    else
      same->count += run.count;
  }
  return kinds;
}

/// Shared tensors count in the first kind that has them.
std::vector<Part> partsOf(const Program &program) {
  std::vector<Part> parts;
  std::set<std::string> shared;
  for (const Run &run : kindsOf(program)) {
    const Kind &kind = program.kinds[run.kind];
    std::map<Segment, int64_t> bySegment;
    for (const Parameter &parameter : kind.parameters)
      if (parameter.shared.empty() || shared.insert(parameter.shared).second)
        bySegment[parameter.segment] += elementCount(parameter);
    for (const auto &[segment, count] : bySegment)
      parts.push_back({kind.name, std::string(name(segment)), run.count, count});
  }
  return parts;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "scalar" : text;
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

Json inspectJson(const Program &program, const std::string &sha256) {
  Json parts = Json::array();
  for (const Part &part : partsOf(program))
    parts.push_back({{"kind", part.kind},
                     {"part", part.segment},
                     {"layers", part.layers},
                     {"parameters_per_layer", part.perLayer},
                     {"parameters", part.layers * part.perLayer}});
  Json stack = Json::array();
  for (const Run &run : program.stack)
    stack.push_back(Json::array({program.kinds[run.kind].name, run.count}));
  Json tensors = Json::array();
  for (const Run &run : kindsOf(program))
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
  const int64_t total = parameterCount(program);
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
          {"heads", program.heads},
          {"kv_heads", program.kvHeads},
          {"head_dim", program.headDim},
          {"vocab", program.vocab},
          {"flops_per_token",
           modelFlopsPerToken(program, FlopsConvention::CausalHalved)},
          {"flops_convention", name(FlopsConvention::CausalHalved)},
          {"flops_per_token_by_convention", flopsByConventionJson(program)},
          {"parts", parts},
          {"tensors", tensors}};
}

void printInspect(const Program &program, std::ostream &out) {
  using Align = Table::Align;
  out << program.name << ": " << program.family << ", "
      << groupedText(parameterCount(program)) << " parameters"
      << (program.experts > 0
              ? " (" + groupedText(activeParameterCount(program)) + " active)"
              : "")
      << ", "
      << program.layers << " layers\n"
      << "hidden " << program.hidden << ", ffn " << program.ffn << ", heads "
      << program.heads << " (" << program.kvHeads << " key/value) x "
      << program.headDim << ", vocabulary " << program.vocab << ", sequence "
      << program.sequence << "\n\n";
  Table parts({"kind", "part", "layers", "parameters/layer", "parameters"},
              {Align::Left, Align::Left});
  for (const Part &part : partsOf(program))
    parts.add({part.kind, part.segment, std::to_string(part.layers),
               groupedText(part.perLayer),
               groupedText(part.layers * part.perLayer)});
  out << parts.text() << "\n";
  Table tensors({"tensor", "kind", "part", "shape"},
                {Align::Left, Align::Left, Align::Left, Align::Left});
  for (const Run &run : kindsOf(program))
    for (const Parameter &parameter : program.kinds[run.kind].parameters)
      tensors.add({parameter.hfName, program.kinds[run.kind].name,
                   std::string(name(parameter.segment)),
                   shapeText(sizes(parameter.dims))});
  out << tensors.text() << "\n";
  Table flops({"arithmetic of a training token", "", "convention"},
              {Align::Left, Align::Right, Align::Left});
  for (FlopsConvention convention :
       {FlopsConvention::CausalHalved, FlopsConvention::FullAttention,
        FlopsConvention::SixN})
    flops.add({std::string(name(convention)),
               siText(modelFlopsPerToken(program, convention)) + "FLOP",
               describe(convention)});
  out << flops.text();
}

ExitCode runInspect(const InspectOptions &options, Streams streams) {
  Failure failure;
  Model model;
  if (!loadModel(options.model, options.sequence, model, failure))
    return report(failure, streams.err);
  for (const std::string &text : model.notes)
    note(text, streams.err);
  if (options.json)
    streams.out << inspectJson(model.program, model.sha256).dump(2) << "\n";
  else
    printInspect(model.program, streams.out);
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
      ->check(CLI::Range(int64_t(1), int64_t(1) << 32));
  command->add_flag("--json", options->json, "Print JSON on stdout");
  command->footer("Example:\n"
                  "  shardwright inspect examples/models/llama-3-8b --json");
  command->callback([=, &exitCode] {
    exitCode = runInspect(*options, streams);
  });
}

} // namespace shardwright::tools

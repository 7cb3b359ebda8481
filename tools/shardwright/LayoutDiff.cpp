#include "tools/shardwright/LayoutDiff.h"

#include "cost_model/base/Format.h"
#include "cost_model/partition/StateLayout.h"
#include "cost_model/rules/Rules.h"
#include "tools/shardwright/Compare.h"

#include <algorithm>

namespace shardwright::tools {

using namespace cost;

namespace {

/// "a, b".
void append(std::string &list, const std::string &more) {
  list += (list.empty() || more.empty() ? "" : ", ") + more;
}

/// " / 4 (tp)": into how many parts, and over which ranks; empty if whole.
std::string partsText(const Cut &cut) {
  if (cut.ranks == 1)
    return "";
  return " / " + std::to_string(cut.ranks) + " (" + cut.axis + ")";
}

std::string parameterText(const TensorLayout &tensor) {
  std::string text;
  for (const CutDim &dim : tensor.dims)
    if (dim.cut.ranks > 1)
      append(text, std::string(name(dim.role)) + partsText(dim.cut));
  if (tensor.flat)
    append(text, "flat" + partsText(tensor.bucket));
  return text.empty() ? "whole" : text;
}

/// Tensors of a segment are in few buckets, each cut alike.
std::string stateText(const KindLayout &kind, Segment segment) {
  std::string text;
  for (const TensorLayout &tensor : kind.tensors) {
    const std::string one =
        "optimizer" + (tensor.bucket.ranks > 1 ? partsText(tensor.bucket)
                                               : std::string(" whole"));
    if (tensor.segment == segment && text.find(one) == std::string::npos)
      append(text, one);
  }
  return text;
}

std::string stagesText(const KindLayout &kind) {
  std::vector<std::string> holders;
  for (size_t stage = 0; stage < kind.layersOfStages.size(); ++stage)
    if (!kind.layersOfStages[stage].empty())
      holders.push_back(std::to_string(stage));
  const size_t stages = kind.layersOfStages.size();
  if (stages == 1)
    return "one stage";
  if (holders.size() == stages)
    return "over " + std::to_string(stages) + " stages";
  std::string text;
  for (const std::string &stage : holders)
    append(text, stage);
  return (holders.size() == 1 ? "on stage " : "on stages ") + text;
}

bool stateChanges(const KindLayout &left, const KindLayout &right,
                  Segment segment) {
  for (size_t i = 0; i < left.tensors.size(); ++i)
    if (left.tensors[i].segment == segment &&
        !left.tensors[i].sameState(right.tensors[i]))
      return true;
  return false;
}

/// The segments of a kind's tensors, each once, as `inspect` lists them.
std::vector<Segment> segmentsOf(const KindLayout &kind) {
  std::vector<Segment> segments;
  for (const TensorLayout &tensor : kind.tensors)
    segments.push_back(tensor.segment);
  std::sort(segments.begin(), segments.end());
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  return segments;
}

/// A line for the part of a kind, and one for each of its tensors.
void addPart(Table &table, const KindLayout &left, const KindLayout &right,
             Segment segment) {
  const auto both = [&](const KindLayout &kind) {
    return stagesText(kind) + ", " + stateText(kind, segment);
  };
  std::string changes;
  append(changes, left.layersOfStages == right.layersOfStages ? "" : "stages");
  append(changes, stateChanges(left, right, segment) ? "optimizer" : "");
  table.add({left.kind + " " + std::string(name(segment)), both(left),
             both(right), changes});
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < left.tensors.size(); ++i) {
    const TensorLayout &a = left.tensors[i], &b = right.tensors[i];
    if (a.segment != segment)
      continue;
    std::vector<std::string> row = {"  " + a.name, parameterText(a),
                                    parameterText(b),
                                    a.sameParameter(b) ? "" : "cut"};
    // Parameters that are parts of one tensor of the checkpoint.
    if (std::find(rows.begin(), rows.end(), row) == rows.end())
      rows.push_back(std::move(row));
  }
  for (std::vector<std::string> &row : rows)
    table.add(std::move(row));
}

/// Why no program goes on under `right` from a checkpoint that one saved under
/// `left`; empty if one does.
std::vector<std::string> whyNotLoaded(const NamedPlan &left,
                                      const NamedPlan &right) {
  std::vector<std::string> why;
  for (const NamedPlan *one : {&left, &right})
    for (const Violation &violation : checkPlan(
             one->program, one->plan, ModelCheck::NameOnly, Framework::Native))
      why.push_back(one->name + ": " + violation.message);
  constexpr const char *fixed[] = {
#define CHECKPOINT_NUMBER(FIELD, NAME) NAME,
#define CHECKPOINT_TYPE(FIELD, NAME) NAME,
#include "runtime/src/train/CheckpointFacts.def"
  };
  const std::vector<PlanField> a = fieldsOf(left.plan),
                               b = fieldsOf(right.plan);
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].value != b[i].value &&
        std::find(std::begin(fixed), std::end(fixed), a[i].name) !=
            std::end(fixed))
      why.push_back("expected one " + a[i].name + ", but got " + a[i].value +
                    " and " + b[i].value);
  return why;
}

std::string loadingText(const NamedPlan &left, const NamedPlan &right) {
  const std::vector<std::string> why = whyNotLoaded(left, right);
  if (why.empty())
    return "Programs compiled here save whole tensors: under either plan they "
           "load what was saved under the other.\n";
  std::string text = "Programs compiled here save whole tensors, but none goes "
                     "on from the one plan to the other:\n";
  for (const std::string &reason : why)
    text += "  " + reason + "\n";
  return text;
}

Json toJson(const Cut &cut) {
  Json json = {{"size", cut.size}, {"ranks", cut.ranks}};
  if (cut.ranks > 1)
    json["axis"] = cut.axis;
  return json;
}

Json toJson(const TensorLayout &tensor) {
  Json dims = Json::array();
  for (const CutDim &dim : tensor.dims) {
    dims.push_back({{"dim", name(dim.role)}});
    dims.back().update(toJson(dim.cut));
  }
  return {{"dims", dims},
          {"bucket", toJson(tensor.bucket)},
          {"offset_in_bucket", tensor.offset},
          {"parameter_cut_with_bucket", tensor.flat}};
}

Json toJson(const KindLayout &left, const KindLayout &right) {
  Json tensors = Json::array();
  for (size_t i = 0; i < left.tensors.size(); ++i) {
    const TensorLayout &a = left.tensors[i], &b = right.tensors[i];
    tensors.push_back({{"name", a.name},
                       {"part", name(a.segment)},
                       {"parameter_changes", !a.sameParameter(b)},
                       {"optimizer_changes", !a.sameState(b)},
                       {"left", toJson(a)},
                       {"right", toJson(b)}});
  }
  return {{"kind", left.kind},
          {"layers", left.layers},
          {"stages_change", left.layersOfStages != right.layersOfStages},
          {"left", {{"layers_of_stages", left.layersOfStages}}},
          {"right", {{"layers_of_stages", right.layersOfStages}}},
          {"tensors", tensors}};
}

} // namespace

std::string layoutText(const NamedPlan &left, const NamedPlan &right) {
  using Align = Table::Align;
  const std::vector<KindLayout> a = stateLayout(left.program, left.plan),
                                b = stateLayout(right.program, right.plan);
  Table table({"layout", left.name, right.name, "changes"},
              {Align::Left, Align::Left, Align::Left, Align::Left});
  for (size_t i = 0; i < a.size(); ++i)
    for (Segment segment : segmentsOf(a[i]))
      addPart(table, a[i], b[i], segment);
  return table.text() +
         "\nA checkpoint of shards has to be resharded for what changes.\n" +
         loadingText(left, right);
}

Json layoutJson(const NamedPlan &left, const NamedPlan &right) {
  const std::vector<KindLayout> a = stateLayout(left.program, left.plan),
                                b = stateLayout(right.program, right.plan);
  Json kinds = Json::array();
  for (size_t i = 0; i < a.size(); ++i)
    kinds.push_back(toJson(a[i], b[i]));
  const std::vector<std::string> why = whyNotLoaded(left, right);
  return {{"kinds", kinds}, {"loads", why.empty()}, {"why_not", why}};
}

} // namespace shardwright::tools

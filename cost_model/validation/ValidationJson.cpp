//===- ValidationJson.cpp - Rows of measured runs, report -----------------===//
#include "cost_model/base/JsonReader.h"
#include "cost_model/validation/ValidationGoals.h"

namespace shardwright::cost {
namespace {

std::string optionalString(JsonObject &object, const std::string &key) {
  return object.has(key) ? object.string(key) : std::string();
}
int64_t optionalInteger(JsonObject &object, const std::string &key,
                        int64_t otherwise) {
  return object.has(key) ? object.integer(key, 0) : otherwise;
}
bool optionalBoolean(JsonObject &object, const std::string &key,
                     bool otherwise) {
  return object.has(key) ? object.boolean(key) : otherwise;
}

void readModel(JsonObject object, ValidationModel &model) {
  model.name = object.string("name");
  model.family = object.string("family");
  model.activation = optionalString(object, "activation");
  model.layers = object.integer("layers", 1);
  model.hidden = object.integer("hidden", 1);
  model.ffn = optionalInteger(object, "ffn_hidden", 0);
  model.heads = object.integer("heads", 1);
  model.kvHeads = optionalInteger(object, "kv_heads", model.heads);
  model.headDim =
      optionalInteger(object, "head_dim", model.hidden / model.heads);
  model.vocab = object.integer("vocab", 1);
  model.sequence = object.integer("seq_len", 1);
  model.gated = optionalBoolean(object, "gated_mlp", false);
  model.tied = optionalBoolean(object, "tied_embeddings", false);
  model.experts = optionalInteger(object, "experts", 0);
  model.mtpLayers = optionalInteger(object, "mtp_layers", 0);
  model.latent = object.has("mla") || (object.has("attention") &&
                                       object.string("attention") == "mla");
  if (object.has("mla")) {
    JsonObject latent = object.child("mla");
    model.qRank = optionalInteger(latent, "q_lora_rank", 0);
    model.kvRank = latent.integer("kv_lora_rank", 1);
    model.nopeDim = latent.integer("qk_nope_head_dim", 1);
    model.ropeDim = latent.integer("qk_rope_head_dim", 1);
    model.valueDim = latent.integer("v_head_dim", 1);
    latent.finish();
  }
  if (model.experts > 0) {
    model.topK = optionalInteger(object, "experts_per_token", 0);
    model.expertFfn = optionalInteger(object, "moe_ffn_hidden", model.ffn);
    model.denseLayers = optionalInteger(object, "dense_layers", 0);
    model.sharedFfn = optionalInteger(
        object, "moe_shared_ffn_hidden",
        optionalInteger(object, "shared_experts", 0) * model.expertFfn);
  }
  for (const char *key :
       {"attention", "experts_per_token", "moe_ffn_hidden", "shared_experts",
        "moe_shared_ffn_hidden", "dense_layers"})
    object.ignore(key);
  object.finish();
}

void readParallel(JsonObject object, ValidationRow &row) {
  row.tp = object.integer("tp", 1);
  row.pp = object.integer("pp", 1);
  row.cp = optionalInteger(object, "cp", 1);
  row.dp = object.integer("dp", 1);
  row.ep = optionalInteger(object, "ep", 1);
  row.chunks = optionalInteger(object, "vp", 1);
  if (row.chunks == 0)
    row.chunks = 1;
  // Absent: on in sources of 2022 and later, distributed optimizer since then.
  row.sp =
      optionalBoolean(object, "sp", row.softwareYear >= 2022) && row.tp > 1;
  row.zero = static_cast<int>(
      optionalInteger(object, "zero_stage", row.dp * row.cp > 1 ? 1 : 0));
  if (row.dp * row.cp == 1) // state is sharded over both
    row.zero = 0;
  row.fsdp = object.has("fsdp") && !(object.at("fsdp").is_boolean() &&
                                     !object.at("fsdp").get<bool>());
  row.zeroGroup = optionalInteger(object, "zero_group", 0);
  // Absent for experts: 1 since 2024, before as the dense layers.
  row.etp = optionalInteger(object, "etp",
                            row.model.experts > 0 && row.softwareYear < 2024
                                ? row.tp
                                : 1);
  object.ignore("hsdp");
  object.finish();
}

void readFeatures(JsonObject object, ValidationRow &row) {
  const auto overlap = [&](const char *key, std::optional<bool> &value) {
    if (object.has(key))
      value = object.boolean(key);
  };
  overlap("tp_overlap", row.tensorOverlap);
  overlap("dp_overlap", row.dataOverlap);
  overlap("p2p_overlap", row.transferOverlap);
  overlap("a2a_overlap", row.exchangeOverlap);
  if (object.has("grad_dtype"))
    row.bf16Gradients = object.string("grad_dtype") == "bf16";
  row.cudaGraph = optionalString(object, "cuda_graph");
  row.fp8Recipe = optionalString(object, "fp8_recipe");
  row.dispatcher = optionalString(object, "dispatcher");
  row.routing = optionalString(object, "routing");
  object.finish();
}

void readMeasured(JsonObject object, ValidationRow &row) {
  if (object.has("step_time_s"))
    row.stepSeconds = object.number("step_time_s", 1e-6); // no step is as short
  if (object.has("memory_gib"))
    row.memoryGib = object.number("memory_gib");
  row.memoryKind = optionalString(object, "memory_kind");
  row.outOfMemory = optionalBoolean(object, "out_of_memory", false);
  for (const char *key :
       {"step_time_basis", "memory_reserved_gib", "memory_by_rank"})
    object.ignore(key);
  object.finish();
}

void readRow(JsonObject &object, ValidationRow &row) {
  row.id = object.string("id");
  row.set = object.string("set");
  row.grade = object.string("grade");
  row.source = object.source();
  row.framework = object.string("framework");
  row.softwareYear = object.integer("software_year", 2000);
  readModel(object.child("model"), row.model);
  {
    JsonObject hardware = object.child("hardware");
    row.gpu = hardware.string("gpu");
    row.gpus = hardware.integer("gpus", 1);
    row.gpusPerNode = hardware.integer("gpus_per_node", 1);
    row.interconnect = optionalString(hardware, "interconnect");
    hardware.ignore("gpu_text");
    if (hardware.has("gpu_mem_gb"))
      row.gpuMemoryGb = hardware.number("gpu_mem_gb", 1, 1e5);
    hardware.finish();
  }
  readParallel(object.child("parallel"), row);
  {
    JsonObject batch = object.child("batch");
    row.globalBatch = batch.integer("global_batch", 1);
    row.microBatch = batch.integer("micro_batch", 1);
    batch.finish();
  }
  row.precision = object.string("precision");
  row.recompute = object.has("recompute") ? object.string("recompute") : "none";
  row.recomputeText = optionalString(object, "recompute_text");
  row.attentionKernel = optionalString(object, "attention_kernel");
  if (object.has("features"))
    readFeatures(object.child("features"), row);
  readMeasured(object.child("measured"), row);
  row.layoutKnown = optionalBoolean(object, "layout_known", true);
  row.headline = optionalBoolean(object, "headline", true);
  row.peer = object.has("peer_prediction");
  for (const char *key :
       {"precision_text", "schedule", "notes", "check",
        "release", "peer_prediction", "why_not_headline"})
    object.ignore(key);
  object.finish();
}

template <typename Type>
void put(nlohmann::json &object, const char *key,
         const std::optional<Type> &value) {
  if (value)
    object[key] = *value;
}

nlohmann::json statisticsJson(const ErrorStatistics &statistics) {
  nlohmann::json object;
  object["configurations"] = statistics.configurations;
  if (statistics.configurations > 0) {
    object["mean_absolute_error"] = statistics.mean;
    object["median_absolute_error"] = statistics.median;
    object["p90_absolute_error"] = statistics.p90;
    object["maximum_absolute_error"] = statistics.maximum;
    object["median_signed_error"] = statistics.signedMedian;
  }
  return object;
}

/// Of the stage that holds most.
nlohmann::json memoryPartsJson(const StageEstimate &stage) {
  const MemoryParts &parts = stage.memory;
  return {{"parameters", gibibytes(parts.parameters)},
          {"gradients", gibibytes(parts.gradients)},
          {"optimizer", gibibytes(parts.optimizer)},
          {"saved", gibibytes(parts.saved)},
          {"p2p", gibibytes(parts.p2p)},
          {"comm", gibibytes(parts.comm)},
          {"workspace", gibibytes(parts.workspace)},
          {"framework", gibibytes(stage.framework - stage.outside)},
          {"fragments", gibibytes(stage.fragments)},
          {"context", gibibytes(stage.outside - stage.fragments)}};
}

nlohmann::json goalJson(const Goal &goal) {
  nlohmann::json object = {{"name", goal.name}, {"count", goal.count}};
  for (const GoalFigure &figure : goal.figures)
    object["figures"][figure.name] = {{"reached", figure.reached},
                                      {"must", figure.must},
                                      {"aim", figure.aim},
                                      {"meets_must", figure.meetsMust()},
                                      {"meets_aim", figure.meetsAim()}};
  return object;
}

nlohmann::json groupJson(const ValidationGroup &group) {
  nlohmann::json object;
  object["name"] = group.name;
  object["rows"] = group.rows;
  object["predicted"] = group.predicted;
  object["step_time"] = statisticsJson(group.time);
  object["memory"] = statisticsJson(group.memory);
  object["fits"] = {{"fitting", group.fitting},
                    {"fitting_right", group.fittingRight},
                    {"out_of_memory", group.outOfMemory},
                    {"out_of_memory_right", group.outOfMemoryRight}};
  put(object["fits"], "balanced_accuracy", group.balancedAccuracy());
  put(object["fits"], "false_fits", group.falseFits());
  object["layouts"] = {{"problems", group.problems}};
  if (group.problems > 0) {
    object["layouts"]["median_spearman"] = group.medianSpearman;
    object["layouts"]["median_regret"] = group.medianRegret;
    object["layouts"]["maximum_regret"] = group.maximumRegret;
  }
  return object;
}

} // namespace

bool readValidationRows(std::string_view text, std::string_view file,
                        std::vector<ValidationRow> &rows, Failure &failure,
                        int64_t *repeats) {
  std::multimap<std::string, size_t> places; // by id
  for (size_t i = 0; i < rows.size(); ++i)
    places.emplace(rows[i].id, i);
  return forEachJsonLine(text, file, failure, [&](JsonObject object) {
    ValidationRow row;
    readRow(object, row);
    const auto [first, last] = places.equal_range(row.id);
    if (std::any_of(first, last, [&](const auto &known) {
          return rows[known.second] == row;
        })) {
      if (repeats)
        ++*repeats;
      return;
    }
    places.emplace(row.id, rows.size());
    rows.push_back(std::move(row));
  });
}

std::string validationJson(const ValidationReport &report) {
  nlohmann::json root;
  root["rows"] = nlohmann::json::array();
  for (const ValidationOutcome &outcome : report.rows) {
    nlohmann::json row;
    row["id"] = outcome.id;
    row["set"] = outcome.set;
    row["problem"] = outcome.problem;
    put(row, "measured_step_time_seconds", outcome.measuredSeconds);
    put(row, "predicted_step_time_seconds", outcome.predictedSeconds);
    put(row, "measured_memory_gib", outcome.measuredGib);
    put(row, "predicted_memory_gib", outcome.predictedGib);
    row["measured_fits"] = outcome.measuredFits;
    put(row, "predicted_fits", outcome.predictedFits);
    if (outcome.predictedFits)
      row["memory_parts_gib"] = memoryPartsJson(outcome.fullest);
    put(row, "relative_error", outcome.error());
    put(row, "relative_memory_error", outcome.memoryError());
    row["headline"] = outcome.headline;
    if (!outcome.unsupported.empty()) {
      row["unsupported"] = outcome.unsupported;
    } else {
      row["kind"] = outcome.kind;
      row["precision"] = outcome.precision;
      row["configuration"] = outcome.configuration;
      if (outcome.interval) {
        row["interval_80_seconds"] = {outcome.interval->low.count(),
                                      outcome.interval->high.count()};
        row["extrapolating"] = outcome.interval->extrapolating;
      }
      row["cluster"] = outcome.cluster;
      row["profile"] = outcome.profile;
      if (outcome.standIn)
        row["stand_in"] = true;
      row["terms"] = nlohmann::json::object();
      for (const Term &term : outcome.terms)
        row["terms"][term.name] = term.time.count();
    }
    root["rows"].push_back(std::move(row));
  }
  root["groups"] = nlohmann::json::array();
  for (const ValidationGroup &group : report.groups)
    root["groups"].push_back(groupJson(group));
  root["summary"] = groupJson(report.summary);
  root["summary"]["sources"] = {{"count", report.sources},
                                {"median_of_medians", report.medianOfMedians},
                                {"worst_median", report.worstMedian}};
  root["goals"] = nlohmann::json::array();
  for (const Goal &goal : runGoals(report.rows))
    root["goals"].push_back(goalJson(goal));
  root["unsupported"] = nlohmann::json::object();
  for (const auto &[reason, count] : report.unsupported)
    root["unsupported"][reason] = count;
  root["stand_ins"] = nlohmann::json::object();
  for (const auto &[which, count] : report.standIns)
    root["stand_ins"][which] = count;
  return root.dump(2) + "\n";
}

} // namespace shardwright::cost

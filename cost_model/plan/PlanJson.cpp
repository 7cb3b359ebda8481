//===- PlanJson.cpp - plan.json ------------------------------------------===//
#include "cost_model/plan/PlanJson.h"
#include "cost_model/base/JsonReader.h"
#include "cost_model/base/JsonWriter.h"

namespace shardwright::cost {

namespace {

using nlohmann::json;

constexpr const char *planSchema = "shardwright.plan/1";

// Upper ends of what a file may say: far above any machine, and small enough
// that the products formed of them stay in int64.
constexpr int64_t maxBatch = int64_t(1) << 31;
constexpr int64_t maxSequence = int64_t(1) << 31;
constexpr int64_t maxLayers = 1 << 20;

constexpr DType dtypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};
constexpr Recompute policies[] = {Recompute::None, Recompute::Selective,
                                  Recompute::Full};

/// The enumerator of `choices` with the name at `value`; complains at `suffix`.
template <typename Enum, size_t N>
Enum choose(JsonObject &object, const std::string &suffix, const json &value,
            const Enum (&choices)[N]) {
  std::string wanted;
  for (Enum choice : choices) {
    if (value.is_string() && value.get<std::string>() == name(choice))
      return choice;
    wanted += (wanted.empty() ? "" : ", ") + std::string(name(choice));
  }
  if (!JsonObject::isMissing(value))
    object.complain(suffix, "expected one of " + wanted + ", but got " +
                                JsonObject::shown(value));
  return choices[static_cast<size_t>(object.reading) % N];
}
template <typename Enum, size_t N>
Enum choose(JsonObject &object, const std::string &key,
            const Enum (&choices)[N]) {
  return choose(object, "/" + key, object.at(key), choices);
}

/// Complains unless the value at `key` is `wanted`.
void expectValue(JsonObject &object, const std::string &key,
                 const json &wanted, Diag id = Diag::wrong_value) {
  const json &value = object.at(key);
  if (value != wanted && !JsonObject::isMissing(value))
    object.complain("/" + key,
                    "expected " + wanted.dump() + ", but got " +
                        JsonObject::shown(value),
                    id);
}

/// Mesh axes over which ZeRO shards: data ranks, or the inner ones of HSDP, and
/// the parts of a sequence.
json zeroAxes(const Plan &plan) {
  json axes = json::array();
  if (plan.zero == 0)
    return axes;
  if (plan.zeroRanks == 0)
    axes.push_back("dp");
  else if (plan.zeroRanks > 1)
    axes.push_back("dp1");
  if (plan.cp > 1)
    axes.push_back("cp");
  return axes;
}

/// zeroRanks by what a file says of the axes: "dp1" of a mesh that splits dp
/// into copies and shards (HSDP), or no data axis at all beside "cp".
int64_t shardRanks(const Plan &plan, const json &axes) {
  if (plan.zero == 0 || plan.ep * plan.etp > 1 || !axes.is_array() ||
      axes.empty())
    return 0;
  if (axes.front() == "cp" && plan.cp > 1 && plan.dp > 1)
    return 1;
  if (axes.front() == "dp1")
    for (const MeshAxis &axis : plan.mesh)
      if (axis.name == "dp1")
        return axis.size;
  return 0;
}

/// The order that a file's mesh has.
MeshOrder orderOf(const std::vector<MeshAxis> &mesh) {
  return !mesh.empty() && mesh.front().name.substr(0, 2) == "dp"
             ? MeshOrder::DpPp
             : MeshOrder::PpDp;
}

void readParallel(JsonObject parallel, Plan &plan) {
  plan.dp = parallel.integer("dp", 1, maxDataRanks);
  plan.tp = parallel.integer("tp", 1, maxDegree);
  plan.pp = parallel.integer("pp", 1, maxDegree);
  plan.cp = parallel.integer("cp", 1, maxDegree);
  plan.ep = parallel.integer("ep", 1, maxDegree);
  plan.etp = parallel.integer("etp", 1, maxDegree);
  if (parallel.has("kv_replicas"))
    plan.kvReplicas = parallel.integer("kv_replicas", 1, maxDegree);
  plan.sp = parallel.boolean("sp");
  plan.zero = static_cast<int>(parallel.integer("zero", 0, 3));
  if (plan.cp > 1)
    plan.cpKind = choose(parallel, "cp_kind", cpKinds);
  else
    expectValue(parallel, "cp_kind", "none");
  if (parallel.has("offload")) {
    const std::string what = parallel.string("offload");
    plan.offloadOptimizer = what == "optimizer" || what == "both";
    plan.offloadActivations = what == "activations" || what == "both";
    if (!plan.offloadOptimizer && !plan.offloadActivations)
      parallel.complain("/offload", "expected optimizer, activations or both, "
                                    "but got '" +
                                        what + "'");
  }
  plan.zeroRanks = shardRanks(plan, parallel.at("zero_axes"));
  // What depends on a number that could not be read has no value to expect.
  const auto readable = [&](const char *key, int64_t least, int64_t most) {
    if (!parallel.has(key))
      return false;
    const json &value = parallel.at(key);
    return value.is_number_integer() && value >= least && value <= most;
  };
  if (readable("zero", 0, 3) && readable("cp", 1, maxDegree) &&
      readable("dp", 1, maxDataRanks))
    expectValue(parallel, "zero_axes", zeroAxes(plan));
  parallel.finish();
}

void readStages(JsonObject &root, Plan &plan) {
  plan.stages.clear();
  std::vector<JsonObject> stages = root.objects("stages");
  // Stages that cannot be read are none in one reading and unknown in another.
  if (stages.empty() && root.reading > 0)
    plan.stages = {{{{"?", 1, Recompute::None}}}};
  for (JsonObject &stage : stages) {
    plan.stages.emplace_back();
    const json &runs = stage.at("runs");
    if (!runs.is_array()) {
      if (!JsonObject::isMissing(runs))
        stage.complain("/runs", "expected an array, but got " +
                                    JsonObject::shown(runs));
      if (root.reading > 0)
        plan.stages.back().runs.push_back({"?", 1, Recompute::None});
      stage.finish();
      continue;
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const json &run = runs[i];
      const std::string at = "/runs/" + std::to_string(i);
      if (!run.is_array() || run.size() != 3 || !run[0].is_string() ||
          !run[1].is_number_integer()) {
        stage.complain(at, "expected [kind, count, recompute], but got " +
                               JsonObject::shown(run));
        plan.stages.back().runs.push_back(
            {std::string(static_cast<size_t>(1 + root.reading), '?'), 1,
             Recompute::None});
        continue;
      }
      const int64_t count =
          run[1].is_number_unsigned() && run[1].get<uint64_t>() > maxLayers
              ? -1
              : run[1].get<int64_t>();
      if (count < 1)
        stage.complain(at + "/1", "expected an integer from 1 to " +
                                      std::to_string(maxLayers) +
                                      ", but got " + run[1].dump());
      plan.stages.back().runs.push_back(
          {run[0].get<std::string>(), count < 1 ? 1 + root.reading : count,
           choose(stage, at + "/2", run[2], policies)});
    }
    stage.finish();
  }
}

/// One reading of `value`; whatever is wrong with it goes to `failure`.
Plan planOf(const json &value, const std::string &where, Failure &failure,
            int reading) {
  JsonObject root(value, where + "#", failure, reading);
  expectValue(root, "schema", planSchema, Diag::wrong_schema);

  Plan read;
  JsonObject model = root.child("model");
  read.modelName = model.string("name");
  read.modelSha256 = model.string("sha256");
  model.finish();
  JsonObject cluster = root.child("cluster");
  read.clusterName = cluster.string("name");
  read.clusterSha256 = cluster.string("sha256");
  cluster.finish();
  for (JsonObject &axis : root.objects("mesh")) {
    read.mesh.push_back(
        {axis.string("axis"), axis.integer("size", 1, maxDataRanks)});
    axis.finish();
  }
  if (read.mesh.size() > maxAxes) { // no degrees need them
    root.complain("/mesh", "expected at most " + std::to_string(maxAxes) +
                               " axes, but got " +
                               std::to_string(read.mesh.size()));
    read.mesh.resize(maxAxes);
  }
  read.order = orderOf(read.mesh);
  readParallel(root.child("parallel"), read);
  JsonObject batch = root.child("batch");
  read.globalBatch = batch.integer("global", 1, maxBatch);
  read.microBatch = batch.integer("micro", 1, maxMicroBatch);
  read.sequence = batch.integer("sequence", 1, maxSequence);
  batch.finish();
  JsonObject schedule = root.child("schedule");
  read.schedule = choose(schedule, "kind", scheduleKinds);
  read.chunks = schedule.integer("chunks", 1, maxDegree);
  if (schedule.has("microbatch_group")) // of pp is said by leaving it out
    read.group =
        groupField(read.schedule, read.pp,
                   schedule.integer("microbatch_group", 1, maxBatch));
  schedule.finish();
  readStages(root, read);
  JsonObject types = root.child("dtypes");
  read.dtypes.param = choose(types, "param", dtypes);
  read.dtypes.compute = choose(types, "compute", dtypes);
  read.dtypes.reduce = choose(types, "reduce", dtypes);
  read.dtypes.grad = choose(types, "grad", dtypes);
  read.dtypes.master = choose(types, "master", dtypes);
  if (types.has("products"))
    read.dtypes.products = choose(types, "products", narrows);
  types.finish();
  expectValue(root, "expert_rows_max", 0);
  root.finish();
  return read;
}

} // namespace

bool readPlan(std::string_view text, std::string_view file, Plan &plan,
              Failure &failure, std::vector<Plan> *readings) {
  const std::string where(file);
  const size_t before = failure.messages.size();
  failure.kind = FailureKind::Input;
  json value;
  if (!parseStrictly(text, where, value, failure))
    return false;
  Plan read = planOf(value, where, failure, 0);
  if (failure.messages.size() == before) {
    plan = std::move(read);
    return true;
  }
  if (readings && value.is_object()) {
    Failure same;
    *readings = {std::move(read), planOf(value, where, same, 1)};
  }
  return false;
}

std::string canonicalText(const Plan &plan) {
  json mesh = json::array(), stages = json::array();
  for (const MeshAxis &axis : plan.mesh)
    mesh.push_back({{"axis", axis.name}, {"size", axis.size}});
  for (const Stage &stage : plan.stages) {
    json runs = json::array();
    for (const StageRun &run : stage.runs)
      runs.push_back(
          json::array({run.kind, run.count, name(run.recompute)}));
    stages.push_back({{"runs", std::move(runs)}});
  }
  json text = {
      {"schema", planSchema},
      {"model", {{"name", plan.modelName}, {"sha256", plan.modelSha256}}},
      {"cluster", {{"name", plan.clusterName}, {"sha256", plan.clusterSha256}}},
      {"mesh", std::move(mesh)},
      {"parallel",
       {{"dp", plan.dp},
        {"tp", plan.tp},
        {"pp", plan.pp},
        {"cp", plan.cp},
        {"cp_kind", plan.cp > 1 ? name(plan.cpKind) : "none"},
        {"ep", plan.ep},
        {"etp", plan.etp},
        {"sp", plan.sp},
        {"zero", plan.zero},
        {"zero_axes", zeroAxes(plan)}}},
      {"batch",
       {{"global", plan.globalBatch},
        {"micro", plan.microBatch},
        {"sequence", plan.sequence}}},
      {"schedule", {{"kind", name(plan.schedule)}, {"chunks", plan.chunks}}},
      {"stages", std::move(stages)},
      {"dtypes",
       {{"param", name(plan.dtypes.param)},
        {"compute", name(plan.dtypes.compute)},
        {"reduce", name(plan.dtypes.reduce)},
        {"grad", name(plan.dtypes.grad)},
        {"master", name(plan.dtypes.master)}}},
      {"expert_rows_max", 0},
  };
  // Written where they say something.
  if (plan.kvReplicas > 1)
    text["parallel"]["kv_replicas"] = plan.kvReplicas;
  if (groupField(plan.schedule, plan.pp, plan.group) != 0)
    text["schedule"]["microbatch_group"] = plan.group;
  if (plan.offloadOptimizer || plan.offloadActivations)
    text["parallel"]["offload"] = !plan.offloadActivations ? "optimizer"
                                  : !plan.offloadOptimizer ? "activations"
                                                           : "both";
  if (plan.dtypes.products != Narrow::None)
    text["dtypes"]["products"] = name(plan.dtypes.products);
  return canonicalJson(text);
}

} // namespace shardwright::cost

//===- CompileTest.cpp - From model and plan to object files --------------===//
#include "compiler/Driver/Compile.h"
#include "compiler/Driver/Load.h"
#include "cost_model/base/Sha256.h"
#include "cost_model/plan/Plan.h"
#include "cost_model/program/ModelDigest.h"

#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace shardwright;

namespace {

std::string readText(const std::filesystem::path &path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// llama-tiny with `layers` layers, in a folder of its own.
class Model {
public:
  explicit Model(int64_t layers) {
    folder = std::filesystem::temp_directory_path() /
             ("shardwright-compile-" + std::to_string(layers));
    std::filesystem::create_directories(folder);
    std::string config =
        readText(SHARDWRIGHT_SOURCE "/test/golden/llama-tiny/config.json");
    const std::string known = "\"num_hidden_layers\": 5";
    const size_t at = config.find(known);
    REQUIRE(at != std::string::npos);
    config.replace(at, known.size(),
                   "\"num_hidden_layers\": " + std::to_string(layers));
    std::ofstream(folder / "config.json") << config;
    cost::Failure failure;
    REQUIRE(loadProgram(path(), 24, program, failure));
  }
  ~Model() { std::filesystem::remove_all(folder); }
  std::string path() const { return (folder / "config.json").string(); }
  std::filesystem::path folder;
  cost::Program program;
};

cost::Plan planFor(const Model &model, int64_t dp = 1, int64_t tp = 1,
                   int64_t pp = 1, int64_t batch = 8) {
  cost::Plan plan;
  plan.modelName = model.program.name;
  plan.modelSha256 = cost::modelDigest(model.program);
  plan.clusterName = "host";
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  plan.globalBatch = batch;
  plan.microBatch = 2;
  plan.sequence = 24;
  cost::setMesh(plan);
  plan.stages = cost::evenStages(model.program, pp, cost::Recompute::None);
  plan.dtypes = {cost::DType::F32, cost::DType::F32, cost::DType::F32,
                 cost::DType::F32, cost::DType::F32};
  return plan;
}

CompileOptions optionsFor(const Model &model, const cost::Plan &plan,
                          Emit emit) {
  CompileOptions options;
  options.modelPath = model.path();
  options.planText = cost::canonicalText(plan);
  options.emit = emit;
  return options;
}

std::string artifact(const Model &model, const cost::Plan &plan, Emit emit) {
  std::string bytes;
  cost::Failure failure;
  const bool done =
      compileToText(optionsFor(model, plan, emit), bytes, failure);
  for (const std::string &message : failure.messages)
    UNSCOPED_INFO(message);
  REQUIRE(done);
  return bytes;
}

/// Contents of the code section of an object.
std::string codeOf(const Model &model, const cost::Plan &plan) {
  const std::string bytes = artifact(model, plan, Emit::Object);
  auto object = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(bytes, "object"));
  REQUIRE(static_cast<bool>(object));
  std::string code;
  for (const llvm::object::SectionRef &section : (*object)->sections())
    if (section.isText())
      code += llvm::cantFail(section.getContents()).str();
  REQUIRE(code.size() > 1000);
  return code;
}

cost::Failure refusal(const CompileOptions &options) {
  cost::Failure failure;
  CHECK_FALSE(compile(options, failure));
  REQUIRE_FALSE(failure.messages.empty());
  return failure;
}

} // namespace

TEST_CASE("code does not depend on layers, microbatches, data ranks or stages") {
  Model five(5), seven(7);
  const std::string code = codeOf(five, planFor(five));
  CHECK(codeOf(seven, planFor(seven)) == code);
  CHECK(codeOf(five, planFor(five, 1, 1, 1, 32)) == code);
  CHECK(codeOf(five, planFor(five, 4)) == code);
  CHECK(codeOf(five, planFor(five, 1, 1, 5)) == code);
  // It does depend on what a tensor rank computes.
  CHECK(codeOf(five, planFor(five, 1, 2)) != code);
}

TEST_CASE("the same input gives the same bytes") {
  Model model(5);
  const cost::Plan plan = planFor(model, 2, 2, 2);
  for (Emit emit :
       {Emit::Model, Emit::Plan, Emit::Spmd, Emit::Rt, Emit::Llvm,
        Emit::Object})
    CHECK(artifact(model, plan, emit) == artifact(model, plan, emit));
}

TEST_CASE("each artifact is of its kind") {
  Model model(5);
  const cost::Plan plan = planFor(model, 1, 2);
  auto has = [&](Emit emit, const char *text) {
    return artifact(model, plan, emit).find(text) != std::string::npos;
  };
  CHECK(has(Emit::Model, "sw.phase = \"differentiated\""));
  CHECK(has(Emit::Plan, "#plan.sh<"));
  CHECK(has(Emit::Spmd, "spmd.all_reduce"));
  CHECK(has(Emit::Rt, "rt.matmul"));
  CHECK(has(Emit::Llvm, "@sw_program = constant"));
  CHECK(has(Emit::Object, "\177ELF"));
  for (const char *text : {"model", "plan", "spmd", "rt", "llvm", "ptx", "obj", "exe"}) {
    Emit emit;
    REQUIRE(emitNamed(text, emit));
    CHECK(name(emit) == text);
  }
  Emit emit;
  CHECK_FALSE(emitNamed("asm", emit));
}

TEST_CASE("dtypes that a target cannot run are unsupported, not wrong") {
  Model model(5);
  cost::Plan plan = planFor(model);
  auto refused = [&](const char *target, const char *text) {
    CompileOptions options = optionsFor(model, plan, Emit::Object);
    options.target = target;
    const cost::Failure failure = refusal(options);
    CHECK(failure.kind == cost::FailureKind::Unsupported);
    INFO(failure.messages[0].text);
    CHECK(failure.messages[0].text.find(text) != std::string::npos);
  };
  plan.dtypes.compute = cost::DType::F16;
  refused("host", "/dtypes/compute: expected f32, f64 or bf16");
  refused("cuda", "/dtypes/compute: expected f32 or bf16");
  const cost::DType f64 = cost::DType::F64;
  plan.dtypes = {f64, f64, f64, f64, f64};
  refused("cuda", "/dtypes/compute: expected f32 or bf16");
  plan.dtypes = cost::DTypes(); // bf16, sums and master in f32
  plan.dtypes.param = cost::DType::F32;
  refused("host", "/dtypes/param: expected the dtype of compute (bf16)");
  plan.dtypes = cost::DTypes();
  plan.dtypes.master = cost::DType::BF16;
  refused("cuda", "/dtypes/master: expected f32");
}

TEST_CASE("programs for CUDA carry code of the GPUs that are asked for") {
  Model model(5);
  cost::Plan plan = planFor(model, 1, 2);
  plan.dtypes = cost::DTypes();
  CompileOptions options = optionsFor(model, plan, Emit::Object);
  options.target = "cuda";
  std::string object;
  cost::Failure failure;
  auto has = [&](const char *text) {
    return object.find(text) != std::string::npos;
  };
  options.gpuArchs = {"sm_90"};
  REQUIRE(compileToText(options, object, failure));
  CHECK(has(".target sm_90\n"));
  CHECK_FALSE(has(".target sm_80\n"));
  options.gpuArchs.clear(); // the cluster is no shipped one: all
  REQUIRE(compileToText(options, object, failure));
  CHECK(has(".target sm_80\n"));
  CHECK(has(".target sm_100\n"));
  plan.clusterName = "dgx-a100";
  options.planText = cost::canonicalText(plan);
  REQUIRE(compileToText(options, object, failure));
  CHECK(has(".target sm_80\n"));
  CHECK_FALSE(has(".target sm_90\n"));

  options.emit = Emit::Ptx;
  REQUIRE(compileToText(options, object, failure));
  CHECK(has(".visible .entry update("));
  CHECK_FALSE(has(".extern"));
  for (std::vector<std::string> archs :
       {std::vector<std::string>{"sm_70"}, {"sm_80", "sm_90"}, {"sm_80", "sm_80"}}) {
    options.gpuArchs = archs;
    CHECK(refusal(options).kind == cost::FailureKind::Usage);
  }
  options.target = "host"; // --gpu-arch is of no use there
  CHECK(refusal(options).kind == cost::FailureKind::Usage);
}

TEST_CASE("wrong inputs are named, and leave no output behind") {
  Model model(5);
  const std::string output = (model.folder / "out").string();
  auto refused = [&](CompileOptions options, cost::FailureKind kind,
                     const char *text) {
    options.output = output;
    const cost::Failure failure = refusal(options);
    CHECK(failure.kind == kind);
    INFO(failure.messages[0].text);
    CHECK(failure.messages[0].text.find(text) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(output));
  };
  cost::Plan plan = planFor(model);
  plan.modelSha256 = std::string(64, '0');
  refused(optionsFor(model, plan, Emit::Rt), cost::FailureKind::Input,
          "sha256");
  plan = planFor(model, 1, 3);
  refused(optionsFor(model, plan, Emit::Rt), cost::FailureKind::Input, "tp");
  CompileOptions options = optionsFor(model, planFor(model), Emit::Rt);
  options.modelPath = (model.folder / "absent.json").string();
  refused(options, cost::FailureKind::Input, "absent.json");
  options = optionsFor(model, planFor(model), Emit::Rt);
  options.planText.clear();
  options.planPath = (model.folder / "plan.json").string();
  refused(options, cost::FailureKind::Input, "plan.json");
  options = optionsFor(model, planFor(model), Emit::Object);
  options.cpu = "z80";
  refused(options, cost::FailureKind::Usage, "z80");
}

TEST_CASE("an output that cannot be written is a failure") {
  Model model(5);
  CompileOptions options = optionsFor(model, planFor(model), Emit::Model);
  options.output = (model.folder / "absent" / "out").string();
  CHECK(refusal(options).kind == cost::FailureKind::Usage);
  options.emit = Emit::Executable;
  CHECK(refusal(options).kind == cost::FailureKind::Usage);
  options.output = model.folder.string();
  CHECK(refusal(options).kind == cost::FailureKind::Usage);
  // A file where the dump folder should be.
  options = optionsFor(model, planFor(model), Emit::Rt);
  options.output = (model.folder / "out").string();
  options.dumpDir = (model.folder / "config.json").string();
  CHECK(refusal(options).kind == cost::FailureKind::Usage);
}

TEST_CASE("the dump folder gets the IR of every phase") {
  Model model(5);
  CompileOptions options = optionsFor(model, planFor(model), Emit::Rt);
  options.output = (model.folder / "rt.mlir").string();
  options.dumpDir = (model.folder / "a" / "dump").string();
  cost::Failure failure;
  REQUIRE(compile(options, failure));
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(options.dumpDir))
    names.push_back(entry.path().filename().string());
  CHECK(names.size() == 7);
  // Only the output itself is left beside it.
  int beside = 0;
  for (const auto &entry : std::filesystem::directory_iterator(model.folder))
    beside += entry.path().filename().string().starts_with("rt.mlir");
  CHECK(beside == 1);
}

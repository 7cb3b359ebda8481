//===- Compile.cpp - From a model and a plan to an executable -------------===//
#include "compiler/Driver/Compile.h"

#include "compiler/Codegen/ModuleEmitter.h"
#include "compiler/Codegen/Object.h"
#include "compiler/Driver/Artifact.h"
#include "compiler/Driver/Load.h"
#include "compiler/Files/OutputFile.h"
#include "compiler/Files/ReadText.h"
#include "compiler/Import/BuildModel.h"
#include "compiler/Pipelines/Pipelines.h"
#include "cost_model/hardware/Hardware.h"
#include "cost_model/plan/PlanJson.h"
#include "cost_model/rules/Compiled.h"
#include "cost_model/rules/Rules.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "passes/Plan/ExtractProgram.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <optional>

using namespace mlir;

namespace shardwright {

namespace {

constexpr const char *kRoutedExperts = "routed experts";

/// How far the IR has to be lowered.
IrPhase lastPhase(Emit emit) {
  switch (emit) {
  case Emit::Model:
    return IrPhase::Differentiated;
  case Emit::Plan:
    return IrPhase::Planned;
  case Emit::Spmd:
    return IrPhase::Allocated;
  case Emit::Rt:
  case Emit::Llvm:
  case Emit::Ptx:
  case Emit::Object:
  case Emit::Executable:
    return IrPhase::Lowered;
  }
  return IrPhase::Lowered;
}

bool refuseYet(const std::string &where, const std::string &what,
               cost::Failure &failure) {
  return cost::refuse(failure, cost::Diag::not_compiled_yet,
                      where + ": valid, but " + what +
                          " cannot be compiled yet; inspect, plan and predict "
                          "work");
}

} // namespace

bool checkModelCompiles(const std::string &modelPath,
                        const cost::Program &program, Emit emit,
                        cost::Failure &failure) {
  return program.experts == 0 || lastPhase(emit) == IrPhase::Differentiated ||
         refuseYet(modelPath, kRoutedExperts, failure);
}

static constexpr std::pair<Emit, std::string_view> kEmits[] = {
    {Emit::Model, "model"},     {Emit::Plan, "plan"},
    {Emit::Spmd, "spmd"},       {Emit::Rt, "rt"},
    {Emit::Llvm, "llvm"},       {Emit::Ptx, "ptx"},
    {Emit::Object, "obj"},      {Emit::Executable, "exe"}};

std::string_view name(Emit emit) {
  for (auto [value, text] : kEmits)
    if (value == emit)
      return text;
  return "";
}

bool emitNamed(std::string_view text, Emit &emit) {
  for (auto [value, known] : kEmits)
    if (known == text) {
      emit = value;
      return true;
    }
  return false;
}

namespace {

class Compilation {
public:
  Compilation(const CompileOptions &options, cost::Failure &failure)
      : options(options), failure(failure) {}

  /// Bytes of the artifact; of the object file for an executable.
  bool run(std::string &artifact);

private:
  bool refuse(cost::Diag id, std::string message) {
    return cost::refuse(failure, id, std::move(message));
  }
  bool readPlan();
  bool checkTarget();
  bool checkDTypes();
  bool import();
  bool checkAgainstModel();
  bool checkCompiled(const cost::Program &program);
  bool lower();
  bool emit(std::string &artifact);
  bool runPasses(llvm::function_ref<void(OpPassManager &)> build);

  const CompileOptions &options;
  cost::Failure &failure;
  cost::Plan plan;
  std::string planName;
  std::vector<codegen::GpuArch> archs; ///< empty: the host
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  PipelineOptions pipeline;
};

} // namespace

bool Compilation::readPlan() {
  planName = options.planPath.empty() ? "plan" : options.planPath;
  std::string text = options.planText;
  if (text.empty() && !readText(options.planPath, text, failure))
    return false;
  std::vector<cost::Plan> readings;
  if (cost::readPlan(text, planName, plan, failure, &readings))
    return true;
  cost::Program program;
  cost::Failure ignored;
  if (!readings.empty() &&
      loadProgram(options.modelPath, cost::sequenceOfAll(readings), program,
                  ignored))
    for (const cost::Violation &violation :
         cost::violationsOfAll(program, readings))
      failure.messages.emplace_back(violation.id,
                                    planName + ": " + violation.message);
  return false;
}

/// The GPU of a shipped cluster's device, by the product's name.
static const codegen::GpuArch *archOfCluster(const std::string &name) {
  cost::Hardware hardware;
  cost::Failure ignored;
  const char *text = cost::shippedHardware(name);
  if (!text || !cost::readHardware(text, name, hardware, ignored))
    return nullptr;
  static constexpr std::pair<std::string_view, const char *> archs[] = {
      {"A100", "sm_80"}, {"H100", "sm_90"}, {"H200", "sm_90"},
      {"B200", "sm_100"}};
  for (auto [product, arch] : archs)
    if (hardware.device.name.starts_with(product))
      return codegen::gpuArchNamed(arch);
  return nullptr;
}

/// Those that are asked for, else that of the cluster, else all; none for the
/// host.
static std::vector<codegen::GpuArch> archsOf(const CompileOptions &options,
                                             const std::string &cluster) {
  if (options.target == "host")
    return {};
  std::vector<codegen::GpuArch> archs;
  for (const std::string &name : options.gpuArchs)
    archs.push_back(*codegen::gpuArchNamed(name));
  if (!archs.empty())
    return archs;
  if (const codegen::GpuArch *arch = archOfCluster(cluster))
    return {*arch};
  return codegen::gpuArchs().vec();
}

bool checkTargetFlags(const CompileOptions &options, const std::string &cluster,
                      cost::Failure &failure) {
  const auto refuse = [&](cost::Diag id, std::string message) {
    return cost::refuse(failure, id, std::move(message));
  };
  if (options.target != "host" && options.target != "cuda")
    return refuse(cost::Diag::flag_value,
                  "--target " + options.target + ": expected host or cuda");
  if (options.target == "host" && !options.gpuArchs.empty())
    return refuse(cost::Diag::conflicting_flags,
                  "--gpu-arch " + options.gpuArchs.front() +
                      ": expected --target cuda beside it");
  for (auto name = options.gpuArchs.begin(); name != options.gpuArchs.end();
       ++name) {
    if (!codegen::gpuArchNamed(*name))
      return refuse(cost::Diag::flag_value, "--gpu-arch " + *name +
                                                ": expected one of " +
                                                codegen::gpuArchNames());
    if (std::find(options.gpuArchs.begin(), name, *name) != name)
      return refuse(cost::Diag::repeated_flag,
                    "--gpu-arch " + *name + ": given twice");
  }
  if (options.emit == Emit::Ptx && archsOf(options, cluster).size() != 1)
    return refuse(cost::Diag::flag_value,
                  "--emit ptx: expected --target cuda and one --gpu-arch of " +
                      codegen::gpuArchNames());
  return true;
}

bool Compilation::checkTarget() {
  if (!checkTargetFlags(options, plan.clusterName, failure))
    return false;
  archs = archsOf(options, plan.clusterName);
  return checkDTypes();
}

/// All alike; or parameters and activations in bf16, master in f32, gradients
/// and their sums in either.
bool Compilation::checkDTypes() {
  const cost::DTypes &types = plan.dtypes;
  auto refuseField = [&](const char *field, cost::DType type,
                         const std::string &wanted) {
    return refuse(cost::Diag::unsupported_dtype,
                  planName + "#/dtypes/" + field + ": expected " + wanted +
                      " to compile for the " +
                      (archs.empty() ? "host" : "GPU") + ", but got " +
                      std::string(cost::name(type)));
  };
  const bool isNarrow = types.compute == cost::DType::BF16;
  if (!isNarrow && types.compute != cost::DType::F32 &&
      !(types.compute == cost::DType::F64 && archs.empty()))
    return refuseField("compute", types.compute,
                       archs.empty() ? "f32, f64 or bf16" : "f32 or bf16");
  if (types.param != types.compute)
    return refuseField("param", types.param,
                       "the dtype of compute (" +
                           std::string(cost::name(types.compute)) + ")");
  const cost::DType wide = isNarrow ? cost::DType::F32 : types.compute;
  const std::string same =
      "the dtype of compute (" + std::string(cost::name(wide)) + ")";
  const std::pair<const char *, cost::DType> sums[] = {
      {"reduce", types.reduce}, {"grad", types.grad}};
  for (auto [field, type] : sums)
    if (type != wide && !(isNarrow && type == cost::DType::BF16))
      return refuseField(
          field, type,
          isNarrow ? "f32 or bf16 beside a compute dtype of bf16" : same);
  if (types.master != wide)
    return refuseField("master", types.master,
                       isNarrow ? "f32 beside a compute dtype of bf16" : same);
  return true;
}

bool Compilation::runPasses(
    llvm::function_ref<void(OpPassManager &)> build) {
  PassManager passes(&context);
  build(passes);
  return succeeded(passes.run(*module));
}

bool Compilation::import() {
  if (!importModel(options.modelPath, plan.sequence, context, module, failure))
    return false;
  return runPasses(
      [&](OpPassManager &passes) { buildImportPipeline(passes, pipeline); });
}

bool Compilation::checkAgainstModel() {
  cost::Program program;
  if (!extractProgram(*module, program))
    return false;
  const std::vector<cost::Violation> violations =
      cost::checkPlan(program, plan);
  if (violations.empty())
    return lastPhase(options.emit) == IrPhase::Differentiated ||
           checkCompiled(program);
  failure.kind = cost::worstKind(violations);
  for (const cost::Violation &violation : violations)
    failure.messages.emplace_back(violation.id,
                                  planName + ": " + violation.message);
  return false;
}

/// Plans and ops that are priced but cannot be lowered yet.
bool Compilation::checkCompiled(const cost::Program &program) {
  const auto notYet = [&](const std::string &where, const std::string &what) {
    refuseYet(where, what, failure);
  };
  for (const cost::NotCompiled &one : cost::notCompiled(plan))
    notYet(planName + "#" + one.where, one.what);
  std::vector<std::string> parts;
  auto add = [&](const char *part) {
    if (std::find(parts.begin(), parts.end(), part) == parts.end())
      parts.emplace_back(part);
  };
  if (program.experts > 0)
    add(kRoutedExperts);
  module->walk([&](Operation *op) {
    if (isa<model::LatentAttentionOp>(op))
      add("latent attention");
    if (auto attention = dyn_cast<model::AttentionOp>(op);
        attention && attention.getChunk())
      add("attention in chunks");
    if (isa<model::ScalePositionsOp>(op))
      add("queries scaled by position");
  });
  std::string missing;
  for (size_t i = 0; i < parts.size(); ++i)
    missing += (i == 0                  ? ""
                : i + 1 < parts.size() ? ", "
                                        : " and ") +
               parts[i];
  if (!missing.empty())
    notYet(options.modelPath, missing);
  return failure.messages.empty();
}

bool Compilation::lower() {
  if (lastPhase(options.emit) == IrPhase::Differentiated)
    return true;
  (*module)->setAttr(plan::kTextAttr,
                     StringAttr::get(&context, cost::canonicalText(plan)));
  return runPasses(
      [&](OpPassManager &passes) { buildPlanPipeline(passes, pipeline); });
}

bool Compilation::emit(std::string &artifact) {
  llvm::raw_string_ostream stream(artifact);
  if (options.emit < Emit::Llvm) {
    module->print(stream);
    stream << '\n';
    return true;
  }
  if (options.emit == Emit::Ptx) {
    FailureOr<std::string> ptx =
        codegen::emitDevicePtx(*module, archs.front(), failure);
    if (failed(ptx))
      return false;
    stream << *ptx;
    return true;
  }
  auto machine = codegen::makeTargetMachine(options.cpu, failure);
  if (!machine)
    return false;
  llvm::LLVMContext llvmContext;
  llvm::Module target("shardwright", llvmContext);
  codegen::setTarget(target, *machine);
  if (failed(codegen::emitModule(*module, target, archs, failure)))
    return false;
  std::string invalid;
  llvm::raw_string_ostream invalidStream(invalid);
  if (llvm::verifyModule(target, &invalidStream))
    return refuse(cost::Diag::internal_error, "invalid LLVM IR: " + invalid);
  if (options.emit == Emit::Llvm) {
    target.print(stream, nullptr);
    return true;
  }
  codegen::optimize(target, *machine);
  llvm::SmallVector<char, 0> object;
  if (!codegen::emitObject(target, *machine, object, failure))
    return false;
  stream.write(object.data(), object.size());
  return true;
}

bool Compilation::run(std::string &artifact) {
  // A pass that fails after the checks below is our fault.
  std::vector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << diagnostic.getLocation() << ": " << diagnostic;
    errors.push_back(text);
  });
  failure = {};
  pipeline.until = lastPhase(options.emit);
  pipeline.dumpDir = options.dumpDir;
  pipeline.failure = &failure;
  const bool done =
      readPlan() && checkTarget() &&
      (options.dumpDir.empty() || makeFolder(options.dumpDir, failure)) &&
      import() && checkAgainstModel() && lower() && emit(artifact);
  if (!done && failure.messages.empty()) {
    if (errors.empty())
      errors = {"a pass failed without saying why"};
    for (const std::string &error : errors)
      refuse(cost::Diag::internal_error, error);
  }
  return done;
}

bool compileToText(const CompileOptions &options, std::string &artifact,
                   cost::Failure &failure) {
  assert(options.emit != Emit::Executable && "an executable is a file");
  artifact.clear();
  return Compilation(options, failure).run(artifact);
}

bool compile(const CompileOptions &options, cost::Failure &failure) {
  std::string artifact;
  if (!checkWritable(options.output, failure) ||
      !Compilation(options, failure).run(artifact))
    return false;
  return options.emit == Emit::Executable
             ? writeExecutable(options.output, artifact, failure)
             : writeText(options.output, artifact, failure);
}

} // namespace shardwright

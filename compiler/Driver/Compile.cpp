//===- Compile.cpp - From a model and a plan to an executable -------------===//
#include "compiler/Driver/Compile.h"

#include "compiler/Codegen/ModuleEmitter.h"
#include "compiler/Codegen/Object.h"
#include "compiler/Driver/Artifact.h"
#include "compiler/Import/BuildModel.h"
#include "compiler/Pipelines/Pipelines.h"
#include "cost_model/Json.h"
#include "cost_model/Rules.h"
#include "dialects/Plan/IR/PlanDialect.h"
#include "passes/Plan/ExtractProgram.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <optional>

using namespace mlir;

namespace shardwright {

static constexpr std::pair<Emit, std::string_view> kEmits[] = {
    {Emit::Model, "model"},     {Emit::Plan, "plan"},
    {Emit::Spmd, "spmd"},       {Emit::Rt, "rt"},
    {Emit::Llvm, "llvm"},       {Emit::Object, "obj"},
    {Emit::Executable, "exe"}};

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

/// How far the IR has to be lowered.
static IrPhase lastPhase(Emit emit) {
  switch (emit) {
  case Emit::Model:
    return IrPhase::Differentiated;
  case Emit::Plan:
    return IrPhase::Planned;
  case Emit::Spmd:
    return IrPhase::Allocated;
  case Emit::Rt:
  case Emit::Llvm:
  case Emit::Object:
  case Emit::Executable:
    return IrPhase::Lowered;
  }
  return IrPhase::Lowered;
}

namespace {

class Compilation {
public:
  Compilation(const CompileOptions &options, cost::Failure &failure)
      : options(options), failure(failure) {}

  /// Bytes of the artifact; of the object file for an executable.
  bool run(std::string &artifact);

private:
  bool refuse(cost::FailureKind kind, std::string message) {
    failure = {kind, {std::move(message)}};
    return false;
  }
  bool readPlan();
  bool checkTarget();
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
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  PipelineOptions pipeline;
};

} // namespace

bool Compilation::readPlan() {
  planName = options.planPath.empty() ? "plan" : options.planPath;
  std::string text = options.planText;
  if (text.empty() && !readFile(options.planPath, text, failure))
    return false;
  return cost::readPlan(text, planName, plan, failure);
}

bool Compilation::checkTarget() {
  if (options.target != "host")
    return refuse(cost::FailureKind::Unsupported,
                  "expected target 'host', but got '" + options.target + "'");
  const cost::DTypes &types = plan.dtypes;
  const std::pair<const char *, cost::DType> fields[] = {
      {"param", types.param},
      {"compute", types.compute},
      {"reduce", types.reduce},
      {"grad", types.grad},
      {"master", types.master}};
  auto refuseField = [&](const char *field, cost::DType type,
                         const std::string &wanted) {
    return refuse(cost::FailureKind::Unsupported,
                  planName + "#/dtypes/" + field + ": expected " + wanted +
                      " to compile for the host, but got " +
                      std::string(cost::name(type)));
  };
  for (auto [field, type] : fields)
    if (type != cost::DType::F32 && type != cost::DType::F64)
      return refuseField(field, type, "f32 or f64");
  for (auto [field, type] : fields)
    if (type != types.compute)
      return refuseField(field, type, "the dtype of compute (" +
                                          std::string(cost::name(
                                              types.compute)) +
                                          ")");
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
    failure.messages.push_back(planName + ": " + violation.message);
  return false;
}

/// Plans and ops that are priced but cannot be lowered yet.
bool Compilation::checkCompiled(const cost::Program &program) {
  if (plan.schedule != cost::ScheduleKind::GPipe &&
      plan.schedule != cost::ScheduleKind::OneFOneB)
    return refuse(cost::FailureKind::Unsupported,
                  planName + "#/schedule/kind: valid, but schedule '" +
                      std::string(cost::name(plan.schedule)) +
                      "' cannot be compiled yet (gpipe and 1f1b can); predict "
                      "works");
  std::string missing;
  if (program.experts > 0)
    missing = "routed experts";
  module->walk([&](Operation *op) {
    if (isa<model::LatentAttentionOp>(op))
      missing = missing.empty() ? "latent attention"
                                : "routed experts and latent attention";
    return isa<model::LatentAttentionOp>(op) ? WalkResult::interrupt()
                                             : WalkResult::advance();
  });
  if (missing.empty())
    return true;
  return refuse(cost::FailureKind::Unsupported,
                options.modelPath + ": valid, but " + missing +
                    " cannot be compiled yet; inspect, plan and predict work");
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
  auto machine = codegen::makeTargetMachine(options.cpu, failure);
  if (!machine)
    return false;
  llvm::LLVMContext llvmContext;
  llvm::Module target("shardwright", llvmContext);
  codegen::setTarget(target, *machine);
  if (failed(codegen::emitModule(*module, target)))
    return false;
  std::string invalid;
  llvm::raw_string_ostream invalidStream(invalid);
  if (llvm::verifyModule(target, &invalidStream))
    return refuse(cost::FailureKind::Bug, "invalid LLVM IR: " + invalid);
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
  const bool done =
      readPlan() && checkTarget() &&
      (options.dumpDir.empty() || makeFolder(options.dumpDir, failure)) &&
      import() && checkAgainstModel() && lower() && emit(artifact);
  if (!done && failure.messages.empty()) {
    if (errors.empty())
      errors.push_back("a pass failed without saying why");
    failure = {cost::FailureKind::Bug, errors};
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
             : writeFile(options.output, artifact, failure);
}

} // namespace shardwright

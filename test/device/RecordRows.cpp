//===- RecordRows.cpp - The kernels that the tests of row programs run ----===//
//
//   row_kernels FOLDER [host]
//
// Runs the tests of row programs (test/unit/compiler/Row*Test.cpp) without
// running a program: writes FOLDER/rows.ARCH.ptx with the kernels of all that
// they ask for, for every GPU, and FOLDER/rows.json, which says what is where.
// RowsOnDevice.cpp runs the same tests with them on a GPU. `host`: also
// FOLDER/rows.host.o, the same kernels for the fake driver.
//
//===----------------------------------------------------------------------===//
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "compiler/Codegen/DeviceCode.h"
#include "compiler/Codegen/DeviceRows.h"
#include "compiler/Codegen/Object.h"
#include "test/device/RowKey.h"
#include "test/unit/compiler/DeviceAsHost.h"
#include "test/unit/compiler/RowRun.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/JSON.h"

#include <cstdio>
#include <fstream>

using namespace shardwright;
using namespace shardwright::codegen;

static std::map<std::string, RowProgram> programs;
static std::map<std::string, UpdateTypes> updates;

std::vector<RowResult> codegen::runAll(const RowRun &run) {
  if (run.program.element == Element::F32) // the arithmetic of devices
    programs.emplace(rowKey(run.program), run.program);
  return {};
}

std::vector<RowResult> codegen::runUpdates(const UpdateTypes &types,
                                           const Buffers &,
                                           const std::vector<double> &) {
  if (types.master == Element::F32)
    updates.emplace(updateKey(types), types);
  return {};
}

/// Emits everything; describes it by key.
static llvm::json::Object emitAll(llvm::Module &module) {
  llvm::json::Object result;
  for (const auto &[key, program] : programs) {
    RowProgram named = program;
    named.name = "row" + std::to_string(result.size());
    const DeviceKernel kernel = emitDeviceKernel(named, module);
    llvm::json::Array steps;
    for (const DeviceStep &step : kernel.steps)
      steps.push_back(llvm::json::Object{{"entry", step.entry},
                                         {"grid", int64_t{step.grid}},
                                         {"block", int64_t{step.block}}});
    result[key] = llvm::json::Object{{"steps", std::move(steps)},
                                     {"scratch_bytes", kernel.scratchBytes}};
  }
  for (const auto &[key, types] : updates) {
    const DeviceUpdate update = emitDeviceUpdate(
        types, "update" + std::to_string(result.size()), module);
    result[key] = llvm::json::Object{
        {"entry", update.entry},
        {"block", int64_t{update.block}},
        {"elements_per_block", int64_t{update.elementsPerBlock}}};
  }
  return result;
}

static bool write(const std::string &path, llvm::StringRef text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.flush())
    return true;
  std::fprintf(stderr, "row_kernels: expected to write '%s'\n", path.c_str());
  return false;
}

static bool fail(const cost::Failure &failure) {
  std::fprintf(stderr, "row_kernels: %s\n",
               failure.messages.front().text.c_str());
  return false;
}

static bool writePtx(const std::string &folder) {
  for (const GpuArch &arch : gpuArchs()) {
    cost::Failure failure;
    auto machine = makeGpuMachine(arch, failure);
    if (!machine)
      return fail(failure);
    llvm::LLVMContext context;
    llvm::Module module("rows", context);
    setTarget(module, *machine);
    std::string text;
    llvm::raw_string_ostream(text)
        << llvm::json::Value(emitAll(module)) << "\n";
    optimizeDevice(module, *machine);
    std::string ptx;
    if (!emitPtx(module, *machine, ptx, failure))
      return fail(failure);
    if (!write(folder + "/rows." + arch.name + ".ptx", ptx) ||
        !write(folder + "/rows.json", text))
      return false;
  }
  return true;
}

static bool writeHost(const std::string &folder) {
  llvm::LLVMContext context;
  llvm::Module module("rows", context);
  emitAll(module);
  replaceDeviceIntrinsics(module);
  std::vector<std::string> entries;
  for (llvm::Function &function : module)
    if (!function.isDeclaration() && !function.hasLocalLinkage())
      entries.push_back(function.getName().str());
  for (const std::string &entry : entries)
    emitCountedEntry(module, entry);
  cost::Failure failure;
  auto machine = makeTargetMachine(kDefaultCpu, failure);
  llvm::SmallVector<char, 0> object;
  if (!machine)
    return fail(failure);
  setTarget(module, *machine);
  optimize(module, *machine);
  if (!emitObject(module, *machine, object, failure))
    return fail(failure);
  return write(folder + "/rows.host.o", {object.data(), object.size()});
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3 || (argc == 3 && std::string(argv[2]) != "host")) {
    std::fprintf(stderr, "usage: row_kernels FOLDER [host]\n");
    return 5;
  }
  Catch::Session session;
  session.configData().outputFilename = "/dev/null";
  if (session.run() != 0 || programs.empty() || updates.empty())
    return 1;
  if (!writePtx(argv[1]) || (argc == 3 && !writeHost(argv[1])))
    return 1;
  std::printf("%zu kernels, %zu updates\n", programs.size(), updates.size());
  return 0;
}

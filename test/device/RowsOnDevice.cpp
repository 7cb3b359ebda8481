//===- RowsOnDevice.cpp - The tests of row programs on a GPU --------------===//
//
//   rows FOLDER
//
// The tests of test/unit/compiler/Row*Test.cpp, with their random inputs and f64
// references, on kernels that RecordRows.cpp has written to FOLDER. Needs no
// LLVM.
//
//===----------------------------------------------------------------------===//
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "runtime/src/Convert.h"
#include "runtime/src/Job.h"
#include "runtime/src/backend/cuda/OpenCudaDevice.h"
#include "test/device/RowKey.h"
#include "test/unit/compiler/RowRun.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>

using namespace shardwright;
using namespace shardwright::codegen;
using Json = nlohmann::json;

namespace {

Json kernels;
runtime::Device *device = nullptr;
int64_t launches = 0;

std::string slurp(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void want(sw_rt_status status, const char *what) {
  if (status != SW_RT_OK)
    throw std::runtime_error(std::string(what) + " failed");
}

sw_rt_dtype dtypeOf(Element element) {
  return element == Element::F64    ? SW_RT_F64
         : element == Element::BF16 ? SW_RT_BF16
                                    : SW_RT_F32;
}

/// A buffer on the device, with bytes around it that nobody may touch.
class OnDevice {
public:
  OnDevice(const std::vector<double> &values, Element element)
      : dtype(dtypeOf(element)), count(values.size()) {
    std::vector<char> narrow(count * static_cast<size_t>(bytesOf(element)));
    if (!runtime::convert(SW_RT_F64, values.data(), dtype, narrow.data(),
                          static_cast<int64_t>(count)))
      throw std::runtime_error("no conversion of inputs");
    create(narrow);
  }
  explicit OnDevice(const std::vector<int32_t> &labels) : isIndex(true) {
    const char *from = reinterpret_cast<const char *>(labels.data());
    create({from, from + 4 * labels.size()});
  }
  char *at() { return memory.at() + guard; }
  std::vector<double> values() {
    std::vector<char> all(static_cast<size_t>(bytes + 2 * guard));
    want(device->toHost(all.data(), memory.at(), bytes + 2 * guard), "a copy");
    for (int64_t i = 0; i < guard; ++i)
      if (all[static_cast<size_t>(i)] != canary ||
          all[static_cast<size_t>(guard + bytes + i)] != canary)
        throw std::runtime_error("wrote outside of a buffer");
    std::vector<double> result(isIndex ? 0 : count);
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = elementAt(all.data() + guard, i);
    return result;
  }

private:
  static constexpr int64_t guard = 256; // keeps the alignment
  static constexpr char canary = 0x5a;
  double elementAt(const char *base, size_t i) const {
    switch (dtype) {
    case SW_RT_F64:
      return reinterpret_cast<const double *>(base)[i];
    case SW_RT_BF16:
      return runtime::fromBf16(reinterpret_cast<const uint16_t *>(base)[i]);
    default:
      return reinterpret_cast<const float *>(base)[i];
    }
  }
  void create(const std::vector<char> &start) {
    bytes = static_cast<int64_t>(start.size());
    std::string why;
    if (!memory.create(*device, bytes + 2 * guard, why))
      throw std::runtime_error(why);
    want(device->fill(memory.at(), canary, bytes + 2 * guard), "a fill");
    want(device->toDevice(at(), start.data(), bytes), "a copy");
  }
  runtime::DeviceMemory memory;
  sw_rt_dtype dtype = SW_RT_F32;
  size_t count = 0;
  int64_t bytes = 0;
  bool isIndex = false;
};

const Json &described(const std::string &key) {
  if (!kernels.contains(key))
    throw std::runtime_error("no kernel was recorded for '" + key + "'");
  return kernels[key];
}

void launch(const std::vector<sw_rt_kernel_step> &steps, int64_t scratch,
            int buffers, const std::vector<void *> &arguments) {
  const sw_rt_kernel kernel{"rows", buffers, static_cast<int32_t>(steps.size()),
                            steps.data(), scratch};
  want(device->launch(kernel, arguments.data()), "a launch");
  want(device->wait(), "a kernel");
  ++launches;
}

void *asArgument(int64_t value) {
  return reinterpret_cast<void *>(static_cast<intptr_t>(value));
}

} // namespace

std::vector<RowResult> codegen::runAll(const RowRun &run) {
  if (run.program.element != Element::F32)
    return {};
  const Json &kernel = described(rowKey(run.program));
  std::vector<std::string> entries;
  for (const Json &step : kernel["steps"])
    entries.push_back(step["entry"]);
  std::vector<sw_rt_kernel_step> steps;
  for (size_t i = 0; i < entries.size(); ++i)
    steps.push_back({entries[i].c_str(), kernel["steps"][i]["grid"],
                     kernel["steps"][i]["block"], 0, 0});
  std::vector<std::unique_ptr<OnDevice>> buffers;
  std::vector<void *> arguments;
  for (int i = 0; i < run.program.buffers; ++i) {
    const auto labels = run.labels.find(i);
    buffers.push_back(labels == run.labels.end()
                          ? std::make_unique<OnDevice>(
                                run.buffers[static_cast<size_t>(i)],
                                run.program.stored(i))
                          : std::make_unique<OnDevice>(labels->second));
    arguments.push_back(buffers.back()->at());
  }
  arguments.push_back(asArgument(run.positionOrigin));
  arguments.push_back(asArgument(run.columnOrigin));
  launch(steps, kernel["scratch_bytes"], run.program.buffers, arguments);
  RowResult result{"GPU", {}};
  for (const auto &buffer : buffers)
    result.buffers.push_back(buffer->values());
  return {result};
}

std::vector<RowResult> codegen::runUpdates(const UpdateTypes &types,
                                           const Buffers &buffers,
                                           const std::vector<double> &scalars) {
  if (types.master != Element::F32)
    return {};
  const Json &update = described(updateKey(types));
  const Element elements[] = {types.master, types.master, types.master,
                              types.gradient, types.parameter};
  std::vector<std::unique_ptr<OnDevice>> memory;
  std::vector<void *> arguments;
  for (size_t i = 0; i < 5; ++i) {
    memory.push_back(std::make_unique<OnDevice>(buffers[i], elements[i]));
    arguments.push_back(memory.back()->at());
  }
  OnDevice last(scalars, Element::F64);
  const int64_t count = static_cast<int64_t>(buffers[0].size()),
                each = update["elements_per_block"];
  // Count and scalars go where further buffers would.
  for (void *argument : {asArgument(count), static_cast<void *>(last.at()),
                         asArgument(0), asArgument(0)})
    arguments.push_back(argument);
  const std::string entry = update["entry"];
  if (count > 0)
    launch({{entry.c_str(), static_cast<uint32_t>((count + each - 1) / each),
             update["block"], 0, 0}},
           0, 7, arguments);
  RowResult result{"GPU", {}};
  for (const auto &buffer : memory)
    result.buffers.push_back(buffer->values());
  return {result};
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rows FOLDER\n");
    return 5;
  }
  const std::string folder = argv[1];
  kernels = Json::parse(slurp(folder + "/rows.json"), nullptr, false);
  std::vector<std::string> texts;
  std::vector<sw_rt_image> images;
  for (int32_t capability : {80, 90, 100})
    texts.push_back(slurp(folder + "/rows.sm_" + std::to_string(capability) +
                          ".ptx"));
  for (size_t i = 0; i < texts.size(); ++i)
    images.push_back({SW_RT_IMAGE_PTX, std::vector{80, 90, 100}[i],
                      texts[i].c_str(),
                      static_cast<int64_t>(texts[i].size() + 1)});
  if (kernels.is_discarded() || texts[0].empty()) {
    std::fprintf(stderr, "error: expected '%s' to hold rows.json and "
                         "rows.sm_*.ptx\n",
                 folder.c_str());
    return 4;
  }
  // A program of nothing but device code.
  sw_rt_device_code code{};
  code.struct_bytes = sizeof(code);
  code.num_images = static_cast<int32_t>(images.size());
  code.images = images.data();
  const sw_rt_stage stage{};
  const sw_rt_axis axis{"tp", 1};
  sw_rt_program program{};
  program.num_axes = program.num_stages = 1;
  program.pp_axis = program.dp_axis = -1;
  program.axes = &axis;
  program.stages = &stage;
  program.device_code = &code;

  runtime::JobOptions options{runtime::Mesh({{"tp", 1}}), 120};
  options.openDevice = [&](sw_rt_context &context, sw_rt_status &failure,
                           std::string &why) {
    return runtime::openCudaDevice(context, &program, {}, failure, why);
  };
  int failed = 1;
  const runtime::JobResult result =
      runtime::runOnThreads(options, [&](sw_rt_context &context) {
        device = context.device.get();
        failed = Catch::Session().run();
        return context.status;
      });
  std::printf("{\"launches\": %lld}\n", static_cast<long long>(launches));
  if (result.status == SW_RT_OK)
    return failed || launches == 0 ? 2 : 0;
  std::fprintf(stderr, "error: %s\n", result.message.c_str());
  return result.status == SW_RT_UNSUPPORTED ? 3 : 2;
}

//===- RowWays.cpp - Every way that this machine runs a row program -------===//
#include "DeviceRun.h"

#include "compiler/Codegen/RowEmitter.h"

#include <algorithm>
#include <stdexcept>

namespace shardwright::codegen {

std::vector<RowResult> runAll(const RowRun &run) {
  std::vector<RowResult> results = {{"host", execute(run)}};
  const int64_t extent = rowUnits(run.program).extent;
  if (extent > 0 && run.program.storage.empty())
    results.push_back(
        {"host in ranges",
         executeInRanges(run, std::max<int64_t>(1, extent / 3))});
  if (run.program.element != Element::F32) // the arithmetic of devices
    return results;
  const std::vector<Buffers> device = executeOnDevice(run);
  auto bits = [](const Buffers &buffers) { // NaN equals itself
    std::string text;
    for (const std::vector<double> &buffer : buffers)
      text.append(reinterpret_cast<const char *>(buffer.data()),
                  buffer.size() * sizeof(double));
    return text;
  };
  for (const Buffers &other : device)
    if (bits(other) != bits(device[0]))
      throw std::runtime_error("the order of threads shows in the result");
  results.push_back({"device code", device[0]});
  return results;
}

std::vector<RowResult> runUpdates(const UpdateTypes &types,
                                  const Buffers &buffers,
                                  const std::vector<double> &scalars) {
  std::vector<RowResult> results = {
      {"host", executeUpdate(types, buffers, scalars)}};
  if (types.master == Element::F32)
    results.push_back(
        {"device code", executeUpdateOnDevice(types, buffers, scalars)});
  return results;
}

} // namespace shardwright::codegen

//===- Dump.cpp - Gradients and parameters as a safetensors file ----------===//
#include "runtime/src/train/Dump.h"

#include <cerrno>
#include <cstring>
#include <map>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace shardwright::runtime {
namespace {

struct Tensor {
  sw_rt_dtype dtype;
  std::vector<int64_t> shape;
  int64_t offset = 0; ///< in the data part
  int64_t bytes() const {
    int64_t product = byteWidth(dtype);
    for (int64_t extent : shape)
      product *= extent;
    return product;
  }
};

/// Every tensor of the program, of all stages, by its key in the file. The same
/// on every rank.
std::map<std::string, Tensor> tensorsOf(const sw_rt_program &program,
                                        const Mesh &mesh) {
  std::map<std::string, Tensor> tensors;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const Stage stage(program, mesh, rank);
    if (mesh.coordinate(rank, mesh.all() & ~stage.axis(program.pp_axis)) != 0)
      continue; // one rank a stage
    stage.forEachParameter([&](const ParameterView &view) {
      Tensor tensor;
      for (int64_t extent : view.parameter->hf_shape)
        if (extent > 0)
          tensor.shape.push_back(extent);
      const std::string name = view.name();
      tensor.dtype = static_cast<sw_rt_dtype>(program.grad_dtype);
      tensors.emplace("grad:" + name, tensor);
      tensor.dtype = static_cast<sw_rt_dtype>(program.param_dtype);
      tensors.emplace("param:" + name, tensor);
    });
  }
  int64_t offset = 0;
  for (auto &[name, tensor] : tensors) {
    tensor.offset = offset;
    offset += tensor.bytes();
  }
  return tensors;
}

/// Length and JSON of the header, padded so that data starts at 8 bytes.
std::string headerOf(const std::map<std::string, Tensor> &tensors) {
  std::string json = "{";
  for (const auto &[name, tensor] : tensors) {
    std::string shape;
    for (int64_t extent : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    json += (json.size() > 1 ? "," : "") + ("\"" + name) + "\":{\"dtype\":\"" +
            (tensor.dtype == SW_RT_F64    ? "F64"
             : tensor.dtype == SW_RT_BF16 ? "BF16"
                                          : "F32") +
            "\",\"shape\":[" +
            shape + "],\"data_offsets\":[" + std::to_string(tensor.offset) +
            "," + std::to_string(tensor.offset + tensor.bytes()) + "]}";
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  std::string header(8, 0);
  std::memcpy(header.data(), &length, 8);
  return header + json;
}

std::string systemFailure(const char *wanted, const std::string &path) {
  return std::string("expected ") + wanted + " '" + path +
         "', but the system refused: " + std::strerror(errno);
}

/// Makes the file with its header and all its space.
std::string createFile(const std::string &path, const std::string &header,
                       int64_t bytes) {
  const int file =
      open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
  if (file < 0)
    return systemFailure("to write the dump", path);
  std::string why;
  // With its space reserved, a full disk shows here and not in a mapped write.
  if (int error =
          posix_fallocate(file, 0, static_cast<off_t>(header.size()) + bytes)) {
    errno = error;
    why = systemFailure("space for the dump", path);
  } else if (pwrite(file, header.data(), header.size(), 0) !=
             static_cast<ssize_t>(header.size())) {
    why = systemFailure("to write the header of", path);
  }
  close(file);
  return why;
}

/// Copies the elements that this rank owns into the mapped data part.
void writeOwned(const Stage &stage, const char *source, int64_t width,
                const std::string &prefix,
                const std::map<std::string, Tensor> &tensors, char *data) {
  stage.forEachParameter([&](const ParameterView &view) {
    const ElementRange range = stage.ownedRange(view);
    if (range.first == range.last)
      return;
    const char *from =
        source + (view.blockElements + view.parameter->offset) * width;
    char *to = data + tensors.at(prefix + view.name()).offset;
    stage.forEachLine(view, range, [&](const Stage::Line &line) {
      if (line.stride == 1) {
        std::memcpy(to + line.hf * width, from + line.local * width,
                    static_cast<size_t>(line.count * width));
        return;
      }
      for (int64_t i = 0; i < line.count; ++i)
        std::memcpy(to + (line.hf + i * line.stride) * width,
                    from + (line.local + i) * width,
                    static_cast<size_t>(width));
    });
  });
}

} // namespace

sw_rt_status dumpTensors(sw_rt_context &context, const Trainer &trainer,
                         const std::string &path) {
  const Stage &stage = trainer.getStage();
  const sw_rt_program &program = stage.program;
  const auto tensors = tensorsOf(program, context.mesh);
  const std::string header = headerOf(tensors);
  int64_t bytes = 0;
  for (const auto &[name, tensor] : tensors)
    bytes += tensor.bytes();

  const std::string unfinished = path + ".unfinished";
  if (context.rank() == 0)
    if (std::string why = createFile(unfinished, header, bytes); !why.empty())
      return context.fail(SW_RT_IO, why);
  if (sw_rt_status status = sw_rt_barrier(&context))
    return status;
  const int file = open(unfinished.c_str(), O_RDWR | O_CLOEXEC);
  const size_t length = header.size() + static_cast<size_t>(bytes);
  void *map = file < 0 ? MAP_FAILED
                       : mmap(nullptr, length, PROT_READ | PROT_WRITE,
                              MAP_SHARED, file, 0);
  if (file >= 0)
    close(file);
  if (map == MAP_FAILED)
    return context.fail(SW_RT_IO, systemFailure("to map the dump", unfinished));
  char *data = static_cast<char *>(map) + header.size();
  Mirror gradients(*context.device, trainer.gradients(),
                   trainer.getArena().bytes(Arena::Gradients), /*read=*/true);
  Mirror parameters(*context.device, trainer.parameters(),
                    trainer.getArena().bytes(Arena::Parameters), /*read=*/true);
  for (const Mirror *mirror : {&gradients, &parameters})
    if (mirror->getStatus() != SW_RT_OK) {
      munmap(map, length);
      return mirror->getStatus();
    }
  writeOwned(stage, gradients.data(),
             byteWidth(static_cast<sw_rt_dtype>(program.grad_dtype)),
             "grad:", tensors, data);
  writeOwned(stage, parameters.data(),
             byteWidth(static_cast<sw_rt_dtype>(program.param_dtype)),
             "param:", tensors, data);
  munmap(map, length);
  if (sw_rt_status status = sw_rt_barrier(&context))
    return status;
  if (context.rank() == 0 && rename(unfinished.c_str(), path.c_str()) != 0)
    return context.fail(SW_RT_IO, systemFailure("to name the dump", path));
  return SW_RT_OK;
}

} // namespace shardwright::runtime

//===- TensorFile.cpp - Whole tensors of a sharded program in a file ------===//
#include "runtime/src/train/TensorFile.h"
#include "runtime/src/train/OutputFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwright::runtime {

using Json = nlohmann::json;

int64_t FileTensor::bytes() const {
  int64_t product = byteWidth(dtype);
  for (int64_t extent : shape)
    product *= extent;
  return product;
}

FileTensors tensorsOf(const sw_rt_program &program, const Mesh &mesh,
                      const std::vector<TensorSet> &sets) {
  FileTensors tensors;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const Stage stage(program, mesh, rank);
    if (mesh.coordinate(rank, mesh.all() & ~stage.axis(program.pp_axis)) != 0)
      continue; // one rank a stage
    stage.forEachParameter([&](const ParameterView &view) {
      FileTensor tensor{};
      for (int64_t extent : view.parameter->hf_shape)
        if (extent > 0)
          tensor.shape.push_back(extent);
      for (const TensorSet &set : sets) {
        tensor.dtype = set.dtype;
        tensors.emplace(set.prefix + view.name(), tensor);
      }
    });
  }
  int64_t offset = 0;
  for (auto &[name, tensor] : tensors) {
    tensor.offset = offset;
    offset += tensor.bytes();
  }
  return tensors;
}

void copyToWhole(const Stage &stage, const ParameterView &view,
                 ElementRange range, int64_t width, const char *local,
                 char *whole) {
  stage.forEachLine(view, range, [&](const Stage::Line &line) {
    for (int64_t i = 0; i < line.count && line.stride != 1; ++i)
      std::memcpy(whole + (line.hf + i * line.stride) * width,
                  local + (line.local + i) * width,
                  static_cast<size_t>(width));
    if (line.stride == 1)
      std::memcpy(whole + line.hf * width, local + line.local * width,
                  static_cast<size_t>(line.count * width));
  });
}

void copyFromWhole(const Stage &stage, const ParameterView &view,
                   ElementRange range, int64_t width, const char *whole,
                   char *local) {
  stage.forEachLine(view, range, [&](const Stage::Line &line) {
    for (int64_t i = 0; i < line.count && line.stride != 1; ++i)
      std::memcpy(local + (line.local + i) * width,
                  whole + (line.hf + i * line.stride) * width,
                  static_cast<size_t>(width));
    if (line.stride == 1)
      std::memcpy(local + line.local * width, whole + line.hf * width,
                  static_cast<size_t>(line.count * width));
  });
}

namespace {

constexpr std::pair<const char *, sw_rt_dtype> fileTypes[] = {
    {"F64", SW_RT_F64}, {"F32", SW_RT_F32}, {"BF16", SW_RT_BF16}};

const char *fileType(sw_rt_dtype dtype) {
  for (const auto &[name, type] : fileTypes)
    if (type == dtype)
      return name;
  return "";
}

/// Length and JSON of the header, padded so that data starts at 8 bytes.
std::string headerOf(const FileTensors &tensors,
                     const std::map<std::string, std::string> &metadata) {
  Json json = Json::object();
  if (!metadata.empty())
    json["__metadata__"] = metadata;
  for (const auto &[name, tensor] : tensors)
    json[name] = {
        {"dtype", fileType(tensor.dtype)},
        {"shape", tensor.shape},
        {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes()}}};
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string header(8, 0);
  std::memcpy(header.data(), &length, 8);
  return header + text;
}

std::string systemFailure(const std::string &wanted, const std::string &path) {
  return "expected " + wanted + " '" + path +
         "', but the system refused: " + std::strerror(errno);
}

/// The file while it is written, by this program alone: another that saves
/// to the same path at the same time would write into the same pages.
class UnfinishedFile {
public:
  ~UnfinishedFile() {
    if (!path.empty())
      unlink(path.c_str()); // whose name it keeps to the end, it failed
    if (file >= 0)
      close(file);
  }
  void finished() { path.clear(); }

  /// Makes it with its header and all its space; what was refused, or nothing.
  std::string create(const std::string &what, const std::string &name,
                     const std::string &header, int64_t bytes) {
    for (bool isAlone = false; !isAlone;) {
      if (file >= 0)
        close(file);
      file = open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
      if (file < 0)
        return systemFailure("to write the " + what, name);
      // File systems without locks leave it to the user.
      if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return "expected to write the " + what + " '" + name +
               "' alone, but another program is writing it";
      // The one that held the lock may have given the file its name since.
      struct stat mine {}, named {};
      isAlone = fstat(file, &mine) == 0 && stat(name.c_str(), &named) == 0 &&
                mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
    }
    path = name;
    // With its space reserved, a full disk shows here and not in a mapped
    // write.
    const auto length = static_cast<off_t>(header.size()) + bytes;
    int error = ftruncate(file, 0) == 0 ? 0 : errno;
    if (!error)
      error = posix_fallocate(file, 0, length);
    if (error) {
      errno = error;
      return systemFailure("space for the " + what, name);
    }
    if (pwrite(file, header.data(), header.size(), 0) !=
        static_cast<ssize_t>(header.size()))
      return systemFailure("to write the header of", name);
    return {};
  }

private:
  int file = -1;
  std::string path; ///< while it is ours and unfinished
};

/// Gives the finished file its name, on disk too: a crash behind it leaves this
/// file or the one before.
bool nameFile(const std::string &from, const std::string &to) {
  const int file = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  const bool synced = fsync(file) == 0;
  close(file);
  return synced && rename(from.c_str(), to.c_str()) == 0;
}

} // namespace

sw_rt_status
writeTensors(sw_rt_context &context, const FileTensors &tensors,
             const std::map<std::string, std::string> &metadata,
             const std::string &what, const std::string &path,
             const std::function<sw_rt_status(char *data)> &fill) {
  const std::string header = headerOf(tensors, metadata);
  int64_t bytes = 0;
  for (const auto &[name, tensor] : tensors)
    bytes += tensor.bytes();
  // What a link names is written, not the link.
  const std::string target = behindLinks(path);
  const std::string unfinished = target + ".unfinished";
  UnfinishedFile mine;
  if (context.rank() == 0)
    if (std::string why = mine.create(what, unfinished, header, bytes);
        !why.empty())
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
    return context.fail(SW_RT_IO,
                        systemFailure("to map the " + what, unfinished));
  sw_rt_status status = fill(static_cast<char *>(map) + header.size());
  if (status == SW_RT_OK && msync(map, length, MS_SYNC) != 0)
    status = context.fail(SW_RT_IO,
                          systemFailure("to write the " + what, unfinished));
  munmap(map, length);
  if (status == SW_RT_OK)
    status = sw_rt_barrier(&context);
  if (status == SW_RT_OK && context.rank() == 0) {
    if (nameFile(unfinished, target))
      mine.finished();
    else
      status =
          context.fail(SW_RT_IO, systemFailure("to name the " + what, path));
  }
  return status;
}

/// The format wants every byte of the data part to be of one tensor. Returns
/// what is not so, or nothing.
static std::string whyNotFilled(const FileTensors &tensors, uint64_t room) {
  struct Part {
    int64_t begin, end;
    std::string name;
    auto operator<=>(const Part &) const = default;
  };
  std::vector<Part> parts;
  for (const auto &[name, tensor] : tensors)
    parts.push_back({tensor.offset, tensor.offset + tensor.bytes(), name});
  std::sort(parts.begin(), parts.end());
  int64_t end = 0;
  const Part *before = nullptr;
  for (const Part &part : parts) {
    if (part.begin < end)
      return "'" + before->name + "' and '" + part.name +
             "' share bytes of it";
    if (part.begin > end)
      return std::to_string(part.begin - end) + " bytes before '" + part.name +
             "' are of no tensor";
    end = part.end;
    before = &part;
  }
  if (static_cast<uint64_t>(end) != room)
    return std::to_string(room - static_cast<uint64_t>(end)) +
           " bytes behind its last tensor are of none";
  return {};
}

TensorReader::~TensorReader() {
  if (map)
    munmap(map, mapped);
}

bool TensorReader::open(const std::string &path, std::string &why) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat facts {};
  if (file < 0 || fstat(file, &facts) != 0) {
    why = systemFailure("to read", path);
    if (file >= 0)
      close(file);
    return false;
  }
  if (!S_ISREG(facts.st_mode)) {
    close(file);
    why = "expected '" + path + "' to be a file, but it is none";
    return false;
  }
  const auto size = static_cast<size_t>(facts.st_size);
  const auto refuse = [&](const std::string &what) {
    why = "expected '" + path + "' to be a safetensors file, but " + what;
    return false;
  };
  void *at = size < 8 ? MAP_FAILED
                      : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (size >= 8 && at == MAP_FAILED)
    why = systemFailure("to map", path);
  close(file);
  if (at == MAP_FAILED)
    return size >= 8 ? false
                     : refuse("it has " + std::to_string(size) + " bytes");
  map = at;
  mapped = size;
  const char *bytes = static_cast<const char *>(map);
  uint64_t length = 0;
  std::memcpy(&length, bytes, 8);
  if (length > size - 8)
    return refuse("its header of " + std::to_string(length) +
                  " bytes is longer than the file of " + std::to_string(size));
  data = bytes + 8 + length;
  const uint64_t room = size - 8 - length;
  const Json json = Json::parse(bytes + 8, bytes + 8 + length, nullptr, false);
  if (!json.is_object())
    return refuse("its header is no JSON object");
  try {
    for (const auto &[name, value] : json.items()) {
      if (name == "__metadata__") {
        metadata = value.get<std::map<std::string, std::string>>();
        continue;
      }
      FileTensor tensor{};
      const std::string type = value.at("dtype").get<std::string>();
      bool known = false;
      for (const auto &[text, dtype] : fileTypes)
        if (type == text) {
          tensor.dtype = dtype;
          known = true;
        }
      if (!known)
        return refuse("'" + name + "' is of " + type);
      tensor.shape = value.at("shape").get<std::vector<int64_t>>();
      int64_t elements = byteWidth(tensor.dtype);
      for (int64_t extent : tensor.shape)
        if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements))
          return refuse("'" + name + "' has an impossible shape");
      const auto offsets =
          value.at("data_offsets").get<std::vector<int64_t>>();
      if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] ||
          static_cast<uint64_t>(offsets[1]) > room ||
          offsets[1] - offsets[0] != elements)
        return refuse("'" + name + "' does not lie in it");
      tensor.offset = offsets[0];
      tensors.emplace(name, tensor);
    }
  } catch (const Json::exception &) {
    return refuse("its header is not in the form of one");
  }
  const std::string what = whyNotFilled(tensors, room);
  return what.empty() || refuse(what);
}

} // namespace shardwright::runtime

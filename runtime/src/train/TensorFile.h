//===- TensorFile.h - Whole tensors of a sharded program in a file -*- C++ -*-//
//
// safetensors files whose tensors are whole, unpadded and laid out as Hugging
// Face has them, whatever the plan: ranks write and read their parts.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_TENSORFILE_H
#define SHARDWRIGHT_RUNTIME_TRAIN_TENSORFILE_H

#include "runtime/src/Context.h"
#include "runtime/src/train/Stage.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace shardwright::runtime {

struct FileTensor {
  sw_rt_dtype dtype;
  std::vector<int64_t> shape;
  int64_t offset = 0; ///< in the data part
  int64_t bytes() const;
  bool operator==(const FileTensor &) const = default;
};
/// By key: prefix and Hugging Face name.
using FileTensors = std::map<std::string, FileTensor>;

/// One tensor of every parameter of the program, of all stages.
struct TensorSet {
  std::string prefix; ///< "param:"
  sw_rt_dtype dtype;
};
/// The same on every rank.
FileTensors tensorsOf(const sw_rt_program &program, const Mesh &mesh,
                      const std::vector<TensorSet> &sets);

/// Copies `range` of the local elements of a parameter, of `width` bytes each
/// and the first at `local`, to and from its whole tensor.
void copyToWhole(const Stage &stage, const ParameterView &view,
                 ElementRange range, int64_t width, const char *local,
                 char *whole);
void copyFromWhole(const Stage &stage, const ParameterView &view,
                   ElementRange range, int64_t width, const char *whole,
                   char *local);

/// Writes `path` in one piece or not at all; `what` names it in messages.
/// Collective: every rank fills its elements of the mapped data part, so all
/// ranks must see one file system. `metadata` may be empty.
sw_rt_status
writeTensors(sw_rt_context &context, const FileTensors &tensors,
             const std::map<std::string, std::string> &metadata,
             const std::string &what, const std::string &path,
             const std::function<sw_rt_status(char *data)> &fill);

/// A mapped safetensors file.
class TensorReader {
public:
  TensorReader() = default;
  ~TensorReader();
  TensorReader(const TensorReader &) = delete;
  TensorReader &operator=(const TensorReader &) = delete;

  /// Returns false with `why`.
  bool open(const std::string &path, std::string &why);
  const FileTensors &getTensors() const { return tensors; }
  const std::map<std::string, std::string> &getMetadata() const {
    return metadata;
  }
  const char *at(const FileTensor &tensor) const {
    return data + tensor.offset;
  }

private:
  FileTensors tensors;
  std::map<std::string, std::string> metadata;
  const char *data = nullptr;
  void *map = nullptr;
  size_t mapped = 0;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_TENSORFILE_H

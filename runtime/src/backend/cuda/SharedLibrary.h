//===- SharedLibrary.h - A library opened at run time -----------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_SHAREDLIBRARY_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_SHAREDLIBRARY_H

#include <initializer_list>
#include <string>

namespace shardwright::runtime {

/// Opened for the life of the process. Failures are one sentence in `why`.
class SharedLibrary {
public:
  /// Tries the names in order. `what` says in messages what they are.
  bool open(std::initializer_list<const char *> names, const char *what,
            std::string &why);
  /// Sets `target` to the address of `symbol`.
  template <typename Function>
  bool get(Function &target, const char *symbol, std::string &why) const {
    target = reinterpret_cast<Function>(find(symbol, why));
    return target != nullptr;
  }
  const std::string &getName() const { return name; }

private:
  void *find(const char *symbol, std::string &why) const;
  void *handle = nullptr;
  std::string name, what;
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_SHAREDLIBRARY_H

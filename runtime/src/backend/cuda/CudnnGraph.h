//===- CudnnGraph.h - A graph of cuDNN operations and its plan --*- C++ -*-===//
//
// A thin layer over cuDNN's backend API (version 9): tensors and operations are
// added, build() makes the execution plan, run() binds memory.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDNNGRAPH_H
#define SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDNNGRAPH_H

#include "runtime/src/backend/cuda/CudaLibraries.h"

#include <map>
#include <utility>
#include <vector>

namespace shardwright::runtime {

/// What graphs are built for: the GPU of a handle; or, without a handle, a GPU
/// that is described only (cuDNN 9.8 or later), to plan for and never to run.
struct CudnnTarget {
  const CudaDnn *library;
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t properties = nullptr;
};

class CudnnGraph {
public:
  /// Of four dims, as cuDNN's attention wants them.
  struct Tensor {
    std::vector<int64_t> dims, strides;
    cudnnDataType_t type;
    bool isVirtual = true; ///< lives inside the graph
    bool isValue = false;  ///< a number on the host
  };
  using Id = int64_t;

  explicit CudnnGraph(const CudnnTarget &target)
      : library(*target.library), handle(target.handle),
        properties(target.properties) {}
  ~CudnnGraph();
  CudnnGraph(const CudnnGraph &) = delete;
  CudnnGraph &operator=(const CudnnGraph &) = delete;

  Id tensor(const Tensor &tensor);
  /// A number that operations read.
  Id number(float value);
  void matmul(Id a, Id b, Id c);
  /// y = mode(x), mode(x, b) or mode(x, b, t); `axis` is of GEN_INDEX.
  void pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, Id y,
                 Id x, Id b = -1, Id t = -1, int64_t axis = -1);
  void reduce(cudnnReduceTensorOp_t mode, Id y, Id x);
  void reshape(Id y, Id x);

  /// Asks cuDNN's heuristic for engines that can run the graph, and returns how
  /// many it names, at most 8; 0 with `why`.
  int64_t findEngines(std::string &why);
  /// Makes a plan by cuDNN's heuristic. Returns false with `why` if it has none
  /// for this graph.
  bool build(std::string &why);
  int64_t workspaceBytes() const { return workspace; }
  cudnnStatus_t run(const std::vector<std::pair<Id, const void *>> &memory,
                    void *workspaceMemory);

private:
  using Descriptor = cudnnBackendDescriptor_t;
  Descriptor create(cudnnBackendDescriptorType_t type);
  void set(Descriptor descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, int64_t count, const void *values);
  void setDescriptor(Descriptor descriptor, cudnnBackendAttributeName_t name,
                     Descriptor value);
  void finalize(Descriptor descriptor);
  void note(cudnnStatus_t status, const char *call);

  const CudaDnn &library;
  cudnnHandle_t handle;
  Descriptor properties;
  std::vector<Descriptor> all;
  std::map<Id, Descriptor> tensors;
  std::map<Id, float> numbers;
  std::vector<Descriptor> operations;
  std::vector<Descriptor> configs; ///< of engines, the best first
  Descriptor plan = nullptr;
  int64_t workspace = 0;
  Id nextId = 1;
  std::string failure; ///< of the first call that failed
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_BACKEND_CUDA_CUDNNGRAPH_H

//===- CudnnGraph.cpp - A graph of cuDNN operations and its plan ----------===//
#include "runtime/src/backend/cuda/CudnnGraph.h"

#include <algorithm>

namespace shardwright::runtime {

CudnnGraph::~CudnnGraph() {
  // The newest refer to the oldest.
  for (auto at = all.rbegin(); at != all.rend(); ++at)
    library.cudnnBackendDestroyDescriptor(*at);
}

void CudnnGraph::note(cudnnStatus_t status, const char *call) {
  if (status != CUDNN_STATUS_SUCCESS && failure.empty())
    failure = std::string(call) + ": " + library.cudnnGetErrorString(status);
}

CudnnGraph::Descriptor CudnnGraph::create(cudnnBackendDescriptorType_t type) {
  Descriptor descriptor = nullptr;
  note(library.cudnnBackendCreateDescriptor(type, &descriptor),
       "cudnnBackendCreateDescriptor");
  if (descriptor)
    all.push_back(descriptor);
  return descriptor;
}

void CudnnGraph::set(Descriptor descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count,
                     const void *values) {
  if (failure.empty())
    note(
        library.cudnnBackendSetAttribute(descriptor, name, type, count, values),
        "cudnnBackendSetAttribute");
}

void CudnnGraph::setDescriptor(Descriptor descriptor,
                               cudnnBackendAttributeName_t name,
                               Descriptor value) {
  set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void CudnnGraph::finalize(Descriptor descriptor) {
  if (failure.empty())
    note(library.cudnnBackendFinalize(descriptor), "cudnnBackendFinalize");
}

CudnnGraph::Id CudnnGraph::tensor(const Tensor &tensor) {
  const Id id = nextId++;
  const int64_t alignment = tensor.isValue ? 4 : 16;
  Descriptor it = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(it, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor.type);
  const int64_t rank = static_cast<int64_t>(tensor.dims.size());
  set(it, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank,
      tensor.dims.data());
  set(it, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank,
      tensor.strides.data());
  set(it, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(it, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  set(it, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
      &tensor.isVirtual);
  set(it, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1,
      &tensor.isValue);
  finalize(it);
  tensors[id] = it;
  return id;
}

CudnnGraph::Id CudnnGraph::number(float value) {
  const Id id = tensor({{1, 1, 1, 1},
                        {1, 1, 1, 1},
                        CUDNN_DATA_FLOAT,
                        /*isVirtual=*/false,
                        /*isValue=*/true});
  numbers[id] = value;
  return id;
}

void CudnnGraph::matmul(Id a, Id b, Id c) {
  Descriptor kind = create(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
  finalize(kind);
  Descriptor it = create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  setDescriptor(it, CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors[a]);
  setDescriptor(it, CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors[b]);
  setDescriptor(it, CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors[c]);
  setDescriptor(it, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
  finalize(it);
  operations.push_back(it);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                           Id y, Id x, Id b, Id t, int64_t axis) {
  Descriptor kind = create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
      &precision);
  if (axis >= 0)
    set(kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  finalize(kind);
  Descriptor it = create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  setDescriptor(it, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  setDescriptor(it, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors[x]);
  if (b >= 0)
    setDescriptor(it, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors[b]);
  if (t >= 0)
    setDescriptor(it, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors[t]);
  setDescriptor(it, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors[y]);
  finalize(it);
  operations.push_back(it);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t mode, Id y, Id x) {
  Descriptor kind = create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
      1, &mode);
  set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
      &precision);
  finalize(kind);
  Descriptor it = create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  setDescriptor(it, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
  setDescriptor(it, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors[x]);
  setDescriptor(it, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors[y]);
  finalize(it);
  operations.push_back(it);
}

void CudnnGraph::reshape(Id y, Id x) {
  Descriptor it = create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  setDescriptor(it, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors[x]);
  setDescriptor(it, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors[y]);
  finalize(it);
  operations.push_back(it);
}

int64_t CudnnGraph::findEngines(std::string &why) {
  Descriptor graph = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle)
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      static_cast<int64_t>(operations.size()), operations.data());
  finalize(graph);
  Descriptor heuristic = create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  setDescriptor(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (properties)
    setDescriptor(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
  finalize(heuristic);
  for (int i = 0; i < 8 && failure.empty(); ++i)
    configs.push_back(create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  int64_t found = 0;
  if (failure.empty())
    note(library.cudnnBackendGetAttribute(
             heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
             CUDNN_TYPE_BACKEND_DESCRIPTOR,
             static_cast<int64_t>(configs.size()), &found, configs.data()),
         "cudnnBackendGetAttribute");
  why = failure.empty() ? "its heuristic knows no engine" : failure;
  return failure.empty() ? std::min(found, static_cast<int64_t>(configs.size()))
                         : 0;
}

bool CudnnGraph::build(std::string &why) {
  const int64_t found = findEngines(why);
  // The best first; one that the GPU cannot run fails to finalize.
  for (int64_t i = 0; i < found && failure.empty(); ++i) {
    Descriptor candidate = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (handle)
      set(candidate, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
          &handle);
    setDescriptor(candidate, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                  configs[static_cast<size_t>(i)]);
    finalize(candidate);
    int64_t count = 0;
    if (failure.empty())
      note(library.cudnnBackendGetAttribute(
               candidate, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
               CUDNN_TYPE_INT64, 1, &count, &workspace),
           "cudnnBackendGetAttribute");
    if (failure.empty()) {
      plan = candidate;
      return true;
    }
    why = failure;
    failure.clear();
  }
  return false;
}

cudnnStatus_t
CudnnGraph::run(const std::vector<std::pair<Id, const void *>> &memory,
                void *workspaceMemory) {
  std::vector<int64_t> ids;
  std::vector<const void *> pointers;
  for (const auto &[id, at] : memory) {
    ids.push_back(id);
    pointers.push_back(at);
  }
  for (const auto &[id, value] : numbers) {
    ids.push_back(id);
    pointers.push_back(&value);
  }
  Descriptor pack = nullptr;
  cudnnStatus_t status = library.cudnnBackendCreateDescriptor(
      CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  auto put = [&](cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t type, int64_t count,
                 const void *values) {
    if (status == CUDNN_STATUS_SUCCESS)
      status =
          library.cudnnBackendSetAttribute(pack, name, type, count, values);
  };
  const int64_t count = static_cast<int64_t>(ids.size());
  put(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  put(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
      pointers.data());
  put(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
      &workspaceMemory);
  if (status == CUDNN_STATUS_SUCCESS)
    status = library.cudnnBackendFinalize(pack);
  if (status == CUDNN_STATUS_SUCCESS)
    status = library.cudnnBackendExecute(handle, plan, pack);
  if (pack)
    library.cudnnBackendDestroyDescriptor(pack);
  return status;
}

} // namespace shardwright::runtime

//===- GpuMatmul.cpp - Products by cuBLASLt -------------------------------===//
//
// cuBLASLt is column-major: a row-major C = A B is its C^T = B^T A^T, so the
// operands change places and every matrix keeps its memory.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/backend/cuda/GpuMatmul.h"
#include "runtime/src/backend/cuda/MemoryBesideArena.h"

namespace shardwright::runtime {
namespace {

bool dataType(sw_rt_dtype dtype, cudaDataType_t &type) {
  switch (dtype) {
  case SW_RT_F64:
    type = CUDA_R_64F;
    return true;
  case SW_RT_F32:
    type = CUDA_R_32F;
    return true;
  case SW_RT_BF16:
    type = CUDA_R_16BF;
    return true;
  case SW_RT_F16:
  case SW_RT_I32:
    break;
  }
  return false;
}

/// Bytes that the address is a multiple of, up to the 256 that algorithms may
/// want.
uint32_t alignmentOf(const void *memory) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory) | 256;
  return static_cast<uint32_t>(address & -address);
}

} // namespace

GpuMatmul::~GpuMatmul() {
  for (auto &[key, plan] : plans) {
    blas.cublasLtMatmulDescDestroy(plan.operation);
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c})
      blas.cublasLtMatrixLayoutDestroy(layout);
  }
  if (workspace)
    gpu.release(workspace);
  if (handle)
    blas.cublasLtDestroy(handle);
}

bool GpuMatmul::open(std::string &why) {
  if (cublasStatus_t status = blas.cublasLtCreate(&handle);
      status != CUBLAS_STATUS_SUCCESS) {
    handle = nullptr;
    why = std::string("expected cuBLASLt to start, but got ") +
          blas.cublasLtGetStatusName(status);
    return false;
  }
  workspace = gpu.allocate(matmulWorkspaceBytes, why);
  return workspace != nullptr;
}

bool GpuMatmul::check(cublasStatus_t status, const char *call,
                      const MatmulCall &of) {
  if (status == CUBLAS_STATUS_SUCCESS)
    return true;
  context.fail(status == CUBLAS_STATUS_NOT_SUPPORTED ? SW_RT_UNSUPPORTED
                                                     : SW_RT_INVALID_ARGUMENT,
               "expected a " + std::string(name(of.dtype)) + " matmul of " +
                   std::to_string(of.m) + " x " + std::to_string(of.n) + " x " +
                   std::to_string(of.k) + " to " + name(of.cDtype) +
                   " on rank " + std::to_string(context.rank()) +
                   " to run, but got " + call + ": " +
                   blas.cublasLtGetStatusName(status));
  return false;
}

bool GpuMatmul::make(const MatmulCall &call, Plan &plan) {
  cudaDataType_t inputType, outputType;
  const bool mixes = call.dtype == SW_RT_BF16 && call.cDtype == SW_RT_F32;
  if (!dataType(call.dtype, inputType) || !dataType(call.cDtype, outputType) ||
      (call.dtype != call.cDtype && !mixes)) {
    context.fail(SW_RT_UNSUPPORTED,
                 std::string("expected a matmul of f64, f32 or bf16 to the "
                             "same, or of bf16 to f32, but got ") +
                     name(call.dtype) + " to " + name(call.cDtype));
    return false;
  }
  const bool isDouble = call.dtype == SW_RT_F64;
  const cublasComputeType_t compute = isDouble ? CUBLAS_COMPUTE_64F
                                      : call.dtype == SW_RT_F32 && tf32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  if (!check(blas.cublasLtMatmulDescCreate(&plan.operation, compute,
                                           isDouble ? CUDA_R_64F : CUDA_R_32F),
             "cublasLtMatmulDescCreate", call))
    return false;
  // Its first operand is our B.
  const cublasOperation_t first = call.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = call.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
  auto layout = [&](cublasLtMatrixLayout_t &target, cudaDataType_t type,
                    bool transposed, int64_t rows, int64_t columns) {
    // As stored, row-major: `rows` lines of `columns`, or the other way around.
    const int64_t line = transposed ? rows : columns;
    const int64_t lines = transposed ? columns : rows;
    return check(blas.cublasLtMatrixLayoutCreate(
                     &target, type, static_cast<uint64_t>(line),
                     static_cast<uint64_t>(lines), line),
                 "cublasLtMatrixLayoutCreate", call);
  };
  if (!check(blas.cublasLtMatmulDescSetAttribute(plan.operation,
                                                 CUBLASLT_MATMUL_DESC_TRANSA,
                                                 &first, sizeof(first)),
             "cublasLtMatmulDescSetAttribute", call) ||
      !check(blas.cublasLtMatmulDescSetAttribute(plan.operation,
                                                 CUBLASLT_MATMUL_DESC_TRANSB,
                                                 &second, sizeof(second)),
             "cublasLtMatmulDescSetAttribute", call) ||
      !layout(plan.b, inputType, call.transposeB, call.k, call.n) ||
      !layout(plan.a, inputType, call.transposeA, call.m, call.k) ||
      !layout(plan.c, outputType, false, call.m, call.n))
    return false;

  cublasLtMatmulPreference_t preference = nullptr;
  if (!check(blas.cublasLtMatmulPreferenceCreate(&preference),
             "cublasLtMatmulPreferenceCreate", call))
    return false;
  auto align = [&](cublasLtMatmulPreferenceAttributes_t attribute,
                   const void *memory) {
    const uint32_t alignment = alignmentOf(memory);
    return check(blas.cublasLtMatmulPreferenceSetAttribute(
                     preference, attribute, &alignment, sizeof(alignment)),
                 "cublasLtMatmulPreferenceSetAttribute", call);
  };
  const uint64_t bytes = matmulWorkspaceBytes;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  bool made = check(blas.cublasLtMatmulPreferenceSetAttribute(
                        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                        &bytes, sizeof(bytes)),
                    "cublasLtMatmulPreferenceSetAttribute", call) &&
              align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, call.b) &&
              align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, call.a) &&
              align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, call.c) &&
              align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, call.c) &&
              check(blas.cublasLtMatmulAlgoGetHeuristic(
                        handle, plan.operation, plan.b, plan.a, plan.c, plan.c,
                        preference, 1, &result, &found),
                    "cublasLtMatmulAlgoGetHeuristic", call);
  if (made && found == 0)
    made = check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic",
                 call);
  blas.cublasLtMatmulPreferenceDestroy(preference);
  plan.algorithm = result.algo;
  return made;
}

void GpuMatmul::run(const MatmulCall &call) {
  if (context.status != SW_RT_OK || call.m == 0 || call.n == 0)
    return;
  if (call.k == 0) { // an empty sum
    if (!call.accumulate)
      gpu.fill(call.c, 0, call.m * call.n * byteWidth(call.cDtype));
    return;
  }
  const Key key{call.dtype,
                call.cDtype,
                call.transposeA,
                call.transposeB,
                call.m,
                call.n,
                call.k,
                call.accumulate,
                alignmentOf(call.a),
                alignmentOf(call.b),
                alignmentOf(call.c)};
  auto [at, isNew] = plans.try_emplace(key);
  Plan &plan = at->second;
  if (isNew && !make(call, plan))
    return;
  const double oneF64 = 1, keepF64 = call.accumulate ? 1 : 0;
  const float oneF32 = 1, keepF32 = call.accumulate ? 1.0f : 0.0f;
  const bool isDouble = call.dtype == SW_RT_F64;
  const void *one = isDouble ? static_cast<const void *>(&oneF64) : &oneF32;
  const void *keep = isDouble ? static_cast<const void *>(&keepF64) : &keepF32;
  check(blas.cublasLtMatmul(handle, plan.operation, one, call.b, plan.b, call.a,
                            plan.a, keep, call.c, plan.c, call.c, plan.c,
                            &plan.algorithm, workspace, matmulWorkspaceBytes,
                            gpu.getStream()),
        "cublasLtMatmul", call);
}

} // namespace shardwright::runtime

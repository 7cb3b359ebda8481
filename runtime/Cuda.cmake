# CUDA: headers for types, nvcc for the runtime's own kernels; the libraries are
# loaded at run time, so nothing links them.
option(SHARDWRIGHT_ENABLE_CUDA "Build the CUDA backend where nvcc is" ON)
set(SHARDWRIGHT_CUDA_HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
find_program(SHARDWRIGHT_NVCC nvcc HINTS ${SHARDWRIGHT_CUDA_HINTS}
             PATH_SUFFIXES bin)
# nvcc in PATH may be a link or a wrapper: it says itself where its toolkit is.
if(SHARDWRIGHT_NVCC)
  execute_process(COMMAND ${SHARDWRIGHT_NVCC} --dryrun -x cu -E /dev/null
                  ERROR_VARIABLE said OUTPUT_QUIET)
  if(said MATCHES "#\\$ TOP=([^\n]+)")
    string(STRIP "${CMAKE_MATCH_1}" SHARDWRIGHT_CUDA_TOP)
    list(APPEND SHARDWRIGHT_CUDA_HINTS ${SHARDWRIGHT_CUDA_TOP})
  endif()
endif()
foreach(header cuda cublasLt cudnn nccl)
  find_path(SHARDWRIGHT_${header}_INCLUDE ${header}.h
            HINTS ${SHARDWRIGHT_CUDA_HINTS} PATH_SUFFIXES include)
  if(NOT SHARDWRIGHT_${header}_INCLUDE)
    list(APPEND SHARDWRIGHT_CUDA_MISSING ${header}.h)
  else()
    list(APPEND SHARDWRIGHT_CUDA_INCLUDES ${SHARDWRIGHT_${header}_INCLUDE})
  endif()
endforeach()
if(NOT SHARDWRIGHT_NVCC)
  list(APPEND SHARDWRIGHT_CUDA_MISSING nvcc)
endif()
if(NOT SHARDWRIGHT_ENABLE_CUDA)
  set(SHARDWRIGHT_CUDA_MISSING "SHARDWRIGHT_ENABLE_CUDA=ON")
endif()
if(SHARDWRIGHT_CUDA_MISSING)
  list(JOIN SHARDWRIGHT_CUDA_MISSING ", " missing)
  message(STATUS "runtime: no ${missing}: the CUDA backend is left out, and "
                 "programs for it end with exit code 3")
  target_sources(shardwright_rt PRIVATE src/backend/cuda/NoCudaDevice.cpp)
else()
  set(SHARDWRIGHT_CUDA ON)
  set(SHARDWRIGHT_OWN_KERNELS ${CMAKE_CURRENT_BINARY_DIR}/Kernels.ptx)
  set(kernels ${CMAKE_CURRENT_SOURCE_DIR}/src/backend/cuda/Kernels)
  # 8.0 is the first with bf16; the driver compiles this for later ones.
  add_custom_command(OUTPUT ${SHARDWRIGHT_OWN_KERNELS}
    COMMAND ${SHARDWRIGHT_NVCC} -ptx -arch=compute_80 -O3 -std=c++17
            -I${CMAKE_SOURCE_DIR} -o ${SHARDWRIGHT_OWN_KERNELS} ${kernels}.cu
    DEPENDS ${kernels}.cu ${kernels}.h
    COMMENT "Compiling the runtime's device kernels to PTX")
  configure_file(src/backend/cuda/OwnKernels.cpp.in OwnKernels.cpp @ONLY)
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/OwnKernels.cpp
    PROPERTIES OBJECT_DEPENDS ${SHARDWRIGHT_OWN_KERNELS})
  target_sources(shardwright_rt PRIVATE
    ${CMAKE_CURRENT_BINARY_DIR}/OwnKernels.cpp
    ${SHARDWRIGHT_OWN_KERNELS}
    src/backend/cuda/CudaDevice.cpp
    src/backend/cuda/CudaLibraries.cpp
    src/backend/cuda/CudnnAttention.cpp
    src/backend/cuda/CudnnGraph.cpp
    src/backend/cuda/Gpu.cpp
    src/backend/cuda/GpuAttention.cpp
    src/backend/cuda/GpuCollectives.cpp
    src/backend/cuda/GpuMatmul.cpp
    src/backend/cuda/OpenCudaDevice.cpp
    src/backend/cuda/RecordedCalls.cpp
    src/backend/cuda/SharedLibrary.cpp
  )
  list(REMOVE_DUPLICATES SHARDWRIGHT_CUDA_INCLUDES)
  target_include_directories(shardwright_rt SYSTEM PRIVATE
                             ${SHARDWRIGHT_CUDA_INCLUDES})
endif()

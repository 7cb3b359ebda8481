# One precompiled header for every library that sees MLIR: it saves about two
# thirds of their compile time. -fpch-preprocess is what ccache needs with GCC.
# Correctness never depends on either.
file(WRITE ${CMAKE_BINARY_DIR}/generated/MlirPch.cpp "")
add_library(shardwright_mlir_pch STATIC ${CMAKE_BINARY_DIR}/generated/MlirPch.cpp)
target_compile_options(shardwright_mlir_pch PRIVATE -fpch-preprocess)
target_precompile_headers(shardwright_mlir_pch PRIVATE
  <mlir/Bytecode/BytecodeOpInterface.h>
  <mlir/IR/Builders.h>
  <mlir/IR/BuiltinOps.h>
  <mlir/IR/BuiltinTypes.h>
  <mlir/IR/DialectImplementation.h>
  <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h>
  <mlir/IR/SymbolTable.h>
  <mlir/Interfaces/FunctionImplementation.h>
  <mlir/Interfaces/FunctionInterfaces.h>
  <mlir/Interfaces/SideEffectInterfaces.h>
  <mlir/Pass/Pass.h>
  <llvm/ADT/SmallVector.h>
  <llvm/ADT/TypeSwitch.h>
  <string>
  <vector>
  )

# shardwright_mlir_library(NAME SOURCES a.cpp ... LINK lib ... DEPENDS target ...)
# A static library of C++ that includes MLIR headers. Without sources it is an
# interface library, so that a folder may start empty. LINK is public: what a
# library generates and links is seen by its users.
function(shardwright_mlir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  if(NOT ARG_SOURCES)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_LINK} MLIR LLVM)
  else()
    add_library(${name} STATIC ${ARG_SOURCES})
    target_compile_options(${name} PRIVATE -fpch-preprocess)
    target_precompile_headers(${name} REUSE_FROM shardwright_mlir_pch)
    # Only the two shared libraries: a static MLIRxxx beside them would bring a
    # second copy of every TypeID.
    target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# shardwright_dialect(Model [attrs enums interfaces]): generates
# <X>Dialect.{h,cpp}.inc, <X>Ops.{h,cpp}.inc and, as named, <X>Enums, <X>Attrs
# and <X>Interfaces; target shardwright_<x>_inc.
function(shardwright_dialect name)
  string(TOLOWER ${name} lower)
  set(LLVM_TARGET_DEFINITIONS ${name}Ops.td)
  mlir_tablegen(${name}Dialect.h.inc -gen-dialect-decls -dialect=${lower})
  mlir_tablegen(${name}Dialect.cpp.inc -gen-dialect-defs -dialect=${lower})
  mlir_tablegen(${name}Ops.h.inc -gen-op-decls -dialect=${lower})
  mlir_tablegen(${name}Ops.cpp.inc -gen-op-defs -dialect=${lower})
  if("enums" IN_LIST ARGN)
    set(LLVM_TARGET_DEFINITIONS ${name}Attrs.td)
    mlir_tablegen(${name}Enums.h.inc -gen-enum-decls)
    mlir_tablegen(${name}Enums.cpp.inc -gen-enum-defs)
  endif()
  if("attrs" IN_LIST ARGN)
    set(LLVM_TARGET_DEFINITIONS ${name}Attrs.td)
    mlir_tablegen(${name}Attrs.h.inc -gen-attrdef-decls
                  -attrdefs-dialect=${lower})
    mlir_tablegen(${name}Attrs.cpp.inc -gen-attrdef-defs
                  -attrdefs-dialect=${lower})
  endif()
  if("interfaces" IN_LIST ARGN)
    set(LLVM_TARGET_DEFINITIONS ${name}Interfaces.td)
    mlir_tablegen(${name}Interfaces.h.inc -gen-op-interface-decls)
    mlir_tablegen(${name}Interfaces.cpp.inc -gen-op-interface-defs)
  endif()
  add_public_tablegen_target(shardwright_${lower}_inc)
endfunction()

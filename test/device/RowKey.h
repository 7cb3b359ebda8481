//===- RowKey.h - Row programs as text, to find their kernels ---*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_DEVICE_ROWKEY_H
#define SHARDWRIGHT_TEST_DEVICE_ROWKEY_H

#include "compiler/Codegen/RowProgram.h"

#include <cstdio>
#include <string>

namespace shardwright::codegen {

/// Everything that a kernel depends on; equal texts have equal kernels.
inline std::string rowKey(const RowProgram &program) {
  std::string text;
  auto add = [&](double value) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.17g ", value);
    text += number;
  };
  auto addInteger = [&](int64_t value) { text += std::to_string(value) + " "; };
  for (int64_t value :
       {static_cast<int64_t>(program.element), program.outer, program.inner,
        static_cast<int64_t>(program.buffers)})
    addInteger(value);
  for (int buffer = 0; buffer < program.buffers; ++buffer)
    addInteger(static_cast<int64_t>(program.stored(buffer)));
  for (const RowOp &op : program.ops) {
    text += "op ";
    addInteger(static_cast<int64_t>(op.kind));
    for (const std::vector<int> &list : {op.operands, op.results}) {
      for (int number : list)
        addInteger(number);
      text += ", ";
    }
    for (int64_t value :
         {op.width, int64_t{op.accumulate}, op.count, op.validColumns,
          op.tableRows, op.tableOffset, static_cast<int64_t>(op.gate),
          int64_t{op.unitOffset}, int64_t{op.approximate}, int64_t{op.inverse},
          op.headDim, int64_t{op.interleaved}})
      addInteger(value);
    add(op.eps);
    add(op.scale);
    for (double frequency : op.inverseFrequencies)
      add(frequency);
  }
  return text;
}

inline std::string updateKey(const UpdateTypes &types) {
  std::string text = "update";
  for (Element element : {types.master, types.gradient, types.parameter})
    text += " " + std::to_string(static_cast<int>(element));
  return text;
}

} // namespace shardwright::codegen

#endif // SHARDWRIGHT_TEST_DEVICE_ROWKEY_H

//===- FuzzTarget.h - What every fuzz target has ----------------*- C++ -*-===//
//
// A target is one function of libFuzzer's signature, so that the same file is
// linked with Driver.cpp (any compiler, runs in ctest) and with libFuzzer. It
// must return on every input: a signal, a sanitizer report, an exception, an
// assertion and a failed `require` are findings.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_TEST_FUZZ_FUZZTARGET_H
#define SHARDWRIGHT_TEST_FUZZ_FUZZTARGET_H

#include "cost_model/base/Failure.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace shardwright::fuzz {

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// A property of the code under test that holds on every input.
inline void require(bool holds, const char *property) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz: property violated: %s\n", property);
  std::abort();
}

/// A refusal says why, and never that the fault is ours.
inline void requireRefusal(const cost::Failure &failure) {
  require(!failure.messages.empty(), "a refusal has a message");
  for (const std::string &message : failure.messages)
    require(!message.empty(), "no message is empty");
  require(failure.kind != cost::FailureKind::Bug, "no input is our bug");
}

} // namespace shardwright::fuzz

#endif // SHARDWRIGHT_TEST_FUZZ_FUZZTARGET_H

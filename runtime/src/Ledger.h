//===- Ledger.h - What a rank really did, as exact counts -------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_LEDGER_H
#define SHARDWRIGHT_RUNTIME_LEDGER_H

#include "runtime/include/shardwright_rt.h"
#include "runtime/src/Call.h"

#include <array>
#include <map>
#include <string>
#include <tuple>

namespace shardwright::runtime {

/// "forward", "data_grad", "weight_grad", "reduce", "update".
const char *name(sw_rt_phase phase);

/// The measured ledger: calls and payload bytes (this rank's input) per
/// (collective, axes, phase), flops per phase. Same keys as the predicted one.
struct Ledger {
  using Key = std::tuple<Call, std::string, sw_rt_phase>;
  struct Entry {
    int64_t calls = 0;
    int64_t payloadBytes = 0;
    bool operator==(const Entry &) const = default;
  };
  std::map<Key, Entry> collectives;
  std::array<int64_t, SW_RT_PHASES> flops{};
  bool operator==(const Ledger &) const = default;

  void add(Call call, const std::string &axes, sw_rt_phase phase,
           int64_t payloadBytes) {
    Entry &entry = collectives[{call, axes, phase}];
    ++entry.calls;
    entry.payloadBytes += payloadBytes;
  }
};

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_LEDGER_H

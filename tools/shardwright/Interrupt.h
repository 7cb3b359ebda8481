//===- Interrupt.h - Ctrl-C ends a search, not the process ------*- C++ -*-===//
#ifndef SHARDWRIGHT_TOOLS_SHARDWRIGHT_INTERRUPT_H
#define SHARDWRIGHT_TOOLS_SHARDWRIGHT_INTERRUPT_H

namespace shardwright::tools {

/// While one lives, the first Ctrl-C makes searches stop with what they have,
/// and the second ends the process.
class InterruptGuard {
public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  /// Whether it came. It holds for all that the process would search from then
  /// on: who is asked to stop does not begin the next question.
  static bool interrupted();

private:
  void (*before)(int);
};

} // namespace shardwright::tools

#endif // SHARDWRIGHT_TOOLS_SHARDWRIGHT_INTERRUPT_H

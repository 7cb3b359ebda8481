//===- Units.h - Quantities with units --------------------------*- C++ -*-===//
//
// The only place where units are converted. Kinds of quantity never mix:
// adding bytes to seconds does not compile. Counts are exact int64 and checked
// for overflow in every build; estimates are double.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_COST_MODEL_UNITS_H
#define SHARDWRIGHT_COST_MODEL_UNITS_H

#include <compare>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace shardwright::cost {

/// Ends the process: a count that leaves int64 means that a caller let an
/// unchecked size through, and a wrapped number must never be shown to anyone.
[[noreturn]] inline void reportOverflow(const char *operation) {
  std::fprintf(stderr, "shardwright: internal error: int64 overflow in %s\n",
               operation);
  std::abort();
}

/// Checked int64 arithmetic for counts (bytes, flops, elements).
constexpr int64_t checkedAdd(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result))
    reportOverflow("add");
  return result;
}
constexpr int64_t checkedMul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    reportOverflow("multiply");
  return result;
}
/// Smallest integer >= a / b, for a >= 0 and b > 0.
constexpr int64_t ceilDiv(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
/// Smallest multiple of `unit` that is >= a.
constexpr int64_t roundUp(int64_t a, int64_t unit) {
  return checkedMul(ceilDiv(a, unit), unit);
}

/// A number with a kind. `Rep` is int64_t for exact counts (checked) and
/// double for estimates.
template <typename Tag, typename Rep> class Quantity {
public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : value(count) {}
  constexpr Rep count() const { return value; }
  constexpr auto operator<=>(const Quantity &) const = default;

  constexpr Quantity &operator+=(Quantity other) {
    if constexpr (std::is_integral_v<Rep>)
      value = checkedAdd(value, other.value);
    else
      value += other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value - b.value);
  }
  friend constexpr Quantity operator*(Rep factor, Quantity a) {
    if constexpr (std::is_integral_v<Rep>)
      return Quantity(checkedMul(factor, a.value));
    else
      return Quantity(factor * a.value);
  }

private:
  Rep value = 0;
};

using Bytes = Quantity<struct BytesTag, int64_t>; // counted, exact
using Flops = Quantity<struct FlopsTag, int64_t>; // counted, exact
using Seconds = Quantity<struct SecondsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return Seconds(static_cast<double>(amount.count()) / rate.count());
}
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) {
  return Seconds(static_cast<double>(amount.count()) / rate.count());
}
constexpr Seconds maximum(Seconds a, Seconds b) { return a < b ? b : a; }

constexpr double gibibytes(Bytes amount) {
  return static_cast<double>(amount.count()) / (1024.0 * 1024.0 * 1024.0);
}
constexpr double milliseconds(Seconds time) { return time.count() * 1e3; }

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_UNITS_H

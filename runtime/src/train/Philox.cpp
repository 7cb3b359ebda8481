//===- Philox.cpp - Counter-based random numbers --------------------------===//
//
// Compiled without fused multiply-adds: the same bits on every machine.
//
//===----------------------------------------------------------------------===//
#include "runtime/src/train/Philox.h"

#include <cmath>

namespace shardwright::runtime {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53u) * counter[0];
    const uint64_t b = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return hash;
}

NamedRandom::NamedRandom(uint64_t seed, std::string_view name) {
  const uint64_t hash = fnv1a(name);
  key = {static_cast<uint32_t>(seed ^ (hash & 0xffffffffu)),
         static_cast<uint32_t>((seed >> 32) ^ (hash >> 32))};
}

uint64_t NamedRandom::bits(uint64_t index) const {
  const auto words = philox(
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
      key);
  return uint64_t(words[1]) << 32 | words[0];
}

double NamedRandom::uniform(uint64_t index) const {
  const uint64_t words = bits(index);
  const uint32_t w0 = static_cast<uint32_t>(words);
  const uint32_t w1 = static_cast<uint32_t>(words >> 32);
  return ((w0 >> 5) * 67108864.0 + (w1 >> 6) + 0.5) / 9007199254740992.0;
}

double NamedRandom::normal(uint64_t index) const {
  return inverseNormal(uniform(index));
}

namespace {

/// c[0] + c[1] x + ... by Horner's rule.
template <size_t N> double polynomial(const double (&c)[N], double x) {
  double sum = c[N - 1];
  for (size_t i = N - 1; i-- > 0;)
    sum = sum * x + c[i];
  return sum;
}

constexpr double centreA[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                              1.9715909503065514427e3, 1.3731693765509461125e4,
                              4.5921953931549871457e4, 6.7265770927008700853e4,
                              3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double centreB[] = {1.0,
                              4.2313330701600911252e1,
                              6.8718700749205790830e2,
                              5.3941960214247511077e3,
                              2.1213794301586595867e4,
                              3.9307895800092710610e4,
                              2.8729085735721942674e4,
                              5.2264952788528545610e3};
constexpr double middleC[] = {
    1.42343711074968357734e0,  4.63033784615654529590e0,
    5.76949722146069140550e0,  3.64784832476320460504e0,
    1.27045825245236838258e0,  2.41780725177450611770e-1,
    2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double middleD[] = {1.0,
                              2.05319162663775882187e0,
                              1.67638483018380384940e0,
                              6.89767334985100004550e-1,
                              1.48103976427480074590e-1,
                              1.51986665636164571966e-2,
                              5.47593808499534494600e-4,
                              1.05075007164441684324e-9};
constexpr double tailE[] = {
    6.65790464350110377720e0,  5.46378491116411436990e0,
    1.78482653991729133580e0,  2.96560571828504891230e-1,
    2.65321895265761230930e-2, 1.24266094738807843860e-3,
    2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double tailF[] = {1.0,
                            5.99832206555887937690e-1,
                            1.36929880922735805310e-1,
                            1.48753612908506148525e-2,
                            7.86869131145613259100e-4,
                            1.84631831751005468180e-5,
                            1.42151175831644588870e-7,
                            2.04426310338993978564e-15};

} // namespace

double inverseNormal(double probability) {
  const double q = probability - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(centreA, r) / polynomial(centreB, r);
  }
  double r = q < 0 ? probability : 1 - probability;
  r = std::sqrt(-std::log(r));
  const double value =
      r <= 5 ? polynomial(middleC, r - 1.6) / polynomial(middleD, r - 1.6)
             : polynomial(tailE, r - 5) / polynomial(tailF, r - 5);
  return q < 0 ? -value : value;
}

} // namespace shardwright::runtime

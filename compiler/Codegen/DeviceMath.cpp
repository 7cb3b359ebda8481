//===- DeviceMath.cpp - Math functions of device code ---------------------===//
//
// Written out, as a GPU has no library to call. Series of the functions
// themselves except where a source stands; errors are those of the truncated
// series, to which some roundings add. Measured by the unit test
// (DeviceRowsTest.cpp).
//
//===----------------------------------------------------------------------===//
#include "compiler/Codegen/DeviceTarget.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace shardwright::codegen {

namespace {

/// Arithmetic on values of one floating-point type.
struct Arithmetic {
  IRBuilder<> &b;
  Type *type;

  Value *real(double number) { return ConstantFP::get(type, number); }
  Value *fma(Value *x, Value *y, Value *z) {
    return b.CreateIntrinsic(Intrinsic::fma, {type}, {x, y, z});
  }
  Value *round(Value *x) { return b.CreateUnaryIntrinsic(Intrinsic::rint, x); }
  /// Any number for a NaN.
  Value *toInteger(Value *x) {
    return b.CreateFreeze(b.CreateFPToSI(x, b.getInt32Ty()));
  }
  /// Coefficients from the highest power down.
  Value *polynomial(Value *x, ArrayRef<double> coefficients) {
    Value *result = real(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      result = fma(result, x, real(coefficient));
    return result;
  }
  /// 2^n of an i32, as f32; -126 <= n <= 127.
  Value *power(Value *n) {
    return b.CreateBitCast(
        b.CreateShl(b.CreateAdd(n, b.getInt32(127)), 23), type);
  }
};

} // namespace

/// exp(x) = 2^n exp(f), |f| <= log(2) / 2, n in two halves so that neither
/// overflows. Taylor to f^7: relative error below f^8 / 8! = 6e-9.
Value *DeviceTarget::exp(IRBuilder<> &b, Value *x) {
  Arithmetic f32{b, b.getFloatTy()};
  // Beyond these the result is infinite or 0; NaN fails both comparisons.
  x = b.CreateSelect(b.CreateFCmpOGT(x, f32.real(100)), f32.real(100), x);
  x = b.CreateSelect(b.CreateFCmpOLT(x, f32.real(-120)), f32.real(-120), x);
  Value *n = f32.round(b.CreateFMul(x, f32.real(1.44269504088896340736)));
  // log(2) as a short part, exact when multiplied by n, and the rest.
  constexpr double high = 0x1.62e4p-1, low = 0.69314718055994530942 - high;
  Value *f = f32.fma(n, f32.real(-high), x);
  f = f32.fma(n, f32.real(-low), f);
  Value *series = f32.polynomial(f, {1. / 5040, 1. / 720, 1. / 120, 1. / 24,
                                     1. / 6, 1. / 2, 1, 1});
  Value *whole = f32.toInteger(n);
  Value *half = b.CreateAShr(whole, 1);
  return b.CreateFMul(b.CreateFMul(series, f32.power(half)),
                      f32.power(b.CreateSub(whole, half)));
}

/// log(x) = n log(2) + 2 artanh(s), s = (m - 1) / (m + 1), x = 2^n m with m
/// between sqrt(1/2) and sqrt(2), so |s| < 0.1716; to s^11: error below
/// 2 s^13 / 13 = 2e-11.
Value *DeviceTarget::log(IRBuilder<> &b, Value *x) {
  Arithmetic f32{b, b.getFloatTy()};
  Value *tiny = b.CreateFCmpOLT(x, f32.real(0x1p-126));
  Value *scaled =
      b.CreateSelect(tiny, b.CreateFMul(x, f32.real(0x1p24)), x);
  Value *bits = b.CreateBitCast(scaled, b.getInt32Ty());
  // Counted from sqrt(1/2): the exponent field then is n.
  Value *apart = b.CreateSub(bits, b.getInt32(0x3f3504f3));
  Value *n = b.CreateAShr(apart, 23);
  Value *m = b.CreateBitCast(b.CreateSub(bits, b.CreateShl(n, 23)),
                             b.getFloatTy());
  n = b.CreateSub(n, b.CreateSelect(tiny, b.getInt32(24), b.getInt32(0)));
  Value *s = b.CreateFDiv(b.CreateFSub(m, f32.real(1)),
                          b.CreateFAdd(m, f32.real(1)));
  Value *series = f32.polynomial(
      b.CreateFMul(s, s), {2. / 11, 2. / 9, 2. / 7, 2. / 5, 2. / 3, 2});
  Value *result =
      f32.fma(b.CreateSIToFP(n, b.getFloatTy()),
              f32.real(0.69314718055994530942), b.CreateFMul(s, series));
  Value *infinity = ConstantFP::getInfinity(b.getFloatTy());
  result = b.CreateSelect(b.CreateFCmpOEQ(x, f32.real(0)),
                          b.CreateFNeg(infinity), result);
  // Infinity and NaN are their own logarithms; negative numbers have none.
  result = b.CreateSelect(b.CreateFCmpULT(x, infinity), result, x);
  return b.CreateSelect(b.CreateFCmpOLT(x, f32.real(0)),
                        ConstantFP::getNaN(b.getFloatTy()), result);
}

/// Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26:
/// error below 1.5e-7.
Value *DeviceTarget::erf(IRBuilder<> &b, Value *x) {
  Arithmetic f32{b, b.getFloatTy()};
  Value *positive = b.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value *t = b.CreateFDiv(
      f32.real(1), f32.fma(positive, f32.real(0.3275911), f32.real(1)));
  Value *series = b.CreateFMul(
      t, f32.polynomial(t, {1.061405429, -1.453152027, 1.421413741,
                            -0.284496736, 0.254829592}));
  Value *decay = exp(b, b.CreateFNeg(b.CreateFMul(positive, positive)));
  Value *result =
      b.CreateFSub(f32.real(1), b.CreateFMul(series, decay));
  return b.CreateBinaryIntrinsic(Intrinsic::copysign, result, x);
}

/// angle = q pi / 2 + r, |r| <= pi / 4, with pi / 2 in two parts; Taylor to
/// r^16 and r^15: errors below 2e-17 and 5e-17. For |angle| < 2^31 pi / 2, as
/// positions times frequencies of at most 1 are.
std::pair<Value *, Value *> DeviceTarget::cosSin(IRBuilder<> &b,
                                                 Value *angle) {
  Arithmetic f64{b, b.getDoubleTy()};
  Value *q = f64.round(b.CreateFMul(angle, f64.real(0.63661977236758134308)));
  Value *r = f64.fma(q, f64.real(-0x1.921fb54442d18p+0), angle);
  r = f64.fma(q, f64.real(-0x1.1a62633145c07p-54), r);
  Value *square = b.CreateFMul(r, r);
  double factorial[17] = {1};
  for (int i = 1; i < 17; ++i)
    factorial[i] = factorial[i - 1] * i;
  SmallVector<double> even, odd;
  for (int i = 16; i >= 0; --i)
    (i % 2 ? odd : even).push_back((i / 2 % 2 ? -1 : 1) / factorial[i]);
  Value *cosine = f64.polynomial(square, even);
  Value *sine = b.CreateFMul(r, f64.polynomial(square, odd));
  // Quadrants 1 and 3 exchange them; cos is negative in 1 and 2, sin in 2, 3.
  Value *quadrant = f64.toInteger(q);
  auto bit = [&](Value *value, int32_t mask) {
    return b.CreateICmpNE(b.CreateAnd(value, mask), b.getInt32(0));
  };
  Value *swap = bit(quadrant, 1);
  Value *c = b.CreateSelect(swap, sine, cosine);
  Value *s = b.CreateSelect(swap, cosine, sine);
  c = b.CreateSelect(bit(b.CreateAdd(quadrant, b.getInt32(1)), 2),
                     b.CreateFNeg(c), c);
  return {c, b.CreateSelect(bit(quadrant, 2), b.CreateFNeg(s), s)};
}

} // namespace shardwright::codegen

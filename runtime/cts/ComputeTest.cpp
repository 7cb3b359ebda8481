//===- ComputeTest.cpp - Compute against slow obvious references ----------===//
#include "runtime/cts/Harness.h"
#include "runtime/src/train/Philox.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace shardwright::runtime;
using namespace shardwright::runtime::cts;

namespace {

/// A context of one rank without peers.
void alone(const std::function<void(sw_rt_context &)> &body) {
  JobOptions options{Mesh({{"tp", 1}}), 60};
  options.openDevice = testDevice();
  const JobResult result = runOnThreads(options, [&](sw_rt_context &context) {
    body(context);
    return context.status;
  });
  CHECK(result.message == "");
}

std::vector<double> normals(size_t count, const char *name) {
  const NamedRandom random(7, name);
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = random.normal(i);
  return values;
}

template <typename T> std::vector<T> as(const std::vector<double> &values) {
  return std::vector<T>(values.begin(), values.end());
}

template <typename T>
double distance(const std::vector<T> &got, const std::vector<double> &want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

struct Reference {
  std::vector<double> o, lse, dq, dk, dv;
};

sw_rt_attention_shape shapeOf(int64_t s, int64_t t, int64_t b, int64_t n,
                              int64_t g, int64_t d, double scale,
                              int32_t causal) {
  sw_rt_attention_shape shape{};
  shape.s = s;
  shape.t = t;
  shape.b = b;
  shape.n = n;
  shape.g = g;
  shape.d = d;
  shape.scale = scale;
  shape.causal = causal;
  return shape;
}

/// Slope of ALiBi for six heads, from the paper's table for 4 and 8 heads.
double slopeOfSix(int64_t head) {
  const double slopes[] = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};
  return slopes[head];
}

/// Attention by its definition, one query at a time, in f64.
Reference attention(const sw_rt_attention_shape &x,
                    const std::vector<double> &q, const std::vector<double> &k,
                    const std::vector<double> &v,
                    const std::vector<double> &dO) {
  Reference r;
  r.o.assign(q.size(), 0);
  r.dq.assign(q.size(), 0);
  r.dk.assign(k.size(), 0);
  r.dv.assign(v.size(), 0);
  r.lse.assign(static_cast<size_t>(x.s * x.b * x.n * x.g), 0);
  for (int64_t s = 0; s < x.s; ++s)
    for (int64_t b = 0; b < x.b; ++b)
      for (int64_t n = 0; n < x.n; ++n)
        for (int64_t g = 0; g < x.g; ++g) {
          const int64_t head = ((s * x.b + b) * x.n + n) * x.g + g;
          auto keyAt = [&](int64_t t) {
            return static_cast<size_t>(((t * x.b + b) * x.n + n) * x.d);
          };
          const size_t at = static_cast<size_t>(head * x.d);
          const size_t d = static_cast<size_t>(x.d);
          const int64_t keys = x.causal ? s + 1 + x.t - x.s : x.t;
          const int64_t first =
              x.window > 0 ? std::max<int64_t>(0, keys - x.window) : 0;
          std::vector<double> p(static_cast<size_t>(keys)), slope = p;
          double sum = 0, delta = 0;
          for (int64_t t = first; t < keys; ++t) {
            double score = 0;
            for (size_t i = 0; i < d; ++i)
              score += q[at + i] * k[keyAt(t) + i];
            score *= x.scale;
            if (x.softcap > 0) {
              const double bounded = std::tanh(score / x.softcap);
              score = x.softcap * bounded;
              slope[static_cast<size_t>(t)] = 1 - bounded * bounded;
            } else {
              slope[static_cast<size_t>(t)] = 1;
            }
            if (x.alibi > 0)
              score += x.alibi * slopeOfSix(n * x.g + g) *
                       static_cast<double>(t - (s + x.t - x.s));
            p[static_cast<size_t>(t)] = std::exp(score);
            sum += p[static_cast<size_t>(t)];
          }
          r.lse[static_cast<size_t>(head)] = std::log(sum);
          for (int64_t t = first; t < keys; ++t) {
            p[static_cast<size_t>(t)] /= sum;
            for (size_t i = 0; i < d; ++i)
              r.o[at + i] += p[static_cast<size_t>(t)] * v[keyAt(t) + i];
          }
          for (size_t i = 0; i < d; ++i)
            delta += dO[at + i] * r.o[at + i];
          for (int64_t t = first; t < keys; ++t) {
            const double pt = p[static_cast<size_t>(t)];
            double dp = 0;
            for (size_t i = 0; i < d; ++i)
              dp += dO[at + i] * v[keyAt(t) + i];
            const double ds =
                pt * (dp - delta) * slope[static_cast<size_t>(t)] * x.scale;
            for (size_t i = 0; i < d; ++i) {
              r.dv[keyAt(t) + i] += pt * dO[at + i];
              r.dq[at + i] += ds * k[keyAt(t) + i];
              r.dk[keyAt(t) + i] += ds * q[at + i];
            }
          }
        }
  return r;
}

template <typename T>
void checkAttention(const sw_rt_attention_shape &x, sw_rt_dtype dtype,
                    double tolerance) {
  tolerance *= slack();
  const size_t queries = static_cast<size_t>(x.s * x.b * x.n * x.g * x.d);
  const size_t keys = static_cast<size_t>(x.t * x.b * x.n * x.d);
  const auto q = normals(queries, "q"), k = normals(keys, "k"),
             v = normals(keys, "v"), dO = normals(queries, "do");
  const Reference want = attention(x, q, k, v, dO);
  const auto tq = as<T>(q), tk = as<T>(k), tv = as<T>(v), tdO = as<T>(dO);
  alone([&](sw_rt_context &context) {
    // One thread and several must agree.
    for (int threads : {1, 3}) {
      context.pool.resize(threads);
      context.ledger = {};
      auto buffer = [&](const std::vector<T> &start) {
        return std::make_unique<Buffer<T>>(context, start);
      };
      auto empty = [&](size_t count) {
        return buffer(std::vector<T>(count, T(77)));
      };
      const auto bq = buffer(tq), bk = buffer(tk), bv = buffer(tv),
                 bdO = buffer(tdO), bo = empty(queries), bdq = empty(queries),
                 bdk = empty(keys), bdv = empty(keys),
                 blse = empty(want.lse.size());
      sw_rt_attention_fwd(&context, dtype, &x, bq->data(), bk->data(),
                          bv->data(), bo->data(), blse->data());
      sw_rt_attention_bwd(&context, dtype, &x, bdO->data(), bq->data(),
                          bk->data(), bv->data(), bo->data(), blse->data(),
                          bdq->data(), bdk->data(), bdv->data());
      const std::vector<T> o = bo->read(), lse = blse->read(), dq = bdq->read(),
                           dk = bdk->read(), dv = bdv->read();
      INFO("s " << x.s << " t " << x.t << " b " << x.b << " n " << x.n << " g "
                << x.g << " d " << x.d << " causal " << x.causal);
      CHECK(distance(o, want.o) < tolerance);
      CHECK(distance(lse, want.lse) < tolerance);
      CHECK(distance(dv, want.dv) < tolerance);
      // A query that sees one key has a zero gradient: compare absolutely.
      if (x.t > 1 && x.window != 1) {
        CHECK(distance(dq, want.dq) < tolerance);
        CHECK(distance(dk, want.dk) < tolerance);
      } else {
        for (T value : dq)
          CHECK(std::fabs(value) < tolerance);
      }
      int64_t pairs = 0;
      for (int64_t s = 0; s < x.s; ++s) {
        const int64_t seen = x.causal ? s + 1 + x.t - x.s : x.t;
        pairs += x.window > 0 ? std::min(seen, x.window) : seen;
      }
      CHECK(context.ledger.flops[SW_RT_FORWARD] ==
            14 * x.b * x.n * x.g * x.d * pairs);
    }
  });
}

} // namespace

TEST_CASE("attention equals its definition at awkward sizes") {
  struct Size {
    int64_t s, b, n, g, d;
  };
  for (const Size &size :
       {Size{1, 1, 1, 1, 4}, Size{7, 2, 3, 1, 5}, Size{64, 1, 2, 2, 16},
        Size{129, 2, 2, 3, 8}, Size{300, 1, 1, 1, 64}, Size{33, 1, 1, 71, 4},
        Size{130, 1, 1, 130, 2}})
    for (int causal : {0, 1}) {
      const sw_rt_attention_shape shape =
          shapeOf(size.s, size.s, size.b, size.n, size.g, size.d,
                  1 / std::sqrt(double(size.d)), causal);
      checkAttention<double>(shape, SW_RT_F64, 1e-13);
      checkAttention<float>(shape, SW_RT_F32, 2e-6);
    }
}

TEST_CASE("attention with more keys than queries") {
  for (int causal : {0, 1})
    checkAttention<double>(shapeOf(5, 140, 1, 2, 2, 8, 0.3, causal), SW_RT_F64,
                           1e-13);
}

TEST_CASE("attention within a window") {
  for (int64_t window : {1, 5, 128, 129, 200, 1000}) {
    sw_rt_attention_shape shape = shapeOf(200, 200, 1, 2, 3, 8, 0.3, 1);
    shape.window = window;
    checkAttention<double>(shape, SW_RT_F64, 1e-13);
    shape = shapeOf(150, 220, 2, 1, 2, 4, 0.5, 1);
    shape.window = window;
    checkAttention<double>(shape, SW_RT_F64, 1e-13);
  }
}

TEST_CASE("attention with bounded scores, and with linear biases") {
  sw_rt_attention_shape shape = shapeOf(140, 140, 2, 3, 2, 8, 0.4, 1);
  shape.softcap = 1.5;
  checkAttention<double>(shape, SW_RT_F64, 1e-13);
  checkAttention<float>(shape, SW_RT_F32, 3e-6);
  shape.window = 30;
  checkAttention<double>(shape, SW_RT_F64, 1e-13);
  shape = shapeOf(140, 140, 1, 3, 2, 8, 0.4, 1);
  shape.alibi = 0.75;
  shape.alibi_heads = 6;
  checkAttention<double>(shape, SW_RT_F64, 1e-13);
}

TEST_CASE("attention survives large scores") {
  // Scores near +-2000 overflow exp unless the maximum is taken off.
  const sw_rt_attention_shape shape = shapeOf(3, 3, 1, 1, 1, 1, 1.0, 1);
  const std::vector<float> q = {40, -50, 45}, k = {40, 41, -42}, v = {1, 2, 3};
  std::vector<float> o(3), lse(3);
  alone([&](sw_rt_context &context) {
    Buffer<float> bq(context, q), bk(context, k), bv(context, v),
        bo(context, o), blse(context, lse);
    sw_rt_attention_fwd(&context, SW_RT_F32, &shape, bq.data(), bk.data(),
                        bv.data(), bo.data(), blse.data());
    o = bo.read();
    lse = blse.read();
  });
  CHECK(o[0] == Approx(1));
  CHECK(o[1] == Approx(1)); // -2000 against -2050
  CHECK(o[2] == Approx(2)); // 1800, 1845, -1890
  CHECK(lse[2] == Approx(1845));
}

TEST_CASE("matmul equals its definition in all four layouts") {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size &size : {Size{1, 1, 1}, Size{3, 5, 7}, Size{17, 1, 33},
                           Size{64, 129, 31}, Size{2, 3, 0}, Size{0, 3, 2}})
    for (int ta : {0, 1})
      for (int tb : {0, 1})
        for (int accumulate : {0, 1}) {
          const auto [m, n, k] = size;
          const auto a = normals(static_cast<size_t>(m * k), "a");
          const auto b = normals(static_cast<size_t>(k * n), "b");
          std::vector<double> c = normals(static_cast<size_t>(m * n), "c");
          std::vector<double> want = c;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double sum =
                  accumulate ? want[static_cast<size_t>(i * n + j)] : 0;
              for (int64_t l = 0; l < k; ++l)
                sum += a[static_cast<size_t>(ta ? l * m + i : i * k + l)] *
                       b[static_cast<size_t>(tb ? j * k + l : l * n + j)];
              want[static_cast<size_t>(i * n + j)] = sum;
            }
          std::vector<float> fa = as<float>(a), fb = as<float>(b),
                             fc = as<float>(c);
          alone([&](sw_rt_context &context) {
            context.phase = SW_RT_WEIGHT_GRAD;
            Buffer<double> da(context, a), db(context, b), dc(context, c);
            Buffer<float> sa(context, fa), sb(context, fb), sc(context, fc);
            sw_rt_matmul(&context, SW_RT_F64, SW_RT_F64, ta, tb, m, n, k,
                         da.data(), db.data(), dc.data(), accumulate);
            sw_rt_matmul(&context, SW_RT_F32, SW_RT_F32, ta, tb, m, n, k,
                         sa.data(), sb.data(), sc.data(), accumulate);
            c = dc.read();
            fc = sc.read();
            CHECK(context.ledger.flops[SW_RT_WEIGHT_GRAD] == 4 * m * n * k);
          });
          CHECK(distance(c, want) < 1e-14 * slack());
          CHECK(distance(fc, want) < 1e-6 * slack());
        }
}

TEST_CASE("embedding takes the rows of this rank and zeros for others") {
  const std::vector<int32_t> ids = {4, 0, 9, 5, 4};
  // Rows 4..6 of the table, width 3.
  const std::vector<double> table = {1, 2, 3, 4, 5, 6};
  std::vector<double> out(15, 77), gradient(6, 10);
  const std::vector<double> dOut = {1, 2,  3,  4,  5,  6,  7, 8,
                                    9, 10, 11, 12, 13, 14, 15};
  alone([&](sw_rt_context &context) {
    Buffer<int32_t> bids(context, ids);
    Buffer<double> btable(context, table), bout(context, out),
        bdOut(context, dOut), bgradient(context, gradient);
    sw_rt_embedding_fwd(&context, SW_RT_F64, bids.data(), 5, btable.data(), 4,
                        2, 3, bout.data());
    sw_rt_embedding_bwd(&context, SW_RT_F64, SW_RT_F64, bids.data(), 5,
                        bdOut.data(), 4, 2, 3, bgradient.data());
    out = bout.read();
    gradient = bgradient.read();
  });
  CHECK(out ==
        std::vector<double>{1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5, 6, 1, 2, 3});
  // Row 4 gets tokens 0 and 4, row 5 token 3, on top of what was there.
  CHECK(gradient ==
        std::vector<double>{10 + 1 + 13, 10 + 2 + 14, 10 + 3 + 15, 20, 21, 22});
}

//===- KernelsTest.cpp - Our device kernels, run thread by thread on the CPU -//
//
// Not a run on a GPU: it shows that the kernels compute what they should and
// that their threads meet where they must.
//
//===----------------------------------------------------------------------===//
#include "runtime/cts/cuda/HostCuda.h"

#include "runtime/cts/Harness.h"
#include "runtime/src/Convert.h"
#include "runtime/src/compute/Attention.h"
#include "runtime/src/compute/HostCompute.h"
#include "runtime/src/train/Philox.h"

#include <catch2/catch.hpp>

#include <numeric>

using namespace shardwright::runtime;
using namespace shardwright::runtime::cts;

namespace {

template <typename Parameters>
void launch(void (*kernel)(Parameters), int64_t grid,
            const Parameters &parameters) {
  BlockEmulator::get().launch(static_cast<unsigned>(grid), kernels::threads,
                              [&] { kernel(parameters); });
}

std::vector<double> normals(size_t count, const char *name) {
  const NamedRandom random(3, name);
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = random.normal(i);
  return values;
}

double distance(const std::vector<double> &got,
                const std::vector<double> &want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

void alone(const std::function<void(sw_rt_context &)> &body) {
  const JobResult result =
      runOnThreads({Mesh({{"tp", 1}}), 60}, [&](sw_rt_context &context) {
        body(context);
        return context.status;
      });
  CHECK(result.message == "");
}

int64_t blocksOf(int64_t warps) {
  constexpr int64_t each = kernels::threads / kernels::warpThreads;
  return (warps + each - 1) / each;
}

/// The kernels in f64 against the host's attention, which is tested against the
/// definition.
void checkAttention(const sw_rt_attention_shape &x) {
  const size_t queries = static_cast<size_t>(x.s * x.b * x.n * x.g * x.d),
               keys = static_cast<size_t>(x.t * x.b * x.n * x.d),
               stats = queries / static_cast<size_t>(x.d);
  const auto q = normals(queries, "q"), k = normals(keys, "k"),
             v = normals(keys, "v"), gradO = normals(queries, "do");
  std::vector<double> slopes, want[5], got[5];
  for (int i : {0, 2})
    want[i].resize(queries), got[i].assign(queries, 77);
  for (int i : {3, 4})
    want[i].resize(keys), got[i].assign(keys, 77);
  want[1].resize(stats), got[1].assign(stats, 77);
  alone([&](sw_rt_context &context) {
    const AttentionCall call{SW_RT_F64,      x,
                             q.data(),       k.data(),
                             v.data(),       want[0].data(),
                             want[1].data(), gradO.data(),
                             want[2].data(), want[3].data(),
                             want[4].data()};
    hostAttentionForward(context, call);
    hostAttentionBackward(context, call);
    slopes = alibiSlopes(context, x);
  });
  kernels::Attention parameters{};
  parameters.q = q.data();
  parameters.k = k.data();
  parameters.v = v.data();
  parameters.gradO = gradO.data();
  parameters.o = got[0].data();
  parameters.lse = got[1].data();
  parameters.gradQ = got[2].data();
  parameters.gradK = got[3].data();
  parameters.gradV = got[4].data();
  parameters.slopes = slopes.empty() ? nullptr : slopes.data();
  parameters.s = x.s;
  parameters.t = x.t;
  parameters.b = x.b;
  parameters.n = x.n;
  parameters.g = x.g;
  parameters.d = x.d;
  parameters.window = x.window;
  parameters.scale = x.scale;
  parameters.softcap = x.softcap;
  parameters.causal = x.causal;
  const int64_t ofQueries = blocksOf(x.s * x.b * x.n * x.g),
                ofKeys = blocksOf(x.t * x.b * x.n);
  launch(sw_attention_forward_f64, ofQueries, parameters);
  launch(sw_attention_grad_q_f64, ofQueries, parameters);
  launch(sw_attention_grad_kv_f64, ofKeys, parameters);
  INFO("s " << x.s << " t " << x.t << " b " << x.b << " n " << x.n << " g "
            << x.g << " d " << x.d << " window " << x.window << " causal "
            << x.causal << " softcap " << x.softcap << " alibi " << x.alibi);
  for (int i = 0; i < 5; ++i) {
    INFO("result " << i);
    CHECK(distance(got[i], want[i]) < 1e-12);
  }
}

} // namespace

TEST_CASE("attention kernels equal the host's attention") {
  sw_rt_attention_shape x{};
  x.s = x.t = 13;
  x.b = 2;
  x.n = 2;
  x.g = 3;
  x.d = 5;
  x.scale = 0.4;
  checkAttention(x);
  x.causal = 1;
  checkAttention(x);
  x.window = 4;
  checkAttention(x);
  x.softcap = 1.5;
  checkAttention(x);
  x.window = 0;
  x.softcap = 0;
  x.alibi = 0.75;
  x.alibi_heads = 6;
  checkAttention(x);
  x.alibi = 0;
  x.t = 17; // more keys than queries
  checkAttention(x);
  x.s = x.t = 3;
  x.b = x.n = x.g = 1;
  x.d = 70; // several columns a lane
  checkAttention(x);
  x.d = 256;
  checkAttention(x);
}

TEST_CASE("attention kernels round to bf16 once") {
  // One key: the output is its value, the log-sum-exp its score.
  const float values[] = {1.5f, -2.25f, 0.3125f};
  std::vector<__nv_bfloat16> q, o(3);
  for (float value : values)
    q.push_back(__float2bfloat16(value));
  float lse = 0;
  kernels::Attention x{};
  x.q = x.k = x.v = q.data();
  x.o = o.data();
  x.lse = &lse;
  x.s = x.t = x.b = x.n = x.g = 1;
  x.d = 3;
  x.scale = 0.5;
  launch(sw_attention_forward_bf16, 1, x);
  for (int i = 0; i < 3; ++i)
    CHECK(__bfloat162float(o[static_cast<size_t>(i)]) == values[i]);
  CHECK(lse == Approx(0.5 * (1.5 * 1.5 + 2.25 * 2.25 + 0.3125 * 0.3125)));
}

TEST_CASE("embedding kernels move rows and add repeated tokens in order") {
  const int64_t tokens = 600, rows = 3, width = 33;
  std::vector<int32_t> ids(tokens), next(tokens), isFirst(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    ids[static_cast<size_t>(i)] = static_cast<int32_t>(i * i % 5);
  // bf16 gradients into f32: values that bf16 holds, in an order that shows.
  std::vector<__nv_bfloat16> gradient;
  for (int64_t i = 0; i < tokens * width; ++i)
    gradient.push_back(
        __float2bfloat16(i % 97 == 0 ? 1e30f : float(i * 7 % 41) / 64));
  std::vector<float> table(static_cast<size_t>(rows * width), 5), want = table;
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t row = ids[static_cast<size_t>(i)] - 1;
    for (int64_t j = 0; row >= 0 && row < rows && j < width; ++j)
      want[static_cast<size_t>(row * width + j)] +=
          __bfloat162float(gradient[static_cast<size_t>(i * width + j)]);
  }
  launch(
      sw_embedding_links, (tokens + kernels::threads - 1) / kernels::threads,
      kernels::EmbeddingLinks{ids.data(), next.data(), isFirst.data(), tokens});
  launch(sw_embedding_backward_bf16, tokens,
         kernels::EmbeddingBackward{ids.data(), next.data(), isFirst.data(),
                                    gradient.data(), table.data(), 1, rows,
                                    width});
  CHECK(table == want); // the same bits: the same order

  std::vector<__nv_bfloat16> narrow(table.size(), __float2bfloat16(5));
  launch(sw_embedding_backward_bf16_bf16, tokens,
         kernels::EmbeddingBackward{ids.data(), next.data(), isFirst.data(),
                                    gradient.data(), narrow.data(), 1, rows,
                                    width});
  bool roundedOnce = true;
  for (size_t i = 0; i < narrow.size(); ++i)
    roundedOnce = roundedOnce && __bfloat162float(narrow[i]) ==
                                     __bfloat162float(__float2bfloat16(want[i]));
  CHECK(roundedOnce);

  std::vector<float> output(static_cast<size_t>(tokens * width), 77);
  launch(sw_embedding_forward_4, tokens,
         kernels::EmbeddingForward{ids.data(), table.data(), output.data(), 1,
                                   rows, width});
  bool right = true;
  for (int64_t i = 0; i < tokens * width; ++i) {
    const int64_t row = ids[static_cast<size_t>(i / width)] - 1;
    const float value =
        row < 0 || row >= rows
            ? 0
            : table[static_cast<size_t>(row * width + i % width)];
    right = right && output[static_cast<size_t>(i)] == value;
  }
  CHECK(right);
}

TEST_CASE("the norm kernels add every square once") {
  for (int64_t count : {int64_t(1), int64_t(255), kernels::squaresOfBlock,
                        2 * kernels::squaresOfBlock + 7}) {
    std::vector<float> values(static_cast<size_t>(count));
    double want = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(i % 17) - 8);
      want += values[i] * values[i];
    }
    const int64_t blocks =
        (count + kernels::squaresOfBlock - 1) / kernels::squaresOfBlock;
    std::vector<double> partial(static_cast<size_t>(blocks));
    double sum = -1;
    launch(sw_squares_f32, blocks,
           kernels::Squares{values.data(), partial.data(), count});
    launch(sw_sum, 1, kernels::Sum{partial.data(), &sum, blocks});
    CHECK(sum == want);

    std::vector<__nv_bfloat16> halves; // of small integers: exact
    for (float value : values)
      halves.push_back(__float2bfloat16(value));
    sum = -1;
    launch(sw_squares_bf16, blocks,
           kernels::Squares{halves.data(), partial.data(), count});
    launch(sw_sum, 1, kernels::Sum{partial.data(), &sum, blocks});
    CHECK(sum == want);
  }
}

TEST_CASE("the transposition kernel exchanges rows and columns") {
  const int64_t rows = 37, columns = 19;
  std::vector<float> input(rows * columns), output(rows * columns);
  std::iota(input.begin(), input.end(), 0.0f);
  launch(sw_transpose_f32, (rows * columns + 255) / 256,
         kernels::Transpose{input.data(), output.data(), rows, columns});
  bool right = true;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      right = right && output[static_cast<size_t>(column * rows + row)] ==
                           input[static_cast<size_t>(row * columns + column)];
  CHECK(right);
}

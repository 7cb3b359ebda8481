//===- TinyKernels.cpp - Functions of the tiny program --------------------===//
#include "runtime/cts/tiny/TinyKernels.h"
#include "runtime/src/Context.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <thread>

namespace shardwright::runtime::cts {

TinyShape tinyShape;

int64_t tinyWorkspaceElements() {
  const TinyShape &x = tinyShape;
  return x.tokens * (3 * tinyHidden + 4 * x.ffn + x.vocab + 1);
}
int64_t tinyLayerSavedElements() { return tinyShape.tokens * tinyShape.ffn; }
int64_t tinyHeadSavedElements() {
  return tinyShape.tokens * (tinyShape.vocab + 3);
}

namespace {

constexpr int64_t H = tinyHidden;

template <typename T> struct Functions {
  static sw_rt_dtype dtype() { return sizeof(T) == 8 ? SW_RT_F64 : SW_RT_F32; }
  static T *at(sw_rt_frame *frame, sw_rt_base base, int64_t offset = 0) {
    return reinterpret_cast<T *>(frame->base[base]) + offset;
  }
  static const int32_t *ids(sw_rt_frame *frame, sw_rt_base base) {
    return reinterpret_cast<const int32_t *>(frame->base[base]);
  }
  static sw_rt_status reduce(sw_rt_frame *frame, T *data, int64_t count,
                             sw_rt_op op = SW_RT_SUM) {
    if (tinyShape.plan.tp == 1)
      return SW_RT_OK;
    return sw_rt_all_reduce(frame->context, tinyShape.tpAxis, dtype(), op, data,
                            data, count);
  }
  static void matmul(sw_rt_frame *frame, int ta, int tb, int64_t m, int64_t n,
                     int64_t k, const T *a, const T *b, T *c,
                     int accumulate = 0) {
    sw_rt_matmul(frame->context, dtype(), dtype(), ta, tb, m, n, k, a, b, c,
                 accumulate);
  }
  static int64_t tpIndex(sw_rt_frame *frame) {
    return sw_rt_coordinate(frame->context, tinyShape.tpAxis);
  }
  static sw_rt_base tableBase() {
    return tinyShape.plan.tied ? SW_RT_BASE_SHARED_PARAMS : SW_RT_BASE_PARAMS;
  }
  static sw_rt_base tableGrads() {
    return tinyShape.plan.tied ? SW_RT_BASE_SHARED_GRADS : SW_RT_BASE_GRADS;
  }

  /// Faults that tests ask for.
  static void misbehave(sw_rt_frame *frame) {
    const std::string &fault = tinyShape.plan.fault;
    if (fault.empty() || frame->context->rank() != 1)
      return;
    if (++tinyShape.forwards != 3)
      return;
    if (fault == "stall")
      std::this_thread::sleep_for(std::chrono::seconds(60));
    if (fault == "die")
      std::raise(SIGKILL);
    if (fault == "canary")
      frame->base[SW_RT_BASE_WORKSPACE][-1] = 0;
    if (fault == "mismatch") {
      float data[2] = {};
      sw_rt_all_reduce(frame->context, frame->context->mesh.all(), SW_RT_F32,
                       SW_RT_SUM, data, data, 2);
    }
    if (fault == "nan")
      *at(frame, SW_RT_BASE_STREAM_OUT) = std::numeric_limits<T>::quiet_NaN();
  }

  static sw_rt_status embedForward(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    T *out = at(frame, SW_RT_BASE_STREAM_OUT);
    sw_rt_embedding_fwd(frame->context, dtype(), ids(frame, SW_RT_BASE_TOKENS),
                        x.tokens, at(frame, tableBase(), x.table),
                        tpIndex(frame) * x.vocab, x.vocab, H, out);
    misbehave(frame);
    return reduce(frame, out, x.tokens * H);
  }
  static sw_rt_status embedWeightGrad(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    sw_rt_embedding_bwd(frame->context, dtype(), dtype(),
                        ids(frame, SW_RT_BASE_TOKENS), x.tokens,
                        at(frame, SW_RT_BASE_GRAD_IN), tpIndex(frame) * x.vocab,
                        x.vocab, H, at(frame, tableGrads(), x.table));
    return SW_RT_OK;
  }

  /// u = x * scale.
  static void scaled(sw_rt_frame *frame, T *u) {
    const T *in = at(frame, SW_RT_BASE_STREAM_IN);
    const T *scale = at(frame, SW_RT_BASE_PARAMS, tinyShape.scale);
    for (int64_t i = 0; i < tinyShape.tokens * H; ++i)
      u[i] = in[i] * scale[i % H];
  }

  // Workspace of a layer: u, y or du | a's tanh, gate's part, dh, da.
  static sw_rt_status layerForward(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    T *u = at(frame, SW_RT_BASE_WORKSPACE), *y = u + x.tokens * H;
    T *h = y + 2 * x.tokens * H, *a = at(frame, SW_RT_BASE_SAVED);
    scaled(frame, u);
    matmul(frame, 0, 1, x.tokens, x.ffn, H, u,
           at(frame, SW_RT_BASE_PARAMS, x.up), a);
    matmul(frame, 0, 1, x.tokens, x.ffn, H, u,
           at(frame, SW_RT_BASE_PARAMS, x.gate), h);
    for (int64_t i = 0; i < x.tokens * x.ffn; ++i)
      h[i] += std::tanh(a[i]);
    matmul(frame, 0, 1, x.tokens, H, x.ffn, h,
           at(frame, SW_RT_BASE_PARAMS, x.down), y);
    if (sw_rt_status status = reduce(frame, y, x.tokens * H))
      return status;
    const T *in = at(frame, SW_RT_BASE_STREAM_IN);
    T *out = at(frame, SW_RT_BASE_STREAM_OUT);
    for (int64_t i = 0; i < x.tokens * H; ++i)
      out[i] = in[i] + y[i];
    return SW_RT_OK;
  }
  static sw_rt_status layerDataGrad(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    T *u = at(frame, SW_RT_BASE_WORKSPACE), *du = u + x.tokens * H;
    T *h = du + 2 * x.tokens * H, *dh = h + x.tokens * x.ffn,
      *da = dh + x.tokens * x.ffn;
    const T *a = at(frame, SW_RT_BASE_SAVED);
    const T *dy = at(frame, SW_RT_BASE_GRAD_IN);
    scaled(frame, u);
    matmul(frame, 0, 1, x.tokens, x.ffn, H, u,
           at(frame, SW_RT_BASE_PARAMS, x.gate), h);
    matmul(frame, 0, 0, x.tokens, x.ffn, H, dy,
           at(frame, SW_RT_BASE_PARAMS, x.down), dh);
    for (int64_t i = 0; i < x.tokens * x.ffn; ++i) {
      const T t = std::tanh(a[i]);
      h[i] += t;
      da[i] = dh[i] * (1 - t * t);
    }
    matmul(frame, 0, 0, x.tokens, H, x.ffn, da,
           at(frame, SW_RT_BASE_PARAMS, x.up), du);
    matmul(frame, 0, 0, x.tokens, H, x.ffn, dh,
           at(frame, SW_RT_BASE_PARAMS, x.gate), du, 1);
    if (sw_rt_status status = reduce(frame, du, x.tokens * H))
      return status;
    const T *scale = at(frame, SW_RT_BASE_PARAMS, x.scale);
    T *dx = at(frame, SW_RT_BASE_GRAD_OUT);
    for (int64_t i = 0; i < x.tokens * H; ++i)
      dx[i] = dy[i] + du[i] * scale[i % H];
    return SW_RT_OK;
  }
  static sw_rt_status layerWeightGrad(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    const T *u = at(frame, SW_RT_BASE_WORKSPACE), *du = u + x.tokens * H;
    const T *h = du + 2 * x.tokens * H, *dh = h + x.tokens * x.ffn,
            *da = dh + x.tokens * x.ffn;
    const T *dy = at(frame, SW_RT_BASE_GRAD_IN);
    matmul(frame, 1, 0, x.ffn, H, x.tokens, da, u,
           at(frame, SW_RT_BASE_GRADS, x.up), 1);
    matmul(frame, 1, 0, x.ffn, H, x.tokens, dh, u,
           at(frame, SW_RT_BASE_GRADS, x.gate), 1);
    matmul(frame, 1, 0, H, x.ffn, x.tokens, dy, h,
           at(frame, SW_RT_BASE_GRADS, x.down), 1);
    // A tp rank sums over its share of the tokens only: partial.
    const T *in = at(frame, SW_RT_BASE_STREAM_IN);
    T *dscale = at(frame, SW_RT_BASE_GRADS, x.scale);
    for (int64_t t = tpIndex(frame); t < x.tokens; t += x.plan.tp)
      for (int64_t i = 0; i < H; ++i)
        dscale[i] += in[t * H + i] * du[t * H + i];
    return SW_RT_OK;
  }

  static sw_rt_status headForward(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    T *logits = at(frame, SW_RT_BASE_SAVED);
    T *maximum = logits + x.tokens * x.vocab, *sum = maximum + x.tokens,
      *target = sum + x.tokens;
    matmul(frame, 0, 1, x.tokens, x.vocab, H, at(frame, SW_RT_BASE_STREAM_IN),
           at(frame, tableBase(), x.head), logits);
    const int64_t first = tpIndex(frame) * x.vocab;
    const int64_t valid =
        std::min(x.vocab, std::max<int64_t>(0, tinyVocab - first));
    const int32_t *labels = ids(frame, SW_RT_BASE_LABELS);
    for (int64_t t = 0; t < x.tokens; ++t) {
      maximum[t] = -std::numeric_limits<T>::infinity();
      for (int64_t v = 0; v < valid; ++v)
        maximum[t] = std::max(maximum[t], logits[t * x.vocab + v]);
    }
    if (sw_rt_status status = reduce(frame, maximum, x.tokens, SW_RT_MAX))
      return status;
    for (int64_t t = 0; t < x.tokens; ++t) {
      sum[t] = target[t] = 0;
      for (int64_t v = 0; v < valid; ++v)
        sum[t] += std::exp(logits[t * x.vocab + v] - maximum[t]);
      const int64_t label = labels[t] - first;
      if (label >= 0 && label < x.vocab)
        target[t] = logits[t * x.vocab + label];
    }
    if (sw_rt_status status = reduce(frame, sum, 2 * x.tokens))
      return status;
    T *loss = at(frame, SW_RT_BASE_LOSS);
    for (int64_t t = 0; t < x.tokens; ++t)
      *loss += static_cast<T>(x.lossScale *
                              (std::log(sum[t]) + maximum[t] - target[t]));
    return SW_RT_OK;
  }
  static sw_rt_status headDataGrad(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    const T *logits = at(frame, SW_RT_BASE_SAVED);
    const T *maximum = logits + x.tokens * x.vocab, *sum = maximum + x.tokens;
    T *dlogits = at(frame, SW_RT_BASE_WORKSPACE);
    const int64_t first = tpIndex(frame) * x.vocab;
    const int32_t *labels = ids(frame, SW_RT_BASE_LABELS);
    for (int64_t t = 0; t < x.tokens; ++t)
      for (int64_t v = 0; v < x.vocab; ++v) {
        const double p =
            first + v < tinyVocab
                ? std::exp(logits[t * x.vocab + v] - maximum[t]) / sum[t]
                : 0;
        dlogits[t * x.vocab + v] = static_cast<T>(
            x.lossScale * (p - (labels[t] == first + v ? 1 : 0)));
      }
    T *dx = at(frame, SW_RT_BASE_GRAD_OUT);
    matmul(frame, 0, 0, x.tokens, H, x.vocab, dlogits,
           at(frame, tableBase(), x.head), dx);
    return reduce(frame, dx, x.tokens * H);
  }
  static sw_rt_status headWeightGrad(sw_rt_frame *frame) {
    const TinyShape &x = tinyShape;
    matmul(frame, 1, 0, x.vocab, H, x.tokens, at(frame, SW_RT_BASE_WORKSPACE),
           at(frame, SW_RT_BASE_STREAM_IN), at(frame, tableGrads(), x.head), 1);
    return SW_RT_OK;
  }

  static void update(void *master, void *m, void *v, const void *grad,
                     void *param, int64_t count, const double *s) {
    T *w = static_cast<T *>(master), *m1 = static_cast<T *>(m),
      *m2 = static_cast<T *>(v), *p = static_cast<T *>(param);
    for (int64_t i = 0; i < count; ++i) {
      const T g = static_cast<T>(static_cast<const T *>(grad)[i] * s[5]);
      m1[i] = static_cast<T>(s[1] * m1[i] + (1 - s[1]) * g);
      m2[i] = static_cast<T>(s[2] * m2[i] + (1 - s[2]) * g * g);
      w[i] -= static_cast<T>(
          s[0] *
          (m1[i] / s[6] / (std::sqrt(m2[i] / s[7]) + s[3]) + s[4] * w[i]));
      p[i] = w[i];
    }
  }
};

} // namespace

template <typename T> TinyFunctions tinyFunctions() {
  using F = Functions<T>;
  return {F::embedForward,  F::embedWeightGrad, F::layerForward,
          F::layerDataGrad, F::layerWeightGrad, F::headForward,
          F::headDataGrad,  F::headWeightGrad,  F::update};
}
template TinyFunctions tinyFunctions<float>();
template TinyFunctions tinyFunctions<double>();

} // namespace shardwright::runtime::cts

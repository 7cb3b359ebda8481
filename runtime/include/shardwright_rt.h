/*===- shardwright_rt.h - ABI between compiled programs and the runtime ----===*\
 *
 * C11. Everything that a generated object calls is declared here; the constant
 * tables that it carries are declared in shardwright_program.h.
 *
 * Conventions: every function that can fail returns sw_rt_status; handles are
 * opaque; nothing reads the environment, exits or throws across this border;
 * every wait has the context's deadline. A context belongs to one rank and is
 * used by one thread.
 *
 * Addresses of tensors lie in the memory of the rank's device: the host itself,
 * or a GPU if the program carries code for one (shardwright_device.h). On a GPU
 * every call below is asynchronous, in the order of the calls, and a failure
 * may be returned by a later one.
 *
\*===----------------------------------------------------------------------===*/
#ifndef SHARDWRIGHT_RT_H
#define SHARDWRIGHT_RT_H

#include "shardwright_device.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SW_RT_ABI_VERSION 6

typedef enum sw_rt_status {
  SW_RT_OK = 0,
  SW_RT_ABORTED = 1,          /* another rank failed; see sw_rt_context_last_error */
  SW_RT_TIMEOUT = 2,          /* this rank was the first to miss its deadline */
  SW_RT_INVALID_ARGUMENT = 3,
  SW_RT_OUT_OF_MEMORY = 4,
  SW_RT_IO = 5,
  SW_RT_UNSUPPORTED = 6,
  SW_RT_MISMATCH = 7,         /* members of a group called different collectives */
  SW_RT_NOT_FINITE = 8,       /* loss or gradient norm is not a number */
} sw_rt_status;

typedef enum sw_rt_dtype {
  SW_RT_F64 = 0, SW_RT_F32 = 1, SW_RT_BF16 = 2, SW_RT_F16 = 3, SW_RT_I32 = 4,
} sw_rt_dtype;

typedef enum sw_rt_op { SW_RT_SUM = 0, SW_RT_MAX = 1 } sw_rt_op;

/* Phase of a step that calls are booked under in the measured ledger; same
 * order as cost::Phase. */
typedef enum sw_rt_phase {
  SW_RT_FORWARD = 0, SW_RT_DATA_GRAD = 1, SW_RT_WEIGHT_GRAD = 2,
  SW_RT_REDUCE = 3, SW_RT_UPDATE = 4, SW_RT_PHASES = 5,
} sw_rt_phase;

typedef struct sw_rt_context sw_rt_context;

/* Version of the runtime; a program compares it with the one it was built for. */
uint32_t sw_rt_abi_version(void);

/* Message of the failure that poisoned the context, or "". Owned by the
 * context. */
const char *sw_rt_context_last_error(const sw_rt_context *context);

/* Index of this rank along the mesh axes in `axes` (bit i = axis i, outer to
 * inner; row-major over the listed axes). */
int64_t sw_rt_coordinate(const sw_rt_context *context, uint32_t axes);

/* ---- Collectives -------------------------------------------------------- *
 * `axes` names the group: all ranks whose coordinates differ from this rank's
 * only on these axes, ordered by sw_rt_coordinate. Every member calls the same
 * collective with the same count, in the same order. `count` is in elements of
 * THIS rank's input. Reductions add in rank order, so all members and all
 * backends of the host get equal bits. Synchronous on the host. */

/* output[i] = op over members of input[i]; input may equal output.
 * Equivalent to: ncclAllReduce. */
sw_rt_status sw_rt_all_reduce(sw_rt_context *context, uint32_t axes,
                              sw_rt_dtype dtype, sw_rt_op op, const void *input,
                              void *output, int64_t count);
/* output = inputs of the members one after the other (n * count elements);
 * input may be this rank's part of output. Equivalent to: ncclAllGather. */
sw_rt_status sw_rt_all_gather(sw_rt_context *context, uint32_t axes,
                              sw_rt_dtype dtype, const void *input,
                              void *output, int64_t count);
/* output = this rank's 1/n of the element-wise op over members; count is
 * divisible by n; output may be this rank's part of input (and then the other
 * parts of input are left as they were). Equivalent to: ncclReduceScatter. */
sw_rt_status sw_rt_reduce_scatter(sw_rt_context *context, uint32_t axes,
                                  sw_rt_dtype dtype, sw_rt_op op,
                                  const void *input, void *output,
                                  int64_t count);
/* Part j of input goes to member j; output part i comes from member i.
 * Equivalent to: a group of ncclSend/ncclRecv. */
sw_rt_status sw_rt_all_to_all(sw_rt_context *context, uint32_t axes,
                              sw_rt_dtype dtype, const void *input,
                              void *output, int64_t count);
/* Blocking rendezvous with global rank `peer`. */
sw_rt_status sw_rt_send(sw_rt_context *context, int32_t peer, sw_rt_dtype dtype,
                        const void *buffer, int64_t count);
sw_rt_status sw_rt_recv(sw_rt_context *context, int32_t peer, sw_rt_dtype dtype,
                        void *buffer, int64_t count);
/* Returns when every rank of the job has called it. */
sw_rt_status sw_rt_barrier(sw_rt_context *context);

/* ---- Compute ------------------------------------------------------------ */

/* Row-major C[m, n] = op(A)[m, k] * op(B)[k, n] + (accumulate ? C : 0).
 * transpose_a: A is stored [k, m]; transpose_b: B is stored [n, k]. Leading
 * dimensions are the stored row lengths. A and B are of `dtype`, C of
 * `c_dtype`: the same, or f32 if dtype is bf16. Sums, C's old value included, are
 * kept in f32 (f64 if dtype is f64) and rounded once. Books 2*m*n*k flops. */
void sw_rt_matmul(sw_rt_context *context, sw_rt_dtype dtype,
                  sw_rt_dtype c_dtype, int32_t transpose_a,
                  int32_t transpose_b, int64_t m, int64_t n, int64_t k,
                  const void *a, const void *b, void *c, int32_t accumulate);

/* A generated function that does units [first, last) of `extent`. Units are
 * independent, and what they compute does not depend on where a range ends. */
typedef void (*sw_rt_range)(void *const *arguments, int64_t first,
                            int64_t last);
/* Runs `range` over all units, in ranges of `grain`, on the threads of the
 * rank. `arguments` are handed through. */
void sw_rt_parallel(sw_rt_context *context, sw_rt_range range,
                    void *const *arguments, int64_t extent, int64_t grain);

/* Runs a kernel of the program's device code. `arguments`: the addresses of its
 * buffers, then position and column origin; no scratch. For programs with
 * device code only. */
sw_rt_status sw_rt_launch(sw_rt_context *context, const sw_rt_kernel *kernel,
                          void *const *arguments);

/* Copies `rows` rows of `row_bytes`; row i starts at input + i * input_stride
 * and output + i * output_stride (in bytes). Input may equal output if the
 * strides do; they do not overlap otherwise. */
sw_rt_status sw_rt_copy_rows(sw_rt_context *context, const void *input,
                             int64_t input_stride, void *output,
                             int64_t output_stride, int64_t row_bytes,
                             int64_t rows);

/* Shapes, all sequence-major: q, o [s, b, n, g, d]; k, v [t, b, n, d];
 * lse [s, b, n, g] in the stat dtype (f32; f64 when dtype is f64). */
typedef struct sw_rt_attention_shape {
  int64_t s, t, b, n, g, d;
  double scale;
  int32_t causal;
  /* The rest may be 0. */
  uint32_t head_axes;  /* mesh axes that shard n; read by alibi only */
  int64_t window;      /* a position sees at most so many keys, the last ones */
  double softcap;      /* scores become softcap * tanh(score / softcap) */
  double alibi;        /* factor of slope[head] * (key - query position), which
                        * is added to the scores (arXiv:2108.12409) */
  int64_t alibi_heads; /* query heads over all ranks */
} sw_rt_attention_shape;

/* Tiled online softmax: never stores an s x t matrix. Books
 * 4*b*n*g*d*pairs flops. */
void sw_rt_attention_fwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const sw_rt_attention_shape *shape, const void *q,
                         const void *k, const void *v, void *o, void *lse);
/* Books 10*b*n*g*d*pairs flops. */
void sw_rt_attention_bwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const sw_rt_attention_shape *shape, const void *d_o,
                         const void *q, const void *k, const void *v,
                         const void *o, const void *lse, void *dq, void *dk,
                         void *dv);

/* table [v_local, h], rows first_row .. first_row + v_local of the whole;
 * output [tokens, h]: the row of each id, zeros for ids of other ranks. */
void sw_rt_embedding_fwd(sw_rt_context *context, sw_rt_dtype dtype,
                         const int32_t *ids, int64_t tokens, const void *table,
                         int64_t first_row, int64_t rows, int64_t width,
                         void *output);
/* d_table (of table_dtype: dtype, or f32 if that is bf16) += rows of d_output,
 * in token order; into bf16 summed in f32 and rounded once a call. */
void sw_rt_embedding_bwd(sw_rt_context *context, sw_rt_dtype dtype,
                         sw_rt_dtype table_dtype, const int32_t *ids,
                         int64_t tokens, const void *d_output,
                         int64_t first_row, int64_t rows, int64_t width,
                         void *d_table);

#ifdef __cplusplus
}
#endif
#endif /* SHARDWRIGHT_RT_H */

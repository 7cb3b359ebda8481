/*===- shardwright_program.h - Constant tables of a compiled program -------===*\
 *
 * A generated object defines one symbol, `sw_rt_program sw_program`, and the
 * functions it points to. The runtime's main walks it. Nothing here grows with
 * the number of ranks or layers except table entries: code does not.
 *
 * All structs are plain C with natural alignment; the compiler emits them as
 * LLVM constants field by field (compiler/Codegen/ProgramTables.cpp), and
 * struct_bytes lets the runtime check that both agree.
 *
\*===----------------------------------------------------------------------===*/
#ifndef SHARDWRIGHT_PROGRAM_H
#define SHARDWRIGHT_PROGRAM_H

#include "shardwright_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a pointer of generated code is relative to. */
typedef enum sw_rt_base {
  SW_RT_BASE_PARAMS = 0,        /* parameter block of this layer */
  SW_RT_BASE_GRADS = 1,         /* its gradient accumulators */
  SW_RT_BASE_SHARED_PARAMS = 2, /* shared (tied) parameters of this stage */
  SW_RT_BASE_SHARED_GRADS = 3,
  SW_RT_BASE_STREAM_IN = 4,     /* x */
  SW_RT_BASE_STREAM_OUT = 5,    /* y */
  SW_RT_BASE_GRAD_IN = 6,       /* dy */
  SW_RT_BASE_GRAD_OUT = 7,      /* dx */
  SW_RT_BASE_SAVED = 8,         /* saved values of this layer and microbatch */
  SW_RT_BASE_WORKSPACE = 9,     /* temporaries, kept values */
  SW_RT_BASE_TOKENS = 10,       /* i32 [s, b], this rank's microbatch */
  SW_RT_BASE_LABELS = 11,
  SW_RT_BASE_LOSS = 12,         /* one stat value, accumulated (+=) */
  SW_RT_BASES = 13
} sw_rt_base;

typedef struct sw_rt_frame {
  sw_rt_context *context;
  char *base[SW_RT_BASES];
} sw_rt_frame;

/* One generated function: forward, data_grad or weight_grad of a kind. */
typedef sw_rt_status (*sw_rt_function)(sw_rt_frame *frame);

/* Generated update of `count` elements of one bucket. scalars: learning rate,
 * beta1, beta2, eps, weight decay (0 for buckets without), gradient scale
 * (clip), 1 - beta1^t, 1 - beta2^t.
 *   g = grad * scale; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
 *   master -= lr * ((m / c1) / (sqrt(v / c2) + eps) + decay * master);
 *   param = master */
typedef void (*sw_rt_update)(void *master, void *m, void *v, const void *grad,
                             void *param, int64_t count, const double *scalars);

typedef struct sw_rt_dim {
  int64_t local;     /* extent on this rank (padded / shards) */
  int64_t global;    /* unpadded extent; larger indices are padding */
  int64_t hf_stride; /* elements of the Hugging Face tensor */
  uint32_t axes;     /* mesh axes that shard it, bit i = axis i */
  uint32_t reserved;
} sw_rt_dim;

#define SW_RT_MAX_DIMS 6

typedef struct sw_rt_parameter {
  const char *name; /* Hugging Face name; `{}` stands for the layer number */
  int32_t bucket;   /* in the kind's (or shared block's) buckets */
  int32_t ndims;
  sw_rt_dim dims[SW_RT_MAX_DIMS];
  int64_t offset;    /* elements, from the start of the layer block */
  int64_t hf_offset;
  int64_t hf_shape[4]; /* unused trailing extents are 0 */
  int32_t init;      /* 0 zeros, 1 ones, 2 normal */
  int32_t reserved;
  double init_scale; /* standard deviation */
} sw_rt_parameter;

typedef struct sw_rt_bucket {
  int64_t offset;   /* elements, from the start of the layer block */
  int64_t elements; /* padded to zero degree * 128 */
  uint32_t extra_reduce_axes; /* all-reduced before the data axis */
  uint32_t decay;             /* 1 if weight decay applies */
} sw_rt_bucket;

typedef struct sw_rt_block {
  int64_t elements;
  int32_t num_parameters, num_buckets;
  const sw_rt_parameter *parameters;
  const sw_rt_bucket *buckets;
} sw_rt_block;

typedef struct sw_rt_kind {
  const char *name; /* kind and policy, "dense.none" */
  sw_rt_function forward, data_grad, weight_grad; /* null if empty */
  sw_rt_block block;
  int64_t saved_bytes; /* of one layer and microbatch, without the stream */
} sw_rt_kind;

/* `count` consecutive layers of one kind. */
typedef struct sw_rt_run {
  int32_t kind;
  int32_t count;
  int64_t first_layer; /* layer number of the first, for `{}` */
} sw_rt_run;

/* Same order as cost::ActionKind. */
typedef enum sw_rt_action_kind {
  SW_RT_ACT_FORWARD = 0, SW_RT_ACT_BACKWARD_DATA = 1,
  SW_RT_ACT_BACKWARD_WEIGHT = 2, SW_RT_ACT_SEND_FORWARD = 3,
  SW_RT_ACT_RECV_FORWARD = 4, SW_RT_ACT_SEND_BACKWARD = 5,
  SW_RT_ACT_RECV_BACKWARD = 6, SW_RT_ACT_REDUCE = 7, SW_RT_ACT_STEP = 8,
} sw_rt_action_kind;

/* The tables say which buffers an action works on and who is at the other end
 * of a transfer: the runtime knows no schedule. The order of the tables of all
 * stages is free of deadlock if every send waits for its receive, and transfers
 * between two stages, of streams and of gradients, stand in one order at both.
 * -1: none. */
typedef struct sw_rt_action {
  int32_t kind;
  int32_t chunk;
  int32_t microbatch;
  int32_t slot;   /* of the chunk: forward, backward, recv_forward */
  int32_t takes;  /* buffer of p2p that it reads: sends; backward_data, but that
                     of the model's last layer, the gradient that arrived; a
                     forward whose stream the chunk before left on this stage */
  int32_t leaves; /* buffer of p2p that it writes: recv_backward; forward, but
                     that of the model's last layer; backward_data, but that of
                     its first */
  int32_t peer;   /* stage at the other end of a transfer */
  int32_t reserved;
} sw_rt_action;

/* Arena of one stage: byte offsets of its parts. Parameters, gradients and
 * optimizer hold the layer blocks of the runs of all chunks one after the
 * other, then the shared block; optimizer is master, then m, then v, each
 * `optimizer_elements` long. Slots hold those of each chunk; chunks whose slots
 * are of one size share them. A slot holds, per layer of the chunk in order,
 * the stream that enters (stream_bytes, aligned 256) and the saved values. p2p
 * holds buffers of one stream, aligned 256, with the numbers that actions
 * name. */
typedef struct sw_rt_arena {
  int64_t parameters, gradients, optimizer, slots, p2p, comm, workspace, total;
  int64_t parameters_bytes, gradients_bytes, optimizer_bytes, slots_bytes,
      p2p_bytes, comm_bytes, workspace_bytes;
  int64_t elements;           /* of parameters incl. shared block */
  int64_t optimizer_elements; /* elements / zero degree */
  int64_t gradient_stream;    /* offset in workspace of two stream buffers */
} sw_rt_arena;

/* Consecutive layers that a microbatch passes in one action. A stage has
 * several chunks under schedules of virtual stages; the layers between two of
 * its chunks are on other stages. */
typedef struct sw_rt_chunk {
  int32_t num_runs, num_slots;
  const sw_rt_run *runs;
  int64_t first_slot; /* offset of its slots in the slots of the arena; the same
                         of chunks that share theirs, as is num_slots */
  int64_t slot_bytes; /* of one */
  int32_t position;   /* among the chunks of all stages, in the model's order */
  int32_t reserved;
} sw_rt_chunk;

typedef struct sw_rt_stage {
  int32_t num_chunks, num_actions;
  const sw_rt_chunk *chunks;
  const sw_rt_action *actions;
  sw_rt_block shared;      /* shared parameters on this stage, maybe empty */
  uint32_t shared_owners;  /* bit i: stage i owns the shared block too */
  uint32_t reserved;
  sw_rt_arena arena;
} sw_rt_stage;

typedef struct sw_rt_axis {
  const char *name;
  int64_t size;
} sw_rt_axis;

typedef struct sw_rt_program {
  uint32_t abi_version;
  uint32_t struct_bytes; /* sizeof(sw_rt_program) */
  const char *model;     /* name */
  const char *plan;      /* canonical plan.json text */
  const char *predicted; /* predicted ledgers per stage, JSON text */
  int32_t num_axes, num_stages, num_kinds;
  int32_t pp_axis, dp_axis;
  int32_t zero;          /* 0 or 1 */
  int32_t compute_dtype, param_dtype, grad_dtype, master_dtype, stat_dtype;
  int64_t vocab;         /* unpadded */
  int64_t sequence, micro_batch, global_batch, microbatches;
  int64_t stream_elements; /* of one rank: local s * b * h */
  const sw_rt_axis *axes;  /* outer to inner; rank is row-major */
  const sw_rt_kind *kinds;
  const sw_rt_stage *stages;
  sw_rt_update update; /* null if there is device code */
  const sw_rt_device_code *device_code; /* null: runs on the host */
} sw_rt_program;

/* Defined by the generated object. */
extern const sw_rt_program sw_program;

/* main of a compiled program: parses flags, runs ranks, prints. */
int sw_rt_main(const sw_rt_program *program, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif /* SHARDWRIGHT_PROGRAM_H */

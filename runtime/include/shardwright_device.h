/*===- shardwright_device.h - Device code of a compiled program ------------===*\
 *
 * A program for a device is the same object as one for the host: its functions
 * run on the host and call shardwright_rt.h, with addresses that lie in device
 * memory. Only what the compiler generates itself, row kernels and the update,
 * runs on the device: it is carried as PTX text (or cubins beside it) and
 * described by the tables below. A program for the host has none of this.
 *
 * Kernels
 *   Every entry is `.visible .entry`, named by a PTX identifier ([A-Za-z_$] and
 *   digits: no '.'), unique in the program, without `.extern` functions.
 *   A kernel is one or more steps that the runtime launches one after the other
 *   on its compute stream: a step sees all that the steps before it wrote. Sums
 *   over rows are two steps with partial sums in the scratch memory.
 *   All steps of a kernel take the same parameters, 8 bytes each:
 *     .u64 buffer[0] .. buffer[num_buffers - 1]   device addresses
 *     .u64 scratch           device address of scratch_bytes, aligned 256; what
 *                            it holds before the first step is undefined. There
 *                            whether or not the kernel wants any
 *     .u64 position_origin   as in a host kernel: number of the first row's
 *     .u64 column_origin     position, number of the first column of logits
 *   Buffers do not overlap, except that a kernel may write a buffer that it
 *   reads where its host form does. Grids and blocks are one-dimensional and
 *   constants, since shapes are: `grid` blocks of `block` threads, at most 1024.
 *   Results depend on nothing else: no atomics.
 *
 * Update
 *   Entry with parameters, 8 bytes each:
 *     .u64 master, m, v, gradient, parameter      device addresses
 *     .u64 count                                  elements
 *     .u64 scalars                                device address of eight f64,
 *                                                 as in sw_rt_update
 *   master, m and v are of the program's master_dtype, gradient of grad_dtype,
 *   parameter of param_dtype. The runtime launches
 *   ceil(count / elements_per_block) blocks of `block` threads; a block does
 *   elements [i * elements_per_block, (i + 1) * elements_per_block) and checks
 *   count itself. Addresses are aligned to 16 bytes or more.
 *
 * Images
 *   The runtime takes the cubin of the device's own capability, else the PTX of
 *   the highest capability that the device has, and refuses a device below all.
 *   PTX text ends in a zero byte, which `bytes` counts.
 *
\*===----------------------------------------------------------------------===*/
#ifndef SHARDWRIGHT_DEVICE_H
#define SHARDWRIGHT_DEVICE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sw_rt_kernel_step {
  const char *entry;
  uint32_t grid;
  uint32_t block;
  uint32_t shared_bytes; /* dynamic shared memory, up to 48 KiB */
  uint32_t reserved;
} sw_rt_kernel_step;

typedef struct sw_rt_kernel {
  const char *name; /* for traces and messages, "rms_norm.0" */
  int32_t num_buffers;
  int32_t num_steps;
  const sw_rt_kernel_step *steps;
  int64_t scratch_bytes;
} sw_rt_kernel;

typedef struct sw_rt_update_kernel {
  const char *entry;
  uint32_t block;
  uint32_t elements_per_block;
} sw_rt_update_kernel;

typedef enum sw_rt_image_kind {
  SW_RT_IMAGE_PTX = 0,
  SW_RT_IMAGE_CUBIN = 1,
} sw_rt_image_kind;

typedef struct sw_rt_image {
  int32_t kind;       /* sw_rt_image_kind */
  int32_t capability; /* 10 * major + minor: 80, 90, 100 */
  const void *data;
  int64_t bytes;
} sw_rt_image;

struct sw_rt_attention_shape;

/* A call of attention somewhere in the program, so that what it needs can be
 * asked for before anything runs. */
typedef struct sw_rt_attention_use {
  const struct sw_rt_attention_shape *shape;
  int32_t dtype;    /* sw_rt_dtype */
  int32_t backward; /* 0 or 1 */
} sw_rt_attention_use;

typedef struct sw_rt_device_code {
  uint32_t struct_bytes; /* sizeof(sw_rt_device_code) */
  int32_t num_images, num_kernels, num_attentions;
  const sw_rt_image *images;
  /* Every kernel that a function of the program launches. sw_rt_launch takes
   * addresses of elements of this table. */
  const sw_rt_kernel *kernels;
  const sw_rt_attention_use *attentions; /* each once */
  sw_rt_update_kernel update;
} sw_rt_device_code;

#ifdef __cplusplus
}
#endif
#endif /* SHARDWRIGHT_DEVICE_H */

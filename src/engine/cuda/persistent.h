/* Interface of the persistent kernel for DeepSeek-OCR's decoder (persistent.cu). */
#ifndef ENGINE_CUDA_PERSISTENT_H
#define ENGINE_CUDA_PERSISTENT_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/cuda/internal.h"
#include "engine/cuda/persistent_layout.h"
#include "engine/ops/decode.h"

struct cuda_persistent;

/* Stores the weights of the model a second time, in the kernel's order. `buffers`: memory that the kernel
 * shares with the graph. Returns NULL if the kernel cannot be used, and writes the reason to `why`. */
struct cuda_persistent *cuda_persistent_open(struct cuda *c, const struct decode_plan *plan,
                                             const struct persistent_args *buffers, char *why, size_t room);
void cuda_persistent_close(struct cuda_persistent *p);
/* Starts the kernel for this many steps. Returns false if its blocks cannot all run at the same time; the
 * caller then uses the graph. Other failures are reported with cuda_ok(). */
bool cuda_persistent_run(struct cuda_persistent *p, int steps);
/* Requests that the kernel ends after the current step; `stop` false withdraws the request. */
void cuda_persistent_stop(struct cuda_persistent *p, bool stop);
/* Returns true and describes the wait in `to` if the kernel ended because a block waited too long. */
bool cuda_persistent_fault(const struct cuda_persistent *p, char *to, size_t room);
/* Prints the time per step of every phase to stderr: mean, minimum and maximum over the blocks. Prints
 * nothing if times were not measured. */
void cuda_persistent_print_times(struct cuda_persistent *p);
/* Names the times that the kernel stores per step (stamps.c): phase i is from time i to time i + 1. Returns
 * the number of phases; a step has one more time than phases. */
size_t cuda_persistent_phases(const struct cuda_persistent *p, const char *names[DECODE_MOST_SPANS],
                              const char *kernels[DECODE_MOST_SPANS]);

#endif

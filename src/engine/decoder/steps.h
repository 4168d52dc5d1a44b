/* Decoding steps that run entirely on the device (ops/decode.h), if the backend and the model support
 * them. */
#ifndef ENGINE_DECODER_STEPS_H
#define ENGINE_DECODER_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/decoder/decoder.h"
#include "engine/ops/decode.h"

struct decoder_steps;
/* after weights_finish(); NULL: not available */
struct decoder_steps *decoder_steps_open(struct decoder *d, enum decode_path path);
void decoder_steps_close(struct decoder_steps *s); /* accepts NULL */
/* Prepares the steps for the present cache, which is another one after a batch. Returns false if the device
 * failed (ops_check()). */
bool decoder_steps_ready(struct decoder_steps *s);
void decoder_steps_begin(struct decoder_steps *s, const struct decode_start *start); /* after ready() */
int decoder_steps_portion(struct decoder_steps *s); /* steps to submit at once */
void decoder_steps_submit(struct decoder_steps *s, int steps);
void decoder_steps_stop(struct decoder_steps *s); /* discards steps not started yet, if possible */
bool decoder_steps_take(struct decoder_steps *s, uint32_t *token); /* false: see ops_check() */
/* See struct ops_decode_calls. */
size_t decoder_steps_spans(struct decoder_steps *s, struct decode_span **spans);
/* Reads n numbers of a vector of the last step, for tests. */
void decoder_steps_read(struct decoder_steps *s, enum decode_vector which, float *to, size_t n);

/* Steps of n sequences (struct ops_batch_calls). decoder_batch_open() returns `old` if it is still valid for
 * this decoder and n, and otherwise closes it. NULL: not supported, or the device failed (ops_check()). */
struct decoder_batch;
struct decoder_batch *decoder_batch_open(struct decoder_batch *old, struct decoder *d, int n);
void decoder_batch_close(struct decoder_batch *b);
void decoder_batch_begin(struct decoder_batch *b, const uint32_t *tokens, const int *positions);
void decoder_batch_submit(struct decoder_batch *b, int steps);
bool decoder_batch_take(struct decoder_batch *b, uint32_t *tokens);
size_t decoder_batch_spans(struct decoder_batch *b, struct decode_span **spans);

#endif

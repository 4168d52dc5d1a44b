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
void decoder_steps_close(struct decoder_steps *s); /* NULL: nothing */
void decoder_steps_begin(struct decoder_steps *s, const struct decode_start *start);
int decoder_steps_portion(struct decoder_steps *s); /* steps to submit at once */
void decoder_steps_submit(struct decoder_steps *s, int steps);
void decoder_steps_stop(struct decoder_steps *s); /* discards steps not started yet, if possible */
bool decoder_steps_take(struct decoder_steps *s, uint32_t *token); /* false: see ops_check() */
/* See struct ops_decode_calls. */
bool decoder_steps_has_spans(struct decoder_steps *s);
size_t decoder_steps_spans(struct decoder_steps *s, struct decode_span spans[DECODE_MOST_SPANS]);
/* Reads n numbers of a vector of the last step, for tests. */
void decoder_steps_read(struct decoder_steps *s, enum decode_vector which, float *to, size_t n);

#endif

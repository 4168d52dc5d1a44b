/* Decoding steps that run entirely on the device (ops/decode.h), if the backend and the model support
 * them. */
#ifndef ENGINE_DECODER_STEPS_H
#define ENGINE_DECODER_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/decoder/decoder.h"
#include "engine/ops/decode.h"

struct decoder_steps;
struct decoder_steps *decoder_steps_open(struct decoder *d); /* after weights_finish(); NULL: not available */
void decoder_steps_close(struct decoder_steps *s);           /* NULL: nothing */
void decoder_steps_begin(struct decoder_steps *s, const struct decode_start *start);
void decoder_steps_submit(struct decoder_steps *s, int steps);
bool decoder_steps_take(struct decoder_steps *s, uint32_t *token); /* false: see ops_check() */

#endif

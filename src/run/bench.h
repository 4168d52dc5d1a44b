/* Measures the speed of a model by batch size, for prompts of a given length. Needs no tokenizer and no
 * inputs.
 *     struct bench b = { .plan = &plan, .peak = &peak, .prompt_tokens = 512, .new_tokens = 128,
 *                        .batches = v, .nbatches = 3 };
 *     if (bench_run(&b, &err) < 0) ...
 *     ... b.rows[i] ...
 *     bench_free(&b); */
#ifndef RUN_BENCH_H
#define RUN_BENCH_H

#include <stdint.h>

#include "base/err.h"
#include "session/device_peak.h"
#include "session/engine_reply.h"

/* Times are medians over the repeats; NaN: unknown. */
struct bench_row {
    uint64_t batch, prompt_tokens, new_tokens, repeats;
    double prefill_ms, prefill_tokens_per_s, prefill_roof_ms, prefill_mfu, prefill_mbu;
    double step_ms, step_roof_ms, decode_tokens_per_s, decode_roof_tokens_per_s, decode_mfu, decode_mbu;
    double cv; /* of the decode time */
    double peak_memory_bytes;
    char *note; /* missing repeats, or other prompts than requested; NULL: none */
};

struct bench {
    const struct profile_plan *plan;
    const struct device_peak *peak;
    uint64_t prompt_tokens, new_tokens;
    const uint64_t *batches;
    size_t nbatches;
    struct engine_info info; /* set by bench_run() */
    struct bench_row *rows;  /* [nbatches] */
    int interrupted;         /* signal; 0: none */
};

int bench_run(struct bench *b, struct err *err);
void bench_free(struct bench *b);

#endif

/* Untrusted digests of ranks: read, then joined to a job of two ranks. */
#include <stdlib.h>

#include "base/die.h"
#include "fuzz/fuzz.h"
#include "ranks/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    struct rank_digest **pair = xcalloc(2, sizeof *pair);
    struct rank_job job;
    for (int i = 0; i < 2; i++) pair[i] = rank_digest_parse((const char *)data, size, "digest", &err);
    if (!pair[0] || !pair[1]) {
        rank_digest_free(pair[0]);
        rank_digest_free(pair[1]);
        free(pair);
        return 0;
    }
    pair[1]->rank = pair[0]->rank + 1;
    pair[1]->node = "another node";
    job_build(&job, pair, 2, pair[0]->world_size);
    rank_job_free(&job);
    return 0;
}

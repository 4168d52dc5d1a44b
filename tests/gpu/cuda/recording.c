/* What the recording of operators costs: plain and recorded requests in turn, in one process. */
#include "gpu/cuda/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/file.h"
#include "base/stats.h"
#include "base/util.h"
#include "base/vec.h"

enum { PLAIN, RECORDED, WAYS };
enum { PREFILL, DECODE, STAGES }; /* then the stages of an image */
enum { MOST_TIMES = STAGES + ENGINE_MAX_STAGES };

struct times {
    double *v[MOST_TIMES][WAYS]; /* ms, [rounds] */
};

static double time_of(const struct engine_result *r, size_t i) {
    if (i == PREFILL) return r->prefill_ms;
    return i == DECODE ? r->decode_ms : r->stage_ms[i - STAGES];
}
static const char *name_of(const struct engine_result *r, size_t i) {
    return i == PREFILL ? "prefill" : i == DECODE ? "decode" : r->stage[i - STAGES];
}

/* Runs the request of n sequences. Returns the result of the first one, whose times are those of all. The
 * answers must be those of `before`, unless it is NULL. */
static struct engine_result answer(struct engine *e, const struct engine_request *r, size_t n,
                                   const struct engine_result *before) {
    struct engine_result out[MOST_BATCH];
    struct err err;
    if (r->trace) remove(r->trace); /* the engine overwrites no file */
    if (engine_infer(e, r, out, &err) < 0) {
        printf("FAIL %s\n", err.msg);
        exit(1);
    }
    if (before && equal_tokens(before, &out[0]) != before->ids.n) {
        printf("FAIL recording: other tokens%s\n", r->trace ? " when recorded" : "");
        failures++;
    }
    for (size_t i = 1; i < n; i++) engine_result_free(&out[i]);
    return out[0];
}

/* The first request of each way makes buffers and graphs, and does not count. */
static void time_rounds(struct engine *e, struct engine_request *r, const char *trace, size_t rounds) {
    struct times t = { 0 };
    size_t sequences = r->nbatch ? r->nbatch : 1;
    struct engine_result first = answer(e, r, sequences, NULL);
    size_t n = STAGES + first.nstages;
    for (size_t i = 0; i < n; i++)
        for (size_t way = 0; way < WAYS; way++) t.v[i][way] = xcalloc(rounds, sizeof(double));
    for (size_t round = 0; round <= rounds; round++)
        for (size_t way = 0; way < WAYS; way++) {
            r->trace = way == RECORDED ? trace : NULL;
            r->detail = way == RECORDED ? RECORD_OPERATORS : RECORD_NONE;
            struct engine_result out = answer(e, r, sequences, &first);
            for (size_t i = 0; i < n && round > 0; i++) t.v[i][way][round - 1] = time_of(&out, i);
            engine_result_free(&out);
        }
    for (size_t i = 0; i < n; i++) {
        double plain = stats_median(t.v[i][PLAIN], rounds), with = stats_median(t.v[i][RECORDED], rounds);
        printf("%-14s plain %.4f ms, recorded %.4f ms: %+.2f%%\n", name_of(&first, i), plain, with,
               (with / plain - 1) * 100);
        free(t.v[i][PLAIN]);
        free(t.v[i][RECORDED]);
    }
    engine_result_free(&first);
}

void check_recording(const char *config, int prompt, int tokens, int rounds, const char *image, int n) {
    json_t *root = config_load(config);
    char *dir = model_folder(root), *trace = file_join(dir, "operators.ipt");
    const char *kept = getenv("CUDA_CHECK_TRACE");
    uint32_t *ids = xcalloc((size_t)prompt + 1, sizeof *ids);
    struct token_ids prompts[MOST_BATCH] = { { 0 } };
    struct engine *e = open_model(dir, chosen_weights(), GPU, 1, prompt + tokens + 1024);
    struct engine_request r = request_of(root, ids, prompt, tokens, &image);
    n = MIN(n, MOST_BATCH);
    for (int i = 0; i < n && n > 1; i++)
        for (int k = 0; k < prompt; k++) vec_push(&prompts[i], ids[k]);
    if (n > 1) {
        r.ids = NULL;
        r.nids = 0;
        r.batch = prompts;
        r.nbatch = (size_t)n;
    }
    printf("recording %s, %s, %d sequences, %d rounds\n", short_name(config), image ? image : "ids", n,
           rounds);
    time_rounds(e, &r, kept ? kept : trace, (size_t)rounds);
    fflush(stdout);
    remove(trace);
    engine_close(e);
    for (int i = 0; i < n; i++) free(prompts[i].v);
    free(trace);
    free(ids);
    model_folder_free(dir);
    json_decref(root);
}

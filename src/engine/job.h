/* A running request; shared by the files that serve it: generate.c, job_tokens.c, job_prefill.c and
 * job_decode.c. */
#ifndef ENGINE_JOB_H
#define ENGINE_JOB_H

#include "base/clock.h"
#include "engine/internal.h"
#include "engine/prompt.h"
#include "engine/sampling/ngram.h"

/* One sequence of a running request. */
struct sequence {
    struct prompt prompt;
    struct engine_result *out;
    struct sampler *sampler;
    struct ngram *ngram;
    struct token_stream stream;
    uint64_t request; /* number of the sequence; the trace calls it a request */
    bool more;        /* not yet stopped */
};

struct job {
    struct engine *e;
    const struct engine_request *r;
    struct engine_result *out; /* [n] */
    struct sequence *v;        /* [n] */
    int n;
    size_t tokens;             /* total length of all prompts */
    struct tensor *x;          /* [tokens, hidden] */
    struct decoder_rows *rows; /* [n]: the segments of the next pass */
    uint32_t *ids;             /* [n]: the tokens of the next step */
    struct recorder *rec;
    struct vision_times times;
    /* number of tensors that belong to the engine; later tensors belong to the request. 0: not known yet */
    size_t own_tensors;
    enum { STEPS_OF_OPERATORS, STEPS_OF_ONE, STEPS_OF_BATCH } steps; /* the last two run on the device */
    struct err *err;
    int rc;
    struct { /* progress of the current work, in pixels of views or tokens of the prompt */
        const char *what;
        double done;
        uint64_t unit, total; /* unit: size of the current view or part */
    } progress;
};

static inline double job_ms_since(uint64_t start_ns) { return (double)(clock_mono_ns() - start_ns) / 1e6; }

/* ---- job_tokens.c */
int job_ngram_size(const struct job *j); /* 0: no rule */
/* Writes the ids that the n-gram rule never bans. Returns their number: at most 2, and 0 if the rule has no
 * window. */
size_t job_allowed_cells(const struct job *j, uint32_t *cells);
void job_make_samplers(struct job *j, struct sequence *s, uint64_t index);
bool job_is_cancelled(const struct job *j);
void job_report_progress(const struct job *j, const char *what, uint64_t done, uint64_t total);
void job_emit_text(const struct job *j, const struct sequence *s, size_t from);
/* Appends the token and its text to the sequence's result, and decides whether the sequence stops. */
void job_take_token(struct job *j, struct sequence *s, uint32_t id);
/* Downloads one row of logits, picks the sequence's next token and appends it to the result. */
void job_sample_row(struct job *j, struct sequence *s, int row);
/* Ends a pass that began at start_ns and returns its time in ms. With a slowdown factor, first waits until
 * the pass has taken its real time multiplied by the factor. Tests of `compare` need a known slowdown. */
double job_end_pass(const struct engine *e, uint64_t start_ns);
/* Sets the time of a step's tokens and reports progress. stepped[n]: true for sequences with a new token;
 * NULL: all sequences have one. */
void job_stamp_tokens(struct job *j, const bool *stepped, double ms);

/* ---- job_prefill.c, job_decode.c. job_prefill() and job_decode() return false if the request was cancelled
 * before it was complete. After them and job_open_steps(), ops_check() returns whether the device failed. */
bool job_prefill(struct job *j, double *ms);
bool job_any_more(const struct job *j); /* true if at least one sequence has not stopped yet */
/* Prepares the steps that run on the device, if this request can use them. */
void job_open_steps(struct job *j);
bool job_decode(struct job *j);

#endif

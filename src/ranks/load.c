/* Loads a job: reduces the ranks to digests on all processors, then joins them. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/util.h"
#include "ranks/inputs.h"
#include "ranks/job.h"
#include "ranks/steps.h"
#include "trace/reader_set.h"

/* Largest number of collectives in memory, over all ranks, when the traces are read directly: about 100 MB.
 * The share of a rank is limited to COLLECTIVES_LEAST..COLLECTIVES_MOST. */
#define COLLECTIVES_IN_MEMORY (2u << 20)
#define COLLECTIVES_LEAST 1024
#define COLLECTIVES_MOST 65536
/* Largest number of kernels in memory for the lanes, over all ranks: 100 MB. */
#define KERNELS_IN_MEMORY (4u << 20)

/* State shared by the threads that reduce ranks to digests. */
struct digest_work {
    struct rank_inputs *in;
    struct rank_digest **digests; /* [in->n]; NULL: failed */
    struct digest_limits limits;
    pthread_mutex_t lock; /* protects the fields below */
    size_t done;
    struct strlist warnings;
};

/* Finds the traces of a digest: in ../trace/ next to the digest's folder, else at the recorded path. Traces
 * that do not exist are removed from the list. */
static void resolve_traces(struct rank_digest *d) {
    const char **found = digest_alloc(d, d->ntraces, sizeof *found);
    size_t n = 0, folder_bytes = (size_t)(file_basename(d->path) - d->path);
    for (size_t i = 0; i < d->ntraces; i++) {
        char *beside = xasprintf("%.*s../trace/%s", (int)folder_bytes, d->path, file_basename(d->traces[i]));
        if (file_exists(beside))
            found[n++] = digest_text(d, beside);
        else if (file_exists(d->traces[i]))
            found[n++] = d->traces[i];
        free(beside);
    }
    d->traces = found;
    d->ntraces = n;
}

static void reduce_rank(void *arg, size_t i) {
    struct digest_work *w = arg;
    struct rank_input *r = &w->in->v[i];
    struct err err;
    struct rank_digest *d = r->loaded;
    r->loaded = NULL;
    if (d)
        resolve_traces(d);
    else
        d = rank_digest_make((const char *const *)r->traces.v, r->traces.n, &w->limits, &err);
    pthread_mutex_lock(&w->lock);
    w->digests[i] = d;
    if (!d) strlist_add(&w->warnings, "%s", err.msg);
    progress_update(++w->done);
    pthread_mutex_unlock(&w->lock);
}

static size_t collectives_per_rank(size_t ranks) {
    return MAX(COLLECTIVES_LEAST, MIN(COLLECTIVES_MOST, COLLECTIVES_IN_MEMORY / ranks));
}

/* Makes malloc() map blocks of 1 MB or more, so that free() returns them to the system. By default, glibc
 * keeps freed blocks of up to 32 MB. Measured with 8 ranks of a million kernels on 2 threads: 139 MB per
 * thread instead of 184 MB, in the same CPU time. */
static void return_freed_blocks(void) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

/* Compares the ranks. If a clock was stepped, removes the step and compares them again. */
static void build_without_steps(struct rank_job *job, struct rank_digest **digests, size_t n,
                                const struct digest_work *w) {
    const struct rank_options *o = w->limits.options;
    job_build(job, digests, n, w->in->world_size);
    struct rank_digest **again = xmalloc((n + 1) * sizeof *again);
    memcpy(again, digests, n * sizeof *again);
    if (clock_steps_remove(job, again, &w->limits, o ? o->threads : 0)) {
        memset(digests, 0, n * sizeof *digests);
        rank_job_free(job);
        job_build(job, again, n, w->in->world_size);
    } else {
        free(again);
    }
}

int rank_job_load_inputs(struct rank_job *job, struct rank_inputs *in, const struct rank_options *options,
                         struct err *err) {
    struct digest_work w = {
        .in = in,
        .digests = xcalloc(in->n + 1, sizeof *w.digests),
        .limits = { .options = options,
                    .collectives = collectives_per_rank(in->n),
                    .traces = in->readers,
                    .kept_kernels = options && options->keep_kernels ? KERNELS_IN_MEMORY / in->n : 0 },
        .lock = PTHREAD_MUTEX_INITIALIZER
    };
    *job = (struct rank_job){ 0 };
    return_freed_blocks();
    progress_start("reading ranks", "ranks", in->n);
    parallel_for(in->n, options ? options->threads : 0, reduce_rank, &w);
    progress_finish();
    size_t kept = 0;
    for (size_t i = 0; i < in->n; i++)
        if (w.digests[i]) w.digests[kept++] = w.digests[i];
    int rc = 0;
    if (kept) {
        build_without_steps(job, w.digests, kept, &w);
        for (size_t i = 0; i < in->warnings.n; i++) job_warning(job, "%s", in->warnings.v[i]);
        for (size_t i = 0; i < w.warnings.n; i++) job_warning(job, "%s", w.warnings.v[i]);
        job->warnings = (const char *const *)job_owner(job)->warnings.v;
        job->nwarnings = job_owner(job)->warnings.n;
    } else {
        rc = err_set(err, "%s", w.warnings.n ? w.warnings.v[0] : "no rank could be read");
        free(w.digests);
    }
    strlist_free(&w.warnings);
    return rc;
}

int rank_job_load(struct rank_job *job, const char *const *operands, size_t n,
                  const struct rank_options *options, struct err *err) {
    struct rank_filter filter = { .threads = options ? options->threads : 0, .readers = trace_set_new() };
    struct rank_inputs in;
    *job = (struct rank_job){ 0 };
    int rc = rank_inputs_find(&in, operands, n, &filter, err);
    if (rc == 0) {
        rc = rank_job_load_inputs(job, &in, options, err);
        rank_inputs_free(&in);
    }
    trace_set_free(filter.readers);
    return rc;
}

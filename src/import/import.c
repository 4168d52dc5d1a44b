#include "import/import.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "trace/writer.h"

/* Memory of the trace writer. The whole importer then uses less than 256 MiB. */
#define WRITER_MEMORY_BYTES (160ull << 20)

static struct sink *open_sink(const char *trace_path, struct err *err) {
    struct trace_writer_options o = { .memory_bytes = WRITER_MEMORY_BYTES };
    struct trace_writer *w = trace_writer_open(trace_path, &o, err);
    if (!w) return NULL;
    struct sink *sink = xmalloc(sizeof *sink);
    sink_init(sink, w);
    return sink;
}

static int write_end(const struct import_job *job, const struct import_format *f, struct err *err) {
    if (job->rank >= 0) sink_meta(job->sink, "rank", "%lld", (long long)job->rank);
    sink_meta(job->sink, "import.file", "%s", file_basename(job->path));
    return sink_finish(job->sink, f->source, err);
}

static int close_sink(const struct import_job *job, int rc, struct err *err) {
    struct err close_err;
    int close_rc = trace_writer_close(job->sink->writer, &close_err);
    if (close_rc < 0 && rc == 0) {
        *err = close_err;
        rc = err_wrap(err, "%s", job->trace_path);
    }
    sink_free(job->sink);
    free(job->sink);
    if (rc < 0) unlink(job->trace_path);
    return rc;
}

int import_to_trace(const char *path, const struct import_format *f, const char *trace_path,
                    const struct import_options *options, struct import_result *result, struct err *err) {
    struct import_job job = {
        .path = path, .trace_path = trace_path, .progress = options->progress, .rank = -1
    };
    *result = (struct import_result){ .rank = -1 };
    if (!f->read) return err_set(err, "%s: a %s has no timeline", path, f->name);
    job.sink = open_sink(trace_path, err);
    if (!job.sink) return -1;
    int rc = f->read(&job, err);
    if (options->rank >= 0) job.rank = options->rank;
    if (job.rank < 0) job.rank = import_rank_from_name(path);
    if (rc == 0) rc = write_end(&job, f, err);
    memcpy(result->events, job.sink->events, sizeof result->events);
    memcpy(result->problems, job.sink->problems, sizeof result->problems);
    result->rank = job.rank;
    result->read_bytes = job.read_bytes;
    rc = close_sink(&job, rc, err);
    if (job.signal) raise(job.signal); /* now with its default action */
    return rc;
}

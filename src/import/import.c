#include "import/import.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/scratch.h"
#include "base/units.h"
#include "import/kineto.h"
#include "import/nsys.h"
#include "import/source.h"
#include "trace/writer.h"

#define WRITER_MEMORY_BYTES (160ull << 20) /* total with window, caches and blocks: under 256 MiB */
#define COPY_BYTES (1u << 20)
/* Limit of an unpacked database. Real exports shrink to a tenth; gzip can shrink zeros to a thousandth. */
#define INFLATE_MAX_RATIO 100u
#define INFLATE_FREE_BYTES (64ull << 20)

struct job {
    const char *path, *trace_path;
    const struct import_options *options;
    struct import_result *result;
};

static int finish_import(struct job *job, struct sink *sink, const char *source, int rc, struct err *err) {
    if (rc == 0) {
        if (job->options->rank >= 0) job->result->rank = job->options->rank;
        if (job->result->rank < 0) job->result->rank = import_rank_from_name(job->path);
        if (job->result->rank >= 0) sink_meta(sink, "rank", "%lld", (long long)job->result->rank);
        sink_meta(sink, "import.file", "%s", file_basename(job->path));
        rc = sink_finish(sink, source, err);
    }
    memcpy(job->result->events, sink->events, sizeof sink->events);
    memcpy(job->result->problems, sink->problems, sizeof sink->problems);
    struct err close_err;
    int close_rc = trace_writer_close(sink->writer, &close_err);
    if (close_rc < 0 && rc == 0) {
        *err = close_err;
        rc = err_wrap(err, "%s", job->trace_path);
    }
    sink_free(sink);
    free(sink);
    if (rc < 0) unlink(job->trace_path);
    return rc;
}

static struct sink *open_sink(const char *trace_path, struct err *err) {
    struct trace_writer_options o = { .memory_bytes = WRITER_MEMORY_BYTES };
    struct trace_writer *w = trace_writer_open(trace_path, &o, err);
    if (!w) return NULL;
    struct sink *sink = xmalloc(sizeof *sink);
    sink_init(sink, w);
    return sink;
}

static int import_kineto(struct job *job, struct err *err) {
    struct sink *sink = open_sink(job->trace_path, err);
    if (!sink) return -1;
    struct kineto_options o = { .progress = job->options->progress };
    struct kineto_info info;
    int rc = kineto_import(job->path, sink, &o, &info, err);
    job->result->rank = info.rank;
    job->result->read_bytes = info.read_bytes;
    return finish_import(job, sink, "import:kineto", rc, err);
}

/* database: the SQLite file: the input itself, or a converted copy. */
static int import_database(struct job *job, const char *database, struct err *err) {
    struct sink *sink = open_sink(job->trace_path, err);
    if (!sink) return -1;
    int rc = nsys_import(database, job->path, sink, err);
    return finish_import(job, sink, "import:nsys", rc, err);
}

/* A temporary file in the folder of the trace. */
struct temp_file {
    char *path;
    int scratch;
};

static struct temp_file temp_file_make(const struct job *job, const char *ending) {
    struct temp_file h = { .path = xasprintf("%s.%s", job->trace_path, ending) };
    h.scratch = scratch_add(h.path);
    return h;
}

static void temp_file_remove(struct temp_file *h) {
    unlink(h->path);
    scratch_forget(h->scratch);
    free(h->path);
}

/* SQLite needs a seekable file, so a compressed one is first unpacked next to the trace. */
static int inflate_to(struct job *job, struct source *from, const char *to, struct err *err) {
    struct file_atomic f;
    struct stat st;
    uint64_t limit = INFLATE_FREE_BYTES, total = 0;
    if (stat(job->path, &st) == 0) limit += INFLATE_MAX_RATIO * (uint64_t)st.st_size;
    if (file_atomic_open(&f, to, err) < 0) return -1;
    char *buf = xmalloc(COPY_BYTES);
    size_t n;
    while (total <= limit && (n = source_read(from, buf, COPY_BYTES)) > 0 && fwrite(buf, 1, n, f.out) == n) {
        total += n;
        if (job->options->progress) job->options->progress(total, 0);
    }
    free(buf);
    if (total <= limit && !source_problem(from)) return file_atomic_commit(&f, err);
    file_atomic_abort(&f);
    char shown[32];
    if (total > limit)
        return err_set(err,
                       "%s: unpacks to more than %s; if it really is that large, unpack it first (gunzip)",
                       job->path, units_bytes((double)limit, shown, sizeof shown));
    return err_set(err, "%s: %s", job->path, source_problem(from));
}

static int import_nsys(struct job *job, struct err *err) {
    struct source *s = source_open(job->path, err);
    if (!s) return -1;
    if (!source_is_gzip(s)) {
        source_close(s);
        return import_database(job, job->path, err);
    }
    struct temp_file database = temp_file_make(job, "sqlite");
    int rc = inflate_to(job, s, database.path, err);
    source_close(s);
    if (rc == 0) rc = import_database(job, database.path, err);
    temp_file_remove(&database);
    return rc;
}

static int import_nsys_report(struct job *job, struct err *err) {
    struct temp_file database = temp_file_make(job, "sqlite"), log = temp_file_make(job, "log");
    int sig, rc = nsys_export_report(job->path, database.path, log.path, &sig, err);
    if (rc == 0) rc = import_database(job, database.path, err);
    temp_file_remove(&database);
    temp_file_remove(&log);
    if (sig) raise(sig); /* repeat the signal received while nsys ran, now with its default action */
    return rc;
}

int import_to_trace(const char *path, enum import_format f, const char *trace_path,
                    const struct import_options *options, struct import_result *result, struct err *err) {
    struct job job = { path, trace_path, options, result };
    *result = (struct import_result){ .rank = -1 };
    switch (f) {
    case IMPORT_KINETO: return import_kineto(&job, err);
    case IMPORT_NSYS_SQLITE: return import_nsys(&job, err);
    case IMPORT_NSYS_REPORT: return import_nsys_report(&job, err);
    default: return err_set(err, "%s: a %s has no timeline", path, import_format_name(f));
    }
}

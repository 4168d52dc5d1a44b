/* The formats of Nsight Systems: SQLite exports, plain or compressed, and reports. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/scratch.h"
#include "base/units.h"
#include "import/nsys.h"
#include "import/source.h"

#define COPY_BYTES (1u << 20)
/* Maximum size of an unpacked database: INFLATE_FREE_BYTES plus this multiple of the compressed size. Real
 * exports compress by a factor of 10, but zeros by a factor of 1000. */
#define INFLATE_MAX_RATIO 100u
#define INFLATE_FREE_BYTES (64ull << 20)

/* A temporary file next to the trace. */
struct temp_file {
    char *path;
    int scratch;
};

static struct temp_file temp_file_make(const struct import_job *job, const char *ending) {
    struct temp_file h = { .path = xasprintf("%s.%s", job->trace_path, ending) };
    h.scratch = scratch_add(h.path);
    return h;
}

static void temp_file_remove(struct temp_file *h) {
    unlink(h->path);
    scratch_forget(h->scratch);
    free(h->path);
}

/* SQLite needs a seekable file. Fails if the unpacked file is larger than the limit. */
static int inflate_to(struct import_job *job, struct source *from, const char *to, struct err *err) {
    struct file_atomic f;
    struct stat st;
    uint64_t limit = INFLATE_FREE_BYTES, total = 0;
    if (stat(job->path, &st) == 0) limit += INFLATE_MAX_RATIO * (uint64_t)st.st_size;
    if (file_atomic_open(&f, to, err) < 0) return -1;
    char *buf = xmalloc(COPY_BYTES);
    size_t n;
    while (total <= limit && (n = source_read(from, buf, COPY_BYTES)) > 0 && fwrite(buf, 1, n, f.out) == n) {
        total += n;
        if (job->progress) job->progress(total, 0);
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

static int read_sqlite(struct import_job *job, struct err *err) {
    struct source *s = source_open(job->path, err);
    if (!s) return -1;
    if (!source_is_gzip(s)) {
        source_close(s);
        return nsys_import(job->path, job->path, job->sink, err);
    }
    struct temp_file database = temp_file_make(job, "sqlite");
    int rc = inflate_to(job, s, database.path, err);
    source_close(s);
    if (rc == 0) rc = nsys_import(database.path, job->path, job->sink, err);
    temp_file_remove(&database);
    return rc;
}

static int read_report(struct import_job *job, struct err *err) {
    struct temp_file database = temp_file_make(job, "sqlite"), log = temp_file_make(job, "log");
    int rc = nsys_export_report(job->path, database.path, log.path, &job->signal, err);
    if (rc == 0) rc = nsys_import(database.path, job->path, job->sink, err);
    temp_file_remove(&database);
    temp_file_remove(&log);
    return rc;
}

static bool is_sqlite(const struct import_head *h) {
    return h->n >= 16 && memcmp(h->bytes, "SQLite format 3", 16) == 0;
}

static bool is_report(const struct import_head *h) {
    return file_has_ending(h->path, ".nsys-rep") || file_has_ending(h->path, ".qdrep");
}

const struct import_format nsys_sqlite_format = {
    .name = "Nsight Systems SQLite", .source = "import:nsys", .detect = is_sqlite, .read = read_sqlite
};
const struct import_format nsys_report_format = {
    .name = "Nsight Systems report", .source = "import:nsys", .detect = is_report, .read = read_report
};

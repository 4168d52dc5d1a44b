/* The table of formats. */
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "import/import.h"
#include "import/kineto.h"
#include "import/ncu.h"
#include "import/nsys.h"
#include "import/nsys_summary.h"
#include "import/source.h"
#include "trace/layout.h"

static bool is_trace(const struct import_head *h) {
    return h->n >= 8 && memcmp(h->bytes, TRACE_MAGIC, 8) == 0;
}

const struct import_format import_trace_format = { .name = "inferprof trace", .detect = is_trace };

/* The first format that recognises the file is used. */
static const struct import_format *const formats[] = {
    &import_trace_format, &nsys_sqlite_format, &nsys_report_format,
    &kineto_format,       &ncu_format,         &nsys_summary_format,
};

static size_t read_head(struct source *s, char *buf, size_t cap) {
    size_t n = 0, got;
    while (n < cap && (got = source_read(s, buf + n, cap - n)) > 0) n += got;
    return n;
}

const struct import_format *import_detect_head(const char *path, const char *head, size_t n) {
    struct import_head h = { path, head, n, head };
    if (n >= 3 && memcmp(h.text, "\xef\xbb\xbf", 3) == 0) h.text += 3;
    h.text += strspn(h.text, " \t\r\n");
    for (size_t i = 0; i < COUNTOF(formats); i++)
        if (formats[i]->detect(&h)) return formats[i];
    return NULL;
}

static void set_unknown(struct err *err, const char *path, const char *problem) {
    struct strbuf known = STRBUF_INIT;
    for (size_t i = 0; i < COUNTOF(formats); i++)
        strbuf_addf(&known, "%s%s", i ? ", " : "", formats[i]->name);
    err_set(err, "%s: %s; known formats, plain or gzip: %s", path, problem, known.buf);
    strbuf_free(&known);
}

const struct import_format *import_detect(const char *path, struct err *err) {
    struct source *s = source_open(path, err);
    if (!s) return NULL;
    static char head[IMPORT_HEAD_BYTES + 1];
    size_t n = read_head(s, head, IMPORT_HEAD_BYTES);
    head[n] = 0;
    const char *problem = source_problem(s);
    const struct import_format *f = n ? import_detect_head(path, head, n) : NULL;
    if (!f) set_unknown(err, path, n ? "unknown format" : problem ? problem : "the file is empty");
    source_close(s);
    return f;
}

int64_t import_rank_from_name(const char *path) {
    const char *p = file_basename(path), *hit;
    int64_t rank = -1;
    while ((hit = strcasestr(p, "rank"))) {
        p = hit + 4;
        const char *digits = p + (*p == '-' || *p == '_' || *p == '.');
        if (*digits < '0' || *digits > '9') continue;
        for (rank = 0; *digits >= '0' && *digits <= '9' && rank < 1 << 20; digits++)
            rank = rank * 10 + (*digits - '0');
        break;
    }
    return rank;
}

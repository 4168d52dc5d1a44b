/* Detects the format of a file from its first bytes. */
#include <string.h>

#include "base/file.h"
#include "base/util.h"
#include "import/import.h"
#include "import/source.h"
#include "trace/layout.h"

const char *import_format_name(enum import_format f) {
    static const char *const names[] = {
        [IMPORT_UNKNOWN] = "unknown",
        [IMPORT_TRACE] = "inferprof trace",
        [IMPORT_KINETO] = "torch.profiler (Kineto) JSON",
        [IMPORT_NSYS_SQLITE] = "Nsight Systems SQLite",
        [IMPORT_NSYS_REPORT] = "Nsight Systems report",
        [IMPORT_NSYS_SUMMARY] = "Nsight Systems summary CSV",
        [IMPORT_NCU_CSV] = "Nsight Compute CSV",
    };
    return names[f];
}

bool import_is_timeline(enum import_format f) {
    return f == IMPORT_KINETO || f == IMPORT_NSYS_SQLITE || f == IMPORT_NSYS_REPORT;
}

static size_t read_head(struct source *s, char *buf, size_t cap) {
    size_t n = 0, got;
    while (n < cap && (got = source_read(s, buf + n, cap - n)) > 0) n += got;
    return n;
}

enum import_format import_detect_head(const char *path, const char *head, size_t n) {
    if (n >= 8 && memcmp(head, TRACE_MAGIC, 8) == 0) return IMPORT_TRACE;
    if (n >= 16 && memcmp(head, "SQLite format 3", 16) == 0) return IMPORT_NSYS_SQLITE;
    if (file_has_ending(path, ".nsys-rep") || file_has_ending(path, ".qdrep")) return IMPORT_NSYS_REPORT;
    const char *p = head;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;
    p += strspn(p, " \t\r\n");
    if (*p == '{' || *p == '[') return IMPORT_KINETO;
    if (strstr(head, "Kernel Name") && (strstr(head, "Metric Name") || strstr(head, "__")))
        return IMPORT_NCU_CSV;
    if (strstr(head, "Total Time") &&
        (strstr(head, "Instances") || strstr(head, "Num Calls") || strstr(head, "Count")))
        return IMPORT_NSYS_SUMMARY;
    return IMPORT_UNKNOWN;
}

enum import_format import_detect(const char *path, struct err *err) {
    static const char *const known =
        "expected torch.profiler JSON (.json, .json.gz), an Nsight Systems SQLite export or "
        "summary CSV, an Nsight Compute CSV, or an inferprof trace";
    struct source *s = source_open(path, err);
    if (!s) return IMPORT_UNKNOWN;
    static char head[IMPORT_HEAD_BYTES + 1];
    size_t n = read_head(s, head, IMPORT_HEAD_BYTES);
    head[n] = 0;
    const char *problem = source_problem(s);
    enum import_format f = import_detect_head(path, head, n);
    if (n == 0)
        err_set(err, "%s: %s; %s", path, problem ? problem : "the file is empty", known);
    else if (f == IMPORT_UNKNOWN)
        err_set(err, "%s: unknown format; %s", path, known);
    source_close(s);
    return n ? f : IMPORT_UNKNOWN;
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

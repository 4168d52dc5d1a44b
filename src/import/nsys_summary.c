#include "import/nsys_summary.h"

#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "import/csv.h"

#define SUMMARY_BYTES_MAX (256u << 20)

/* The heading contains the unit, which `nsys stats --timeunit` selects. -1: no such column. */
static int time_column(const struct csv *c, double *to_ns) {
    static const struct {
        const char *head;
        double ns;
    } heads[] = { { "Total Time (ns)", 1 },     { "Total Time (us)", 1e3 },  { "Total Time (ms)", 1e6 },
                  { "Total Time (s)", 1e9 },    { "Total Time (nsec)", 1 },  { "Total Time (usec)", 1e3 },
                  { "Total Time (msec)", 1e6 }, { "Total Time (sec)", 1e9 }, { "Total Time", 1 } };
    for (size_t i = 0; i < COUNTOF(heads); i++) {
        int at = csv_find(c, heads[i].head);
        *to_ns = heads[i].ns;
        if (at >= 0) return at;
    }
    return -1;
}

int nsys_summary_read_text(char *text, size_t len, const char *name, import_sum_fn *row, void *ctx,
                           uint64_t *bad_rows, struct err *err) {
    struct csv c;
    double to_ns = 1, total, calls;
    int time = -1, count = -1, label = -1;
    csv_open(&c, text, len);
    while (time < 0 && csv_next(&c)) { /* skip messages before the heading */
        time = time_column(&c, &to_ns);
        count = csv_find(&c, "Instances");
        label = csv_find(&c, "Name");
    }
    if (time < 0 || count < 0 || label < 0) {
        csv_free(&c);
        return err_set(
            err,
            "%s: a summary without kernels; expected the columns Total Time, Instances and Name of "
            "`nsys stats --report cuda_gpu_kern_sum --format csv`",
            name);
    }
    while (csv_next(&c)) {
        const struct csv_field *f = csv_at(&c, label);
        if (!csv_number(csv_at(&c, time), &total) || !csv_number(csv_at(&c, count), &calls) || total < 0 ||
            calls < 0 || total * to_ns > 1e18 || calls > 1e15 || !f->n)
            ++*bad_rows;
        else
            row(ctx, f->p, f->n, (uint64_t)calls, (uint64_t)(total * to_ns + 0.5));
    }
    csv_free(&c);
    return 0;
}

static int read_sums(const char *path, import_sum_fn *row, void *ctx, uint64_t *bad_rows, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    int rc = file_read(path, SUMMARY_BYTES_MAX, &text, err);
    if (rc == 0) rc = nsys_summary_read_text(text.buf, text.len, path, row, ctx, bad_rows, err);
    strbuf_free(&text);
    return rc;
}

static bool is_summary(const struct import_head *h) {
    return strstr(h->bytes, "Total Time") &&
           (strstr(h->bytes, "Instances") || strstr(h->bytes, "Num Calls") || strstr(h->bytes, "Count"));
}

const struct import_format nsys_summary_format = { .name = "Nsight Systems summary CSV",
                                                   .detect = is_summary,
                                                   .read_sums = read_sums };

/* A flame graph, drawn downwards: each call is a rectangle below its caller. Its width shows its time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/html.h"
#include "base/svg.h"
#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"

#define ROW 18.0
#define MAX_ROWS 64
#define LEAST_WIDTH 0.8 /* narrower calls are omitted */
#define CHAR_WIDTH 7.3  /* for a wide font */

struct flame {
    const struct analysis *a;
    bool device;
    double width, total;
    uint32_t *first, *next; /* [ncalls] child lists; UINT32_MAX: none */
    unsigned rows;
};

static double time_of(const struct flame *f, size_t row) {
    return f->device ? f->a->calls[row].device_total_ns : f->a->calls[row].host_total_ns;
}

static int by_time(const void *x, const void *y, void *context) {
    const struct flame *f = context;
    double a = time_of(f, *(const uint32_t *)x), b = time_of(f, *(const uint32_t *)y);
    if (a != b) return a < b ? 1 : -1;
    return *(const uint32_t *)x < *(const uint32_t *)y ? -1 : 1;
}

static enum kernel_category category_of(const struct flame *f, const char *kernel) {
    for (size_t i = 0; i < f->a->nkernels; i++)
        if (strcmp(f->a->kernels[i].short_name, kernel) == 0) return f->a->kernels[i].category;
    return KERNEL_CATEGORY_OTHER;
}

/* Kernels have the colour of their category, host calls one of three greys by name. */
static void draw_box(const struct flame *f, const struct analysis_call *c, double x, double y, double width,
                     struct strbuf *out) {
    char grey[8];
    if (c->kernel) {
        chart_rect(x, y, width, ROW - 1, chart_category_color(category_of(f, c->name)), NULL, out);
        return;
    }
    snprintf(grey, sizeof grey, "host%u", (unsigned)(hash_bytes(c->name, strlen(c->name)) % 3));
    svg_rect(out, x, y, width, ROW - 1, grey);
}

static void draw_call(const struct flame *f, size_t row, double x, double width, unsigned depth,
                      struct strbuf *out) {
    const struct analysis_call *c = &f->a->calls[row];
    double y = depth * ROW;
    size_t fits = (size_t)fmax(0, (width - 4) / CHAR_WIDTH), len = strlen(c->name);
    strbuf_addstr(out, "<g><title>");
    html_escape(out, c->name);
    strbuf_addf(out, ", %s, %.1f%%", text_ms(time_of(f, row) / 1e6).s, 100 * time_of(f, row) / f->total);
    strbuf_addstr(out, "</title>");
    draw_box(f, c, x, y, fmax(width - 0.4, 0.4), out);
    if (fits >= 4) {
        char shown[160];
        snprintf(shown, sizeof shown, "%.*s%s", (int)MIN(fits - (len > fits ? 2 : 0), sizeof shown - 4),
                 c->name, len > fits ? "…" : "");
        svg_text(out, x + 3, y + 13, SVG_START, c->kernel ? "on ink" : "on", shown);
    }
    strbuf_addstr(out, "</g>\n");
}

/* The longest child is on the left. */
static void draw_below(struct flame *f, size_t row, double x, unsigned depth, struct strbuf *out) {
    size_t n = 0;
    if (depth >= MAX_ROWS) return;
    for (uint32_t c = f->first[row]; c != UINT32_MAX; c = f->next[c]) n++;
    uint32_t *sorted = xcalloc(n + 1, sizeof *sorted);
    n = 0;
    for (uint32_t c = f->first[row]; c != UINT32_MAX; c = f->next[c]) sorted[n++] = c;
    qsort_r(sorted, n, sizeof *sorted, by_time, f);
    for (size_t i = 0; i < n; i++) {
        double width = time_of(f, sorted[i]) / f->total * f->width;
        if (!(width >= LEAST_WIDTH)) break;
        if (out) draw_call(f, sorted[i], x, width, depth, out);
        f->rows = MAX(f->rows, depth + 1);
        draw_below(f, sorted[i], x, depth + 1, out);
        x += width;
    }
    free(sorted);
}

bool chart_flame(const struct view *v, const struct chart_form *form, struct strbuf *out) {
    const struct analysis *a = v->a;
    if (!a || a->ncalls < 2) return false;
    struct flame f = { .a = a, .device = a->calls[0].device_total_ns > 0, .width = form->width };
    f.total = time_of(&f, 0);
    if (!(f.total > 0)) return false;
    f.first = xmalloc(a->ncalls * sizeof *f.first);
    f.next = xmalloc(a->ncalls * sizeof *f.next);
    memset(f.first, 0xff, a->ncalls * sizeof *f.first);
    for (size_t i = a->ncalls; i-- > 1;) {
        f.next[i] = f.first[a->calls[i].parent];
        f.first[a->calls[i].parent] = (uint32_t)i;
    }
    draw_below(&f, 0, 0, 0, NULL); /* NULL: only counts the rows */
    if (f.rows) {
        chart_open(form, f.rows * ROW, f.device ? "Device time by call path" : "Host time by call path", out);
        draw_below(&f, 0, 0, 0, out);
        svg_close(out);
    }
    free(f.first);
    free(f.next);
    return f.rows > 0;
}

#include "analyze/sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/vec.h"

void sums_init(struct sums *s) {
    *s = (struct sums){ .kernel_names = intern_open(), .count_names = intern_open() };
}

void sums_free(struct sums *s) {
    free(s->kernels.v);
    free(s->events.v);
    free(s->problems.v);
    if (s->kernel_names) intern_close(s->kernel_names);
    if (s->count_names) intern_close(s->count_names);
    *s = (struct sums){ 0 };
}

void sums_add_kernel(struct sums *s, const char *name, size_t len, uint64_t calls, uint64_t total_ns) {
    uint32_t row = intern_id(s->kernel_names, name, len);
    if (row == s->kernels.n)
        vec_push(&s->kernels, ((struct sums_kernel){ .name = intern_text(s->kernel_names, row) }));
    s->kernels.v[row].calls += calls;
    s->kernels.v[row].total_ns += total_ns;
    s->kernel_calls += calls;
    s->kernel_ns += total_ns;
}

static void add_count(struct sums *s, struct sums_counts *counts, const char *name, uint64_t count) {
    if (!count) return;
    const char *kept = intern_text(s->count_names, intern_str(s->count_names, name));
    for (size_t i = 0; i < counts->n; i++)
        if (counts->v[i].name == kept) {
            counts->v[i].count += count;
            return;
        }
    vec_push(counts, ((struct sums_count){ kept, count }));
}

void sums_add_event(struct sums *s, const char *name, uint64_t count) {
    add_count(s, &s->events, name, count);
}

void sums_add_problem(struct sums *s, const char *name, uint64_t count) {
    add_count(s, &s->problems, name, count);
}

void sums_add_all(struct sums *into, const struct sums *from) {
    for (size_t i = 0; i < from->kernels.n; i++) {
        const struct sums_kernel *k = &from->kernels.v[i];
        sums_add_kernel(into, k->name, strlen(k->name), k->calls, k->total_ns);
    }
    for (size_t i = 0; i < from->events.n; i++)
        sums_add_event(into, from->events.v[i].name, from->events.v[i].count);
    for (size_t i = 0; i < from->problems.n; i++)
        sums_add_problem(into, from->problems.v[i].name, from->problems.v[i].count);
}

static int kernel_order(const void *pa, const void *pb) {
    const struct sums_kernel *a = pa, *b = pb;
    if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int count_order(const void *pa, const void *pb) {
    const struct sums_count *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

static double ratio(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : NAN; }

void sums_sort(struct sums *s) {
    for (size_t i = 0; i < s->kernels.n; i++) {
        struct sums_kernel *k = &s->kernels.v[i];
        k->mean_ns = ratio(k->total_ns, k->calls);
        k->share = ratio(k->total_ns, s->kernel_ns);
    }
    if (s->kernels.n) qsort(s->kernels.v, s->kernels.n, sizeof *s->kernels.v, kernel_order);
    if (s->events.n) qsort(s->events.v, s->events.n, sizeof *s->events.v, count_order);
    if (s->problems.n) qsort(s->problems.v, s->problems.n, sizeof *s->problems.v, count_order);
}

void sums_add_row(void *sums, const char *name, size_t len, uint64_t calls, uint64_t total_ns) {
    sums_add_kernel(sums, name, len, calls, total_ns);
    sums_add_event(sums, "kernel", calls);
}

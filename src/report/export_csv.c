/* One CSV a record kind, with what the analysis knows of each record beside it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/table.h"
#include "report/export.h"
#include "report/text.h"
#include "report/view.h"

#define FLUSH_ROWS 4096 /* tables hold their cells as texts: written and emptied this often */

struct csv {
    struct export_job *x;
    struct file_atomic f;
    struct table t;
    bool headed;
};

static void csv_flush(struct csv *c, bool all) {
    if (!all && table_rows(&c->t) < FLUSH_ROWS) return;
    struct strbuf s = STRBUF_INIT;
    table_csv(&c->t, &s);
    size_t skip = 0; /* the heads, when they are in the file already */
    while (c->headed && skip < s.len && s.buf[skip++] != '\n') {}
    fwrite(s.buf + skip, 1, s.len - skip, c->f.out);
    c->headed = true;
    strbuf_free(&s);
    for (size_t i = 0; i < c->t.cells.n; i++) free(c->t.cells.v[i]);
    c->t.cells.n = 0;
}

static void num(struct csv *c, uint64_t v) { table_cell(&c->t, "%" PRIu64, v); }
static void str(struct csv *c, const char *s) { table_cell(&c->t, "%s", s); }
static void text(struct csv *c, uint32_t id) { str(c, timeline_text(c->x->tl, id)); }

static void row_end(struct csv *c) {
    c->x->written++;
    csv_flush(c, false);
}

static void times(struct csv *c, uint64_t start, uint64_t end) {
    num(c, start);
    num(c, end);
    num(c, end - start);
}

static void range_name(struct csv *c, uint32_t range) {
    str(c, range == TIMELINE_NONE ? "" : timeline_text(c->x->tl, c->x->tl->ranges.name[range]));
}

static void kernels(struct csv *c) {
    const struct timeline *tl = c->x->tl;
    const struct analysis *a = c->x->a;
    for (size_t i = 0; i < tl->kernels.n; i++) {
        if (!export_has(c->x, tl->kernels.start_ns[i], tl->kernels.end_ns[i])) continue;
        const struct timeline_shape *s = &tl->shapes[tl->kernels.shape[i]];
        const struct timeline_lane *l = &tl->lanes[tl->kernels.lane[i]];
        const struct analysis_kernel *k = &a->kernels[a->shape_kernel[tl->kernels.shape[i]]];
        uint32_t o = a->kernel_occurrence ? a->kernel_occurrence[i] : ANALYSIS_NONE;
        const char *stage = o == ANALYSIS_NONE ? NULL : view_stage_name(a, a->occurrences[o].stage);
        times(c, tl->kernels.start_ns[i], tl->kernels.end_ns[i]);
        num(c, s->device);
        num(c, l->context);
        num(c, l->stream);
        num(c, tl->kernels.launch[i] == TIMELINE_NONE ? 0 : (uint64_t)tl->kernels.launch[i] + 1);
        str(c, k->name);
        str(c, k->short_name);
        str(c, kernel_category_name(k->category));
        str(c, kernel_library_name(k->library));
        str(c, stage ? stage : "");
        range_name(c, tl->kernels.range[i]);
        for (int d = 0; d < 3; d++) num(c, s->grid[d]);
        for (int d = 0; d < 3; d++) num(c, s->block[d]);
        num(c, s->registers);
        num(c, s->static_smem_bytes);
        num(c, s->dynamic_smem_bytes);
        num(c, tl->kernels.graph ? tl->kernels.graph[i] : 0);
        row_end(c);
    }
}

static void copies(struct csv *c) {
    const struct timeline_copies *k = &c->x->tl->copies;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has(c->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_lane *l = &c->x->tl->lanes[k->lane[i]];
        times(c, k->start_ns[i], k->end_ns[i]);
        num(c, l->device);
        num(c, l->stream);
        num(c, k->launch[i] == TIMELINE_NONE ? 0 : (uint64_t)k->launch[i] + 1);
        str(c, export_copy_name(k->kind[i]));
        num(c, k->bytes[i]);
        range_name(c, k->range[i]);
        row_end(c);
    }
}

static void thread(struct csv *c, uint32_t id) {
    const struct timeline_thread *t = &c->x->tl->threads[id];
    num(c, export_pid(c->x, t->process));
    num(c, t->tid);
}

static void launches(struct csv *c) {
    const struct timeline_launches *k = &c->x->tl->launches;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has_launch(c->x, i)) continue;
        times(c, k->start_ns[i], k->end_ns[i]);
        thread(c, k->thread[i]);
        num(c, i + 1);
        text(c, k->api[i]);
        num(c, k->kernels[i]);
        range_name(c, k->range[i]);
        row_end(c);
    }
}

static void ranges(struct csv *c) {
    const struct timeline_ranges *r = &c->x->tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        if (!export_has(c->x, r->start_ns[i], r->end_ns[i])) continue;
        times(c, r->start_ns[i], r->end_ns[i]);
        thread(c, r->thread[i]);
        str(c, trace_range_category_name(r->category[i]));
        text(c, r->name[i]);
        text(c, r->detail[i]);
        range_name(c, r->parent[i]);
        row_end(c);
    }
}

static void syncs(struct csv *c) {
    const struct timeline_syncs *s = &c->x->tl->syncs;
    for (size_t i = 0; i < s->n; i++) {
        if (!export_has(c->x, s->start_ns[i], s->end_ns[i])) continue;
        times(c, s->start_ns[i], s->end_ns[i]);
        thread(c, s->thread[i]);
        str(c, trace_sync_kind_name(s->kind[i]));
        range_name(c, s->range[i]);
        row_end(c);
    }
}

static void maybe(struct csv *c, uint32_t v, double scale) {
    str(c, v == TRACE_UNKNOWN_U32 ? "" : text_raw(v * scale).s);
}

static void power(struct csv *c) {
    const struct timeline_powers *p = &c->x->tl->powers;
    for (size_t i = 0; i < p->n; i++) {
        if (!export_has(c->x, p->time_ns[i], p->time_ns[i])) continue;
        num(c, p->time_ns[i]);
        num(c, p->device[i]);
        maybe(c, p->power_mw[i], 1e-3);
        maybe(c, p->sm_mhz[i], 1);
        maybe(c, p->memory_mhz[i], 1);
        maybe(c, p->temperature_c[i], 1);
        num(c, p->throttle_reasons[i]);
        row_end(c);
    }
}

static void counters(struct csv *c) {
    const struct timeline_samples *s = &c->x->tl->samples;
    for (size_t i = 0; i < s->n; i++) {
        if (!export_has(c->x, s->start_ns[i], s->end_ns[i])) continue;
        const struct timeline_metric_set *set = &c->x->tl->metric_sets[s->set[i]];
        for (uint32_t m = 0; m < set->n; m++) {
            times(c, s->start_ns[i], s->end_ns[i]);
            num(c, s->device[i]);
            text(c, set->names[m]);
            str(c, text_raw((double)c->x->tl->sample_values[s->first[i] + m]).s);
            row_end(c);
        }
    }
}

static void tokens(struct csv *c) {
    const struct timeline_tokens *t = &c->x->tl->tokens;
    for (size_t i = 0; i < t->n; i++) {
        if (!export_has(c->x, t->time_ns[i], t->time_ns[i])) continue;
        num(c, t->time_ns[i]);
        thread(c, t->thread[i]);
        num(c, t->request[i]);
        str(c, trace_token_kind_name(t->kind[i]));
        num(c, t->count[i]);
        row_end(c);
    }
}

static void gemms(struct csv *c) {
    const struct timeline_gemms *g = &c->x->tl->gemms;
    for (size_t i = 0; i < g->n; i++) {
        const struct trace_gemm *r = &g->v[i];
        if (!export_has(c->x, r->start_ns, r->start_ns)) continue;
        num(c, r->start_ns);
        thread(c, r->thread);
        num(c, g->launch[i] == TIMELINE_NONE ? 0 : (uint64_t)g->launch[i] + 1);
        num(c, r->m);
        num(c, r->n);
        num(c, r->k);
        num(c, r->batch);
        text(c, r->types);
        text(c, r->layout);
        text(c, r->algorithm);
        row_end(c);
    }
}

static const struct {
    const char *file, *heads; /* heads separated by blanks */
    void (*rows)(struct csv *);
} kinds[] = {
    { "kernels.csv",
      "start_ns end_ns duration_ns device context stream correlation name short_name category library stage "
      "range grid_x grid_y "
      "grid_z block_x block_y block_z registers static_smem_bytes dynamic_smem_bytes graph",
      kernels },
    { "copies.csv", "start_ns end_ns duration_ns device stream correlation kind bytes range", copies },
    { "launches.csv", "start_ns end_ns duration_ns pid tid correlation api kernels range", launches },
    { "ranges.csv", "start_ns end_ns duration_ns pid tid category name detail parent", ranges },
    { "syncs.csv", "start_ns end_ns duration_ns pid tid kind range", syncs },
    { "power.csv", "time_ns device watts sm_mhz memory_mhz temperature_c throttle_reasons", power },
    { "counters.csv", "start_ns end_ns duration_ns device metric value", counters },
    { "tokens.csv", "time_ns pid tid request kind count", tokens },
    { "gemms.csv", "start_ns pid tid correlation m n k batch types layout algorithm", gemms },
};

static void add_heads(struct table *t, const char *heads) {
    table_init(t);
    while (*heads) {
        char word[64];
        int n = 0;
        sscanf(heads, "%63s%n", word, &n);
        table_column(t, word, TABLE_LEFT);
        heads += n;
        while (*heads == ' ') heads++;
    }
}

int export_csv(struct export_job *x, const char *dir, struct err *err) {
    bool made = !file_exists(dir);
    int rc = file_mkdirs(dir, err), scratch = rc == 0 && made ? scratch_add(dir) : -1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && rc == 0; i++) {
        struct csv c = { .x = x };
        char *path = file_join(dir, kinds[i].file);
        rc = file_atomic_open(&c.f, path, err);
        free(path);
        if (rc < 0) break;
        add_heads(&c.t, kinds[i].heads);
        kinds[i].rows(&c);
        csv_flush(&c, true);
        table_free(&c.t);
        rc = file_atomic_commit(&c.f, err);
    }
    scratch_forget(scratch);
    if (rc < 0 && made) rmdir(dir); /* spared where a table is in it */
    return rc;
}

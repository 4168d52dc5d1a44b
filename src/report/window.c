/* Chooses the part of the timeline to draw and writes its slices track by track. Start times are
 * delta-encoded, so that a slice takes about a dozen bytes. */
#include "report/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/intern.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "base/util.h"
#include "base/vec.h"
#include "report/charts.h"

#define MAX_ROWS 14   /* per track; deeper slices are omitted */
#define MAX_TRACKS 12 /* of streams, and of threads */
#define MAX_NAME 120
#define MAX_POINTS 2000 /* points per counter */

struct slice {
    uint64_t start_ns, end_ns;
    uint32_t name, owner, detail; /* INTERN_NONE: none */
    int category;                 /* -1: none */
    uint64_t queued_ns;           /* from launch to start; 0: unknown */
    int launch_track;             /* launching thread; -1: not drawn */
};

struct window {
    const struct timeline *tl;
    const struct analysis *a;
    uint64_t from, to;
    size_t total, drawn, too_deep;
    struct intern *names;
    bool used[KERNEL_CATEGORY_END];
    struct {
        struct slice *v;
        size_t n, cap;
    } slices;
    struct strbuf tracks;
    size_t ntracks;
    int *thread_track; /* [nthreads]; -1: none */
    bool whole, has_ops;
    const char *stage;
};

static bool inside(const struct window *w, uint64_t start, uint64_t end) {
    return end >= w->from && start <= w->to;
}

static uint32_t name_id(struct window *w, const char *text) {
    size_t n = strlen(text);
    return intern_id(w->names, text, MIN(n, MAX_NAME));
}

static struct slice *add(struct window *w, uint64_t start, uint64_t end, const char *name, int category) {
    struct slice s = { .start_ns = MAX(start, w->from),
                       .end_ns = MIN(end, w->to),
                       .name = name_id(w, name),
                       .owner = INTERN_NONE,
                       .detail = INTERN_NONE,
                       .category = category,
                       .launch_track = -1 };
    if (category >= 0) w->used[category] = true;
    vec_push(&w->slices, s);
    return &w->slices.v[w->slices.n - 1];
}

static int id_or_none(uint32_t id) { return id == INTERN_NONE ? -1 : (int)id; }

static int by_start(const void *a, const void *b) {
    const struct slice *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    /* Parents first: they are longer. */
    return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static void column(struct strbuf *out, const char *name, const struct slice *s, size_t n, const uint8_t *row,
                   char what) {
    uint64_t before = 0;
    strbuf_addf(out, ",\"%s\":[", name);
    for (size_t i = 0, k = 0; i < n; i++) {
        if (row[i] == UINT8_MAX) continue;
        if (k++) strbuf_addch(out, ',');
        switch (what) {
        case 's':
            strbuf_addf(out, "%" PRIu64, s[i].start_ns - before);
            before = s[i].start_ns;
            break;
        case 'd': strbuf_addf(out, "%" PRIu64, s[i].end_ns - s[i].start_ns); break;
        case 'n': strbuf_addf(out, "%u", s[i].name); break;
        case 'l': strbuf_addf(out, "%u", row[i]); break;
        case 'c': strbuf_addf(out, "%d", s[i].category); break;
        case 'o': strbuf_addf(out, "%d", id_or_none(s[i].owner)); break;
        case 'a': strbuf_addf(out, "%d", id_or_none(s[i].detail)); break;
        case 'q': strbuf_addf(out, "%" PRIu64, s[i].queued_ns); break;
        case 'h': strbuf_addf(out, "%d", s[i].launch_track); break;
        }
    }
    strbuf_addch(out, ']');
}

/* Each slice gets the first free row, so that children are below their parents. UINT8_MAX: no row is free. */
static void stack(struct window *w, uint8_t *row) {
    uint64_t free_at[MAX_ROWS] = { 0 };
    for (size_t i = 0; i < w->slices.n; i++) {
        struct slice *s = &w->slices.v[i];
        size_t r = 0;
        while (r < MAX_ROWS && free_at[r] > s->start_ns) r++;
        row[i] = r < MAX_ROWS ? (uint8_t)r : UINT8_MAX;
        if (r < MAX_ROWS) {
            free_at[r] = MAX(s->end_ns, s->start_ns + 1);
            w->drawn++;
        } else
            w->too_deep++;
    }
}

/* Writes the collected slices as one track, then removes them. */
static void flush_track(struct window *w, const char *label, const char *kind) {
    if (w->slices.n == 0) return;
    struct slice *s = w->slices.v;
    size_t n = w->slices.n;
    qsort(s, n, sizeof *s, by_start);
    for (size_t i = 0; i < n; i++) {
        s[i].start_ns -= w->from;
        s[i].end_ns -= w->from;
    }
    uint8_t *row = xcalloc(n, 1);
    stack(w, row);
    struct strbuf *out = &w->tracks;
    strbuf_addstr(out, w->ntracks++ ? ",\n{\"label\":" : "{\"label\":");
    jsonw_quote(out, label, strlen(label));
    strbuf_addf(out, ",\"kind\":\"%s\"", kind);
    column(out, "s", s, n, row, 's');
    column(out, "d", s, n, row, 'd');
    column(out, "n", s, n, row, 'n');
    column(out, "l", s, n, row, 'l');
    if (strcmp(kind, "gpu") == 0) {
        column(out, "c", s, n, row, 'c');
        column(out, "o", s, n, row, 'o');
        column(out, "a", s, n, row, 'a');
        column(out, "q", s, n, row, 'q');
        column(out, "h", s, n, row, 'h');
    }
    strbuf_addch(out, '}');
    free(row);
    w->slices.n = 0;
}

static void stage_track(struct window *w) {
    for (size_t i = 0; i < w->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &w->a->occurrences[i];
        if (w->a->stages[o->stage].implicit || !inside(w, o->start_ns, o->wall_end_ns)) continue;
        add(w, o->start_ns, o->wall_end_ns, w->a->stages[o->stage].name, -1);
    }
    flush_track(w, "Stages", "stage");
}

struct tally {
    uint32_t id;
    size_t n;
};
static int by_count(const void *a, const void *b) {
    const struct tally *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}
static struct tally *new_tally(size_t n) {
    struct tally *t = xcalloc(n + 1, sizeof *t);
    for (size_t i = 0; i < n; i++) t[i].id = (uint32_t)i;
    return t;
}

static bool is_stage_range(const struct window *w, size_t i) {
    uint32_t o = w->a->range_occurrence ? w->a->range_occurrence[i] : ANALYSIS_NONE;
    return o != ANALYSIS_NONE && w->a->occurrences[o].range == i;
}

/* Python frames ("model.py(12): forward") are not drawn if there are operators, because they would move the
 * operators a dozen rows down. */
static bool is_frame(const struct window *w, size_t i) {
    const char *name = timeline_text(w->tl, w->tl->ranges.name[i]);
    return w->tl->ranges.category[i] == TRACE_CATEGORY_USER && w->has_ops &&
           (strstr(name, ".py(") || strncmp(name, "<built-in", 9) == 0);
}

static bool is_drawn(const struct window *w, size_t i) {
    return inside(w, w->tl->ranges.start_ns[i], w->tl->ranges.end_ns[i]) && !is_stage_range(w, i) &&
           !is_frame(w, i);
}

static void thread_tracks(struct window *w) {
    const struct timeline_ranges *r = &w->tl->ranges;
    struct tally *t = new_tally(w->tl->nthreads);
    for (size_t i = 0; i < r->n; i++) w->has_ops |= r->category[i] == TRACE_CATEGORY_OP;
    for (size_t i = 0; i < r->n; i++)
        if (r->thread[i] < w->tl->nthreads && is_drawn(w, i)) t[r->thread[i]].n++;
    qsort(t, w->tl->nthreads, sizeof *t, by_count);
    for (size_t k = 0; k < MIN(w->tl->nthreads, MAX_TRACKS) && t[k].n; k++) {
        const struct timeline_thread *th = &w->tl->threads[t[k].id];
        for (size_t i = 0; i < r->n; i++)
            if (r->thread[i] == t[k].id && is_drawn(w, i))
                add(w, r->start_ns[i], r->end_ns[i], timeline_text(w->tl, r->name[i]), -1);
        char label[96];
        const char *name = timeline_text(w->tl, th->name);
        snprintf(label, sizeof label, "%s%.60s %u", *name ? "" : "Thread", name, th->tid);
        w->thread_track[t[k].id] = (int)w->ntracks;
        flush_track(w, label, "op");
    }
    free(t);
}

/* Returns the id of the text for the line below the timeline; INTERN_NONE: no text. */
static uint32_t kernel_detail(struct window *w, const struct timeline_shape *s) {
    struct strbuf text = STRBUF_INIT;
    if (s->grid[0])
        strbuf_addf(&text, "grid %u x %u x %u, block %u x %u x %u", s->grid[0], s->grid[1], s->grid[2],
                    s->block[0], s->block[1], s->block[2]);
    if (s->registers) strbuf_addf(&text, ", %u registers", s->registers);
    uint64_t shared = (uint64_t)s->static_smem_bytes + s->dynamic_smem_bytes;
    if (shared) strbuf_addf(&text, ", %s shared memory", text_bytes((double)shared).s);
    uint32_t id = text.len ? name_id(w, text.buf) : INTERN_NONE;
    strbuf_free(&text);
    return id;
}

static void add_launch(const struct window *w, size_t kernel, struct slice *s) {
    uint32_t l = w->tl->kernels.launch[kernel];
    if (l == TIMELINE_NONE || w->tl->launches.start_ns[l] > w->tl->kernels.start_ns[kernel]) return;
    s->queued_ns = w->tl->kernels.start_ns[kernel] - w->tl->launches.start_ns[l];
    uint32_t thread = w->tl->launches.thread[l];
    if (thread < w->tl->nthreads) s->launch_track = w->thread_track[thread];
}

static void add_kernel(struct window *w, size_t i) {
    const struct timeline_kernels *k = &w->tl->kernels;
    const struct analysis_kernel *row = &w->a->kernels[w->a->shape_kernel[k->shape[i]]];
    const char *owner =
        k->range[i] == TIMELINE_NONE ? NULL : timeline_text(w->tl, w->tl->ranges.name[k->range[i]]);
    uint32_t detail = kernel_detail(w, &w->tl->shapes[k->shape[i]]);
    struct slice *s = add(w, k->start_ns[i], k->end_ns[i], row->short_name, (int)row->category);
    s->detail = detail;
    if (owner && *owner) s->owner = name_id(w, owner);
    add_launch(w, i, s);
}

static void add_copy(struct window *w, size_t i) {
    const struct timeline_copies *c = &w->tl->copies;
    char name[64];
    snprintf(name, sizeof name, "%s, %s", trace_copy_kind_description(c->kind[i]),
             text_bytes((double)c->bytes[i]).s);
    add(w, c->start_ns[i], c->end_ns[i], name, KERNEL_CATEGORY_COPY);
}

static void lane_label(const struct timeline *tl, const struct timeline_lane *l, char *out, size_t cap) {
    const char *name = timeline_text(tl, l->name);
    int n = tl->ndevices > 1 ? snprintf(out, cap, "GPU %.30s ", timeline_device_label(tl, l->device)) : 0;
    if (*name)
        snprintf(out + n, cap - (size_t)n, "%.60s", name);
    else if (l->device < tl->ndevices && tl->devices[l->device].is_cpu)
        snprintf(out + n, cap - (size_t)n, "CPU kernels");
    else
        snprintf(out + n, cap - (size_t)n, "Stream %u", l->stream);
}

static void lane_tracks(struct window *w) {
    const struct timeline_kernels *k = &w->tl->kernels;
    const struct timeline_copies *c = &w->tl->copies;
    struct tally *t = new_tally(w->tl->nlanes);
    for (size_t i = 0; i < k->n; i++) t[k->lane[i]].n += inside(w, k->start_ns[i], k->end_ns[i]);
    for (size_t i = 0; i < c->n; i++) t[c->lane[i]].n += inside(w, c->start_ns[i], c->end_ns[i]);
    qsort(t, w->tl->nlanes, sizeof *t, by_count);
    for (size_t j = 0; j < MIN(w->tl->nlanes, MAX_TRACKS) && t[j].n; j++) {
        for (size_t i = 0; i < k->n; i++)
            if (k->lane[i] == t[j].id && inside(w, k->start_ns[i], k->end_ns[i])) add_kernel(w, i);
        for (size_t i = 0; i < c->n; i++)
            if (c->lane[i] == t[j].id && inside(w, c->start_ns[i], c->end_ns[i])) add_copy(w, i);
        char label[96];
        lane_label(w->tl, &w->tl->lanes[t[j].id], label, sizeof label);
        flush_track(w, label, "gpu");
    }
    free(t);
}

/* ---- counters */
struct counter {
    struct strbuf t, v;
    size_t n;
    uint64_t last_ns;
    double most;
};

static void point(const struct window *w, struct counter *c, uint64_t time_ns, double value) {
    uint64_t gap = (w->to - w->from) / MAX_POINTS;
    if (time_ns < w->from || time_ns > w->to || (c->n && time_ns - c->last_ns < gap)) return;
    uint64_t before = c->n ? c->last_ns : w->from;
    strbuf_addf(&c->t, c->n ? ",%" PRIu64 : "%" PRIu64, time_ns - before);
    if (isfinite(value)) {
        strbuf_addf(&c->v, c->n ? ",%.4g" : "%.4g", value);
        c->most = fmax(c->most, value);
    } else
        strbuf_addstr(&c->v, c->n ? ",null" : "null");
    c->last_ns = time_ns;
    c->n++;
}

static void flush_counter(struct counter *c, const char *label, const char *unit, double most, size_t *count,
                          struct strbuf *out) {
    if (c->n >= 2) {
        strbuf_addstr(out, (*count)++ ? ",\n{\"label\":" : "{\"label\":");
        jsonw_quote(out, label, strlen(label));
        strbuf_addf(out, ",\"unit\":\"%s\",\"max\":%.4g,\"t\":[%s],\"v\":[%s]}", unit,
                    most > 0 ? most : c->most, c->t.buf, c->v.buf);
    }
    strbuf_free(&c->t);
    strbuf_free(&c->v);
    *c = (struct counter){ .t = STRBUF_INIT, .v = STRBUF_INIT };
}

/* Readable name and unit. */
struct metric_words {
    const char *prefix, *label, *unit;
    double scale, most; /* upper end of the axis; 0: maximum */
};

static struct metric_words words_of(const char *name) {
    static const struct metric_words known[] = {
        { "sm__cycles_active.", "SM active", "%", 1, 100 },
        { "sm__pipe_tensor_cycles_active.", "Tensor pipes", "%", 1, 100 },
        { "sm__inst_executed_pipe_tensor.", "Tensor pipes", "%", 1, 100 },
        { "sm__inst_executed", "Instructions", "%", 1, 100 },
        { "dram__read_throughput.", "DRAM read", "%", 1, 100 },
        { "dram__write_throughput.", "DRAM write", "%", 1, 100 },
        { "tpc__warps_active_shader_cs_realtime.", "Warps active", "%", 1, 100 },
        { "sm__warps_active.", "Warps active", "%", 1, 100 },
        { "gpc__cycles_elapsed.", "SM clock", "MHz", 1e-6, 0 },
        { "gr__cycles_active.", "GPU active", "%", 1, 100 },
        { "pcie__read_bytes.", "PCIe read", "GB/s", 1e-9, 0 },
        { "pcie__write_bytes.", "PCIe write", "GB/s", 1e-9, 0 },
    };
    for (size_t i = 0; i < COUNTOF(known); i++)
        if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) == 0) return known[i];
    bool percent = strstr(name, "pct") != NULL;
    return (struct metric_words){ name, name, percent ? "%" : "", 1, percent ? 100 : 0 };
}

static void sample_counters(const struct window *w, size_t *count, struct strbuf *out) {
    const struct timeline_samples *s = &w->tl->samples;
    struct counter c = { .t = STRBUF_INIT, .v = STRBUF_INIT };
    for (size_t set = 0; set < w->tl->nmetric_sets; set++)
        for (uint32_t m = 0; m < w->tl->metric_sets[set].n && *count < 8; m++) {
            struct metric_words words = words_of(timeline_text(w->tl, w->tl->metric_sets[set].names[m]));
            for (size_t i = 0; i < s->n; i++)
                if (s->set[i] == set)
                    point(w, &c, s->start_ns[i], words.scale * (double)w->tl->sample_values[s->first[i] + m]);
            flush_counter(&c, words.label, words.unit, words.most, count, out);
        }
}

static void power_counters(const struct window *w, size_t *count, struct strbuf *out) {
    struct counter c = { .t = STRBUF_INIT, .v = STRBUF_INIT };
    for (size_t p = 0; p < w->a->npowers && p < 4; p++) {
        const struct analysis_power *power = &w->a->powers[p];
        const char *device = timeline_device_label(w->tl, power->device);
        char label[48];
        for (size_t i = 0; i < power->n; i++)
            point(w, &c, power->series[i].time_ns, (double)power->series[i].watts);
        snprintf(label, sizeof label, w->a->npowers > 1 ? "Power %.30s" : "Power", device);
        flush_counter(&c, label, "W", 0, count, out);
        for (size_t i = 0; i < power->n; i++)
            point(w, &c, power->series[i].time_ns, (double)power->series[i].sm_mhz);
        snprintf(label, sizeof label, w->a->npowers > 1 ? "SM clock %.30s" : "SM clock", device);
        flush_counter(&c, label, "MHz", 0, count, out);
    }
}

/* ---- the window to draw */
static size_t slices_in(const struct window *w) {
    size_t n = 0;
    for (size_t i = 0; i < w->tl->kernels.n; i++)
        n += inside(w, w->tl->kernels.start_ns[i], w->tl->kernels.end_ns[i]);
    for (size_t i = 0; i < w->tl->copies.n; i++)
        n += inside(w, w->tl->copies.start_ns[i], w->tl->copies.end_ns[i]);
    for (size_t i = 0; i < w->tl->ranges.n; i++)
        n += inside(w, w->tl->ranges.start_ns[i], w->tl->ranges.end_ns[i]);
    return n;
}

uint32_t window_longest_stage(const struct analysis *a) {
    uint32_t best = ANALYSIS_NONE;
    double most = 0;
    for (size_t i = 0; i < a->nstages; i++)
        if (!a->stages[i].outside && a->stages[i].parent == ANALYSIS_NONE &&
            a->stages[i].wall_total_ns > most) {
            most = a->stages[i].wall_total_ns;
            best = (uint32_t)i;
        }
    return best;
}

/* Chooses the typical occurrence of `stage`. ANALYSIS_NONE: the whole trace, or the longest stage if the
 * trace is too large. */
static void choose(struct window *w, uint32_t stage, size_t max_slices) {
    w->from = w->tl->start_ns;
    w->to = MAX(w->tl->end_ns, w->tl->start_ns + 1);
    w->total = slices_in(w);
    w->whole = stage == ANALYSIS_NONE && w->total <= max_slices;
    if (w->whole) return;
    if (stage == ANALYSIS_NONE) stage = window_longest_stage(w->a);
    uint64_t from, to;
    if (stage != ANALYSIS_NONE && analysis_window(w->a, stage, max_slices / 2, &from, &to) && to > from) {
        w->from = from;
        w->to = to;
        w->stage = w->a->stages[stage].name;
    }
    while (slices_in(w) > max_slices && w->to - w->from > 1) w->to = w->from + (w->to - w->from) / 2;
}

static void write_note(const struct window *w, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT;
    if (w->whole)
        strbuf_addf(&note,
                    "Whole trace, %s slices. Ctrl + wheel zooms, drag pans, Shift + drag selects, click pins "
                    "a slice.",
                    text_count(w->drawn).s);
    else
        strbuf_addf(&note, "Window: %s of %s, %s of %s slices%s%s. Use inferprof export for all slices.",
                    text_ms((double)(w->to - w->from) / 1e6).s,
                    text_ms((double)(w->tl->end_ns - w->tl->start_ns) / 1e6).s, text_count(w->drawn).s,
                    text_count(w->total).s, w->stage ? ", the typical occurrence of " : "",
                    w->stage ? w->stage : "");
    if (w->too_deep) strbuf_addf(&note, " %s deeply nested slices are not drawn.", text_count(w->too_deep).s);
    jsonw_quote(out, note.buf, note.len);
    strbuf_free(&note);
}

static void write_categories(const struct window *w, struct strbuf *out) {
    strbuf_addstr(out, ",\"categories\":[");
    for (int c = 0; c < KERNEL_CATEGORY_END; c++)
        strbuf_addf(out, "%s\"%s\"", c ? "," : "", kernel_category_name((enum kernel_category)c));
    strbuf_addstr(out, "],\"colors\":[");
    for (int c = 0; c < KERNEL_CATEGORY_END; c++)
        strbuf_addf(out, "%s%d", c ? "," : "", chart_category_color((enum kernel_category)c));
    strbuf_addstr(out, "],\"used\":[");
    for (int c = 0, k = 0; c < KERNEL_CATEGORY_END; c++)
        if (w->used[c]) strbuf_addf(out, "%s%d", k++ ? "," : "", c);
    strbuf_addstr(out, "],\"names\":[");
    for (uint32_t i = 0; i < intern_count(w->names); i++) {
        if (i) strbuf_addch(out, ',');
        jsonw_quote(out, intern_text(w->names, i), intern_len(w->names, i));
    }
    strbuf_addch(out, ']');
}

bool window_json(const struct view *v, uint32_t stage, size_t max_slices, struct strbuf *out) {
    if (!v->a || !v->a->timeline || v->a->timeline->end_ns <= v->a->timeline->start_ns) return false;
    struct window w = { .tl = v->a->timeline, .a = v->a, .tracks = STRBUF_INIT };
    w.names = intern_open();
    w.thread_track = xcalloc(w.tl->nthreads + 1, sizeof *w.thread_track);
    for (size_t i = 0; i < w.tl->nthreads; i++) w.thread_track[i] = -1;
    choose(&w, stage, max_slices);
    stage_track(&w);
    thread_tracks(&w);
    lane_tracks(&w);
    bool any = w.ntracks > 0;
    if (any) {
        size_t counters = 0;
        strbuf_addf(out, "{\"span\":%" PRIu64 ",\"whole\":%s,\"name\":", w.to - w.from,
                    w.whole ? "true" : "false");
        jsonw_quote(out, w.stage ? w.stage : "", w.stage ? strlen(w.stage) : 0);
        strbuf_addstr(out, ",\"note\":");
        write_note(&w, out);
        write_categories(&w, out);
        strbuf_addf(out, ",\"tracks\":[%s],\"counters\":[", w.tracks.buf);
        sample_counters(&w, &counters, out);
        power_counters(&w, &counters, out);
        strbuf_addstr(out, "]}");
    }
    strbuf_free(&w.tracks);
    free(w.slices.v);
    free(w.thread_track);
    intern_close(w.names);
    return any;
}

/* Chrome trace events with the categories and arguments of PyTorch's profiler, so that tools for its
 * traces can read them. Times are microseconds since baseTimeNanoseconds with three decimals, so nothing
 * is rounded. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "report/export.h"

struct chrome {
    struct export_job *x;
    FILE *out;
    struct strbuf text;
    uint64_t base;
    bool first;
};

static void flush_text(struct chrome *c) {
    fwrite(c->text.buf, 1, c->text.len, c->out);
    strbuf_reset(&c->text);
}

static void add_quoted(struct chrome *c, const char *text) { jsonw_quote(&c->text, text, strlen(text)); }

static void micros(struct chrome *c, const char *key, uint64_t ns) {
    strbuf_addf(&c->text, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

/* Writes {"ph":"X","cat":...,"dur":...,"args":{ without the closing brackets; the caller adds arguments. */
static void slice(struct chrome *c, const char *cat, const char *name, uint64_t pid, uint64_t tid,
                  uint64_t start, uint64_t end) {
    strbuf_addstr(&c->text, c->first ? "\n" : ",\n");
    c->first = false;
    strbuf_addf(&c->text, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", cat);
    add_quoted(c, name);
    strbuf_addf(&c->text, ",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64, pid, tid);
    micros(c, "ts", start - c->base);
    micros(c, "dur", end - start);
    strbuf_addstr(&c->text, ",\"args\":{");
    c->x->written++;
}

static void slice_end(struct chrome *c) {
    strbuf_addstr(&c->text, "}}");
    flush_text(c);
}

static void name_event(struct chrome *c, const char *what, uint64_t pid, uint64_t tid, const char *name) {
    strbuf_addstr(&c->text, c->first ? "\n" : ",\n");
    c->first = false;
    strbuf_addf(&c->text,
                "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"args\":{\"name\":",
                what, pid, tid);
    add_quoted(c, name);
    slice_end(c);
}

/* Writes one end of the arrow from a launch to its kernel or copy. */
static void flow(struct chrome *c, char phase, uint64_t id, uint64_t pid, uint64_t tid, uint64_t at) {
    strbuf_addf(&c->text,
                ",\n{\"ph\":\"%c\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":%" PRIu64 ",\"pid\":%" PRIu64
                ",\"tid\":%" PRIu64,
                phase, id, pid, tid);
    micros(c, "ts", at - c->base);
    strbuf_addstr(&c->text, phase == 'f' ? ",\"bp\":\"e\"}" : "}");
    flush_text(c);
}

static void correlation(struct chrome *c, uint32_t launch) {
    if (launch != TIMELINE_NONE) strbuf_addf(&c->text, ",\"correlation\":%" PRIu64, (uint64_t)launch + 1);
}

static void kernels(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_kernels *k = &tl->kernels;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has(c->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_shape *s = &tl->shapes[k->shape[i]];
        const struct timeline_lane *l = &tl->lanes[k->lane[i]];
        slice(c, "kernel", export_kernel_name(c->x, i), s->device, l->stream, k->start_ns[i], k->end_ns[i]);
        strbuf_addf(&c->text, "\"device\":%u,\"context\":%u,\"stream\":%u", s->device, l->context, l->stream);
        correlation(c, k->launch[i]);
        if (s->grid[0])
            strbuf_addf(&c->text, ",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u]", s->grid[0], s->grid[1],
                        s->grid[2], s->block[0], s->block[1], s->block[2]);
        strbuf_addf(&c->text, ",\"registers per thread\":%u,\"shared memory\":%" PRIu64, s->registers,
                    (uint64_t)s->static_smem_bytes + s->dynamic_smem_bytes);
        if (k->graph && k->graph[i]) strbuf_addf(&c->text, ",\"graph id\":%u", k->graph[i]);
        if (k->graph_node && k->graph_node[i])
            strbuf_addf(&c->text, ",\"graph node id\":%" PRIu64, k->graph_node[i]);
        slice_end(c);
        if (k->launch[i] != TIMELINE_NONE)
            flow(c, 'f', (uint64_t)k->launch[i] + 1, s->device, l->stream, k->start_ns[i]);
    }
}

static void copies(struct chrome *c) {
    const struct timeline_copies *k = &c->x->tl->copies;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has(c->x, k->start_ns[i], k->end_ns[i])) continue;
        const struct timeline_lane *l = &c->x->tl->lanes[k->lane[i]];
        bool set = k->kind[i] == TRACE_COPY_MEMSET;
        char name[64];
        snprintf(name, sizeof name, set ? "Memset (Device)" : "Memcpy %s", export_copy_name(k->kind[i]));
        slice(c, set ? "gpu_memset" : "gpu_memcpy", name, l->device, l->stream, k->start_ns[i], k->end_ns[i]);
        strbuf_addf(&c->text, "\"device\":%u,\"context\":%u,\"stream\":%u,\"bytes\":%" PRIu64, l->device,
                    l->context, l->stream, k->bytes[i]);
        correlation(c, k->launch[i]);
        slice_end(c);
    }
}

static void launches(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_launches *k = &tl->launches;
    for (size_t i = 0; i < k->n; i++) {
        if (!export_has_launch(c->x, i)) continue;
        const struct timeline_thread *t = &tl->threads[k->thread[i]];
        const char *api = timeline_text(tl, k->api[i]);
        bool driver = strncmp(api, "cu", 2) == 0 && strncmp(api, "cuda", 4) != 0;
        uint32_t pid = export_pid(c->x, t->process);
        slice(c, driver ? "cuda_driver" : "cuda_runtime", *api ? api : "launch", pid, t->tid, k->start_ns[i],
              k->end_ns[i]);
        strbuf_addf(&c->text, "\"correlation\":%zu", i + 1);
        slice_end(c);
        if (k->kernels[i]) flow(c, 's', i + 1, pid, t->tid, k->start_ns[i]);
    }
}

static void ranges(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_ranges *r = &tl->ranges;
    for (size_t i = 0; i < r->n; i++) {
        if (!export_has(c->x, r->start_ns[i], r->end_ns[i])) continue;
        const struct timeline_thread *t = &tl->threads[r->thread[i]];
        const char *cat = r->category[i] == TRACE_CATEGORY_OP ? "cpu_op" : "user_annotation";
        slice(c, cat, timeline_text(tl, r->name[i]), export_pid(c->x, t->process), t->tid, r->start_ns[i],
              r->end_ns[i]);
        const char *detail = timeline_text(tl, r->detail[i]);
        if (*detail) {
            strbuf_addstr(&c->text, "\"detail\":");
            add_quoted(c, detail);
        }
        slice_end(c);
    }
}

static void syncs(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_syncs *s = &tl->syncs;
    for (size_t i = 0; i < s->n; i++) {
        if (!export_has(c->x, s->start_ns[i], s->end_ns[i])) continue;
        const struct timeline_thread *t = &tl->threads[s->thread[i]];
        slice(c, "cuda_sync", trace_sync_kind_name(s->kind[i]), export_pid(c->x, t->process), t->tid,
              s->start_ns[i], s->end_ns[i]);
        strbuf_addf(&c->text, "\"cuda_sync_kind\":\"%s\",\"context\":%u,\"stream\":%u",
                    trace_sync_kind_name(s->kind[i]), s->context[i], s->stream[i]);
        slice_end(c);
    }
}

static void counter(struct chrome *c, const char *name, uint32_t device, uint64_t at, double value) {
    if (!isfinite(value)) return;
    strbuf_addstr(&c->text, c->first ? "\n" : ",\n");
    c->first = false;
    strbuf_addstr(&c->text, "{\"ph\":\"C\",\"name\":");
    add_quoted(c, name);
    strbuf_addf(&c->text, ",\"pid\":%u,\"tid\":0", device);
    micros(c, "ts", at - c->base);
    strbuf_addf(&c->text, ",\"args\":{\"value\":%.9g", value);
    slice_end(c);
    c->x->written++;
}

static void counters(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    const struct timeline_powers *p = &tl->powers;
    for (size_t i = 0; i < p->n; i++) {
        if (!export_has(c->x, p->time_ns[i], p->time_ns[i]) || p->time_ns[i] < c->base) continue;
        if (p->power_mw[i] != TRACE_UNKNOWN_U32)
            counter(c, "Power (W)", p->device[i], p->time_ns[i], p->power_mw[i] / 1e3);
        if (p->sm_mhz[i] != TRACE_UNKNOWN_U32)
            counter(c, "SM clock (MHz)", p->device[i], p->time_ns[i], p->sm_mhz[i]);
    }
    const struct timeline_samples *s = &tl->samples;
    for (size_t i = 0; i < s->n; i++) {
        if (!export_has(c->x, s->start_ns[i], s->end_ns[i]) || s->start_ns[i] < c->base) continue;
        const struct timeline_metric_set *set = &tl->metric_sets[s->set[i]];
        for (uint32_t m = 0; m < set->n; m++)
            counter(c, timeline_text(tl, set->names[m]), s->device[i], s->start_ns[i],
                    (double)tl->sample_values[s->first[i] + m]);
    }
}

static void device_properties(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    for (size_t i = 0; i < tl->ndevices; i++) {
        const struct timeline_device *d = &tl->devices[i];
        strbuf_addf(&c->text, "%s{\"id\":%zu,\"name\":", i ? "," : "", i);
        add_quoted(c, timeline_text(tl, d->name));
        if (d->uuid) {
            strbuf_addstr(&c->text, ",\"uuid\":");
            add_quoted(c, timeline_text(tl, d->uuid));
        }
        if (d->cc_major)
            strbuf_addf(&c->text, ",\"computeMajor\":%u,\"computeMinor\":%u", d->cc_major, d->cc_minor);
        if (d->sms) strbuf_addf(&c->text, ",\"numSms\":%u", d->sms);
        if (d->max_threads_per_sm)
            strbuf_addf(&c->text, ",\"maxThreadsPerMultiprocessor\":%u", d->max_threads_per_sm);
        if (d->regs_per_sm) strbuf_addf(&c->text, ",\"regsPerMultiprocessor\":%u", d->regs_per_sm);
        if (d->smem_per_sm_bytes)
            strbuf_addf(&c->text, ",\"sharedMemPerMultiprocessor\":%u", d->smem_per_sm_bytes);
        if (d->warp_size) strbuf_addf(&c->text, ",\"warpSize\":%u", d->warp_size);
        if (d->memory_bytes) strbuf_addf(&c->text, ",\"totalGlobalMem\":%" PRIu64, d->memory_bytes);
        strbuf_addch(&c->text, '}');
    }
}

static void names(struct chrome *c) {
    const struct timeline *tl = c->x->tl;
    for (size_t i = 0; i < tl->ndevices; i++) {
        char label[200];
        snprintf(label, sizeof label, "GPU %zu %.150s", i, timeline_text(tl, tl->devices[i].name));
        name_event(c, "process_name", i, 0, label);
    }
    for (uint32_t i = 0; i < tl->nprocesses; i++)
        name_event(c, "process_name", export_pid(c->x, i), 0, timeline_text(tl, tl->processes[i].command));
    for (size_t i = 0; i < tl->nthreads; i++)
        if (*timeline_text(tl, tl->threads[i].name))
            name_event(c, "thread_name", export_pid(c->x, tl->threads[i].process), tl->threads[i].tid,
                       timeline_text(tl, tl->threads[i].name));
}

int export_chrome(struct export_job *x, const char *path, struct err *err) {
    struct file_atomic f;
    if (file_atomic_open(&f, path, err) < 0) return -1;
    struct chrome c = { .x = x, .out = f.out, .text = STRBUF_INIT, .base = x->tl->start_ns, .first = true };
    bool unix_clock = !(x->tl->nprocesses && x->tl->processes[0].relative_clock);
    strbuf_addf(&c.text,
                "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":%" PRIu64
                ",\"deviceProperties\":[",
                unix_clock ? c.base : 0);
    device_properties(&c);
    strbuf_addstr(&c.text, "],\"traceEvents\":[");
    flush_text(&c);
    names(&c);
    ranges(&c);
    launches(&c);
    syncs(&c);
    kernels(&c);
    copies(&c);
    counters(&c);
    strbuf_addstr(&c.text, "\n]}\n");
    flush_text(&c);
    strbuf_free(&c.text);
    return file_atomic_commit(&f, err);
}

/* Loads trace files into a timeline: adds their records with renumbered texts, and reports losses and
 * damage. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "timeline/build.h"
#include "trace/reader_set.h"

/* One file being loaded. */
struct loading {
    struct timeline_builder *b;
    struct trace_reader *r;
    uint32_t *texts; /* [string_end]: number of the text in the timeline; TIMELINE_NONE: not used yet */
    uint32_t string_end;
    uint64_t missing_texts;
    const struct timeline_clocks *clocks;
    void *clock; /* from clocks->open(); NULL: times are not converted */
};

static uint32_t timeline_number(struct loading *l, uint32_t file_text) {
    size_t len;
    if (file_text >= l->string_end) {
        l->missing_texts += file_text != 0;
        return 0;
    }
    if (l->texts[file_text] != TIMELINE_NONE) return l->texts[file_text];
    const char *s = trace_reader_string(l->r, file_text, &len);
    l->missing_texts += !s;
    return l->texts[file_text] = s ? timeline_builder_textn(l->b, s, len) : 0;
}

/* Replaces the file's string ids in a batch by the timeline's. The loader owns the batch, so the records can
 * be changed in place. */
static void renumber_texts(struct loading *l, const struct trace_batch *batch) {
    const struct trace_schema *schema = trace_schema(batch->kind);
    for (size_t f = 0; schema && f < schema->nfields; f++) {
        if (schema->fields[f].type != TRACE_FIELD_STR) continue;
        char *at = (char *)(uintptr_t)batch->records + schema->fields[f].offset;
        for (size_t i = 0; i < batch->n; i++, at += schema->record_bytes)
            *(uint32_t *)(void *)at = timeline_number(l, *(uint32_t *)(void *)at);
    }
}

/* Adds a meta record. The values of capture.window, capture.from and capture.to are times, separated by
 * spaces; they are converted like the times of other records. */
static void add_meta(struct loading *l, const char *key, const char *value) {
    struct strbuf converted = STRBUF_INIT;
    char *end;
    for (const char *at = value; l->clock && strncmp(key, "capture.", 8) == 0; at = end) {
        uint64_t own_ns = strtoull(at, &end, 10);
        if (end == at) break;
        strbuf_addf(&converted, "%s%llu", converted.len ? " " : "",
                    (unsigned long long)(own_ns ? l->clocks->convert_time(l->clock, own_ns) : 0));
    }
    timeline_builder_meta(l->b, key, converted.len ? converted.buf : value);
    strbuf_free(&converted);
}

static void add_batch(struct loading *l, const struct trace_batch *batch) {
    struct timeline_builder *b = l->b;
    renumber_texts(l, batch);
    if (l->clock) l->clocks->convert(l->clock, batch);
    switch (batch->kind) {
    case TRACE_META:
        for (size_t i = 0; i < batch->n; i++)
            add_meta(l, intern_text(b->texts, batch->meta[i].key),
                     intern_text(b->texts, batch->meta[i].value));
        break;
#define X(KIND, record, columns) \
    case TRACE_##KIND: timeline_builder_##record(b, batch->record, batch->n); break;
        TIMELINE_KINDS(X)
#undef X
    default: break; /* losses are counted in the summary */
    }
}

static void report_state(struct loading *l, const char *path) {
    /* the file name without its folder, because the folder may be moved */
    const char *file = file_basename(path);
    const struct trace_summary *s = trace_reader_summary(l->r);
    struct timeline_process *p = &l->b->processes.v[l->b->processes.n - 1];
    p->finished = s->finished;
    p->damaged_places = s->damaged_places;
    for (size_t k = 0; k < TRACE_KIND_END; k++)
        for (size_t why = 0; why < TRACE_LOST_REASON_END; why++)
            timeline_builder_lost(l->b, (enum trace_kind)k, s->lost[k][why]);
    if (s->damaged_places)
        timeline_builder_warning(
            l->b, "%s: damaged at byte %llu (%s), %llu bytes in %llu place%s; the intact part was used", file,
            (unsigned long long)s->damage_offset, s->damage, (unsigned long long)s->damaged_bytes,
            (unsigned long long)s->damaged_places, s->damaged_places == 1 ? "" : "s");
    else if (!s->finished)
        timeline_builder_warning(
            l->b, "%s: the recorded program was killed or is still running; the part written so far was used",
            file);
    const char *clipped = trace_reader_meta(l->r, "cut.clipped");
    if (clipped)
        timeline_builder_warning(l->b,
                                 "%s: written by trace cut, which shortened %s range%s; their times and "
                                 "totals are those of the remaining part",
                                 file, clipped, strcmp(clipped, "1") == 0 ? "" : "s");
    if (l->missing_texts)
        timeline_builder_warning(l->b, "%s: %llu strings are missing", file,
                                 (unsigned long long)l->missing_texts);
}

static int load_file(struct timeline_builder *b, const char *path, const struct timeline_options *o,
                     struct err *err) {
    struct loading l = { .b = b, .r = trace_set_take(o->traces, path, err) };
    struct trace_batch batch = { 0 };
    struct err why;
    if (!l.r) return -1;
    l.clocks = o->clocks;
    if (o->clocks) l.clock = o->clocks->open(o->clocks->arg, path);
    timeline_builder_process(b, path);
    l.string_end = trace_reader_string_end(l.r);
    l.texts = xmalloc(((size_t)l.string_end + 1) * sizeof *l.texts);
    memset(l.texts, 0xff, ((size_t)l.string_end + 1) * sizeof *l.texts);
    for (size_t i = 0; i < trace_reader_chunks(l.r); i++) {
        if (trace_reader_chunk(l.r, i)->kind == TRACE_SOURCE_EVENT) continue; /* read by the exporter */
        if (trace_reader_decode(l.r, i, &batch, &why) == 0) {
            add_batch(&l, &batch);
            continue;
        }
        b->processes.v[b->processes.n - 1].damaged_chunks++;
        timeline_builder_warning(b, "%s", why.msg);
    }
    report_state(&l, path);
    if (l.clock) o->clocks->close(l.clock);
    free(l.texts);
    trace_batch_free(&batch);
    trace_set_give(o->traces, l.r);
    return 0;
}

struct timeline *timeline_load(const char *const *paths, size_t n, struct err *err) {
    return timeline_load_with(paths, n, &(struct timeline_options){ 0 }, err);
}

struct timeline *timeline_load_with(const char *const *paths, size_t n, const struct timeline_options *o,
                                    struct err *err) {
    struct timeline_builder *b = timeline_builder_open();
    size_t loaded = 0;
    struct err first = { "" }, why;
    if (!n) err_set(&first, "no trace file given");
    for (size_t i = 0; i < n; i++) {
        if (load_file(b, paths[i], o, &why) == 0) {
            loaded++;
            continue;
        }
        if (!first.msg[0]) first = why;
        timeline_builder_warning(b, "%s", why.msg);
    }
    if (loaded) return timeline_builder_finish(b);
    timeline_builder_close(b);
    *err = first;
    return NULL;
}

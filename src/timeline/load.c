/* Trace files into a timeline: record by record, texts renumbered, what a file lost or damaged kept in
 * mind. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "timeline/build.h"
#include "trace/reader.h"

/* What is wanted of the files, and what was left out. */
struct stretch {
    uint64_t from_ns, to_ns;
    uint64_t cut_kernels;
    double cut_ns;
};

/* One file on its way in. */
struct loading {
    struct timeline_builder *b;
    struct stretch *wanted;
    struct trace_reader *r;
    uint32_t *texts; /* [string_end] number in the timeline; TIMELINE_NONE: not asked for yet */
    uint32_t string_end;
    uint64_t missing_texts;
};

static uint32_t text_now(struct loading *l, uint32_t file_text) {
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

/* The batch's records with their texts renumbered; the batch is the caller's alone, so in place. */
static void renumber_texts(struct loading *l, const struct trace_batch *batch) {
    const struct trace_schema *schema = trace_schema(batch->kind);
    for (size_t f = 0; schema && f < schema->nfields; f++) {
        if (schema->fields[f].type != TRACE_FIELD_STR) continue;
        char *at = (char *)(uintptr_t)batch->records + schema->fields[f].offset;
        for (size_t i = 0; i < batch->n; i++, at += schema->record_bytes)
            *(uint32_t *)(void *)at = text_now(l, *(uint32_t *)(void *)at);
    }
}

/* Keeps the records of the stretch, in place; returns how many. */
#define CUT(l, records, count, condition)                                                              \
    do {                                                                                               \
        size_t kept_ = 0;                                                                              \
        for (size_t i_ = 0; i_ < (count); i_++)                                                        \
            if (condition((l)->wanted, &(records)[i_]))                                                \
                memmove((void *)(uintptr_t) & (records)[kept_++], &(records)[i_], sizeof(records)[0]); \
        (count) = kept_;                                                                               \
    } while (0)
#define BEGINS(s, r) ((r)->start_ns >= (s)->from_ns && (r)->start_ns < (s)->to_ns)
#define REACHES(s, r) ((r)->end_ns > (s)->from_ns && (r)->start_ns < (s)->to_ns)

static bool keeps_kernel(struct stretch *s, const struct trace_kernel *k) {
    if (BEGINS(s, k)) return true;
    s->cut_kernels++;
    if (k->end_ns > k->start_ns) s->cut_ns += (double)(k->end_ns - k->start_ns);
    return false;
}

static void cut_batch(struct loading *l, struct trace_batch *batch) {
    switch (batch->kind) {
    case TRACE_RANGE: CUT(l, batch->range, batch->n, REACHES); break;
    case TRACE_LAUNCH: CUT(l, batch->launch, batch->n, BEGINS); break;
    case TRACE_KERNEL: CUT(l, batch->kernel, batch->n, keeps_kernel); break;
    case TRACE_COPY: CUT(l, batch->copy, batch->n, BEGINS); break;
    case TRACE_SYNC: CUT(l, batch->sync, batch->n, BEGINS); break;
    case TRACE_GEMM: CUT(l, batch->gemm, batch->n, BEGINS); break;
    default: break;
    }
}

static void add_batch(struct loading *l, struct trace_batch *batch) {
    struct timeline_builder *b = l->b;
    if (l->wanted) cut_batch(l, batch);
    renumber_texts(l, batch);
    switch (batch->kind) {
    case TRACE_META:
        for (size_t i = 0; i < batch->n; i++)
            timeline_builder_meta(b, intern_text(b->texts, batch->meta[i].key),
                                  intern_text(b->texts, batch->meta[i].value));
        break;
    case TRACE_RANGE: timeline_builder_range(b, batch->range, batch->n); break;
    case TRACE_LAUNCH: timeline_builder_launch(b, batch->launch, batch->n); break;
    case TRACE_KERNEL: timeline_builder_kernel(b, batch->kernel, batch->n); break;
    case TRACE_COPY: timeline_builder_copy(b, batch->copy, batch->n); break;
    case TRACE_SYNC: timeline_builder_sync(b, batch->sync, batch->n); break;
    case TRACE_SAMPLE: timeline_builder_sample(b, batch->sample, batch->n); break;
    case TRACE_POWER: timeline_builder_power(b, batch->power, batch->n); break;
    case TRACE_GEMM: timeline_builder_gemm(b, batch->gemm, batch->n); break;
    case TRACE_TOKEN: timeline_builder_token(b, batch->token, batch->n); break;
    default: break; /* losses are in the summary */
    }
}

static void note_state(struct loading *l, const char *path) {
    const char *file = file_basename(path); /* the folder may be moved, and the problem stays the same */
    const struct trace_summary *s = trace_reader_summary(l->r);
    struct timeline_process *p = &l->b->processes.v[l->b->processes.n - 1];
    p->finished = s->finished;
    p->damaged_places = s->damaged_places;
    for (size_t k = 0; k < TRACE_KIND_END; k++)
        for (size_t why = 0; why < TRACE_LOST_REASON_END; why++) p->lost[k] += s->lost[k][why];
    if (s->damaged_places)
        timeline_builder_problem(
            l->b, "%s: damaged at byte %llu (%s), %llu bytes in %llu place%s; what is sound was used", file,
            (unsigned long long)s->damage_offset, s->damage, (unsigned long long)s->damaged_bytes,
            (unsigned long long)s->damaged_places, s->damaged_places == 1 ? "" : "s");
    else if (!s->finished)
        timeline_builder_problem(
            l->b, "%s: the recorded program was killed, or still runs; what it had written was used", file);
    if (l->missing_texts)
        timeline_builder_problem(l->b, "%s: %llu texts are missing", file,
                                 (unsigned long long)l->missing_texts);
}

static int load_file(struct timeline_builder *b, const char *path, struct stretch *wanted, struct err *err) {
    struct loading l = { .b = b, .wanted = wanted, .r = trace_reader_open(path, err) };
    struct trace_batch batch = { 0 };
    struct err why;
    if (!l.r) return -1;
    timeline_builder_process(b, path);
    l.string_end = trace_reader_string_end(l.r);
    l.texts = xmalloc(((size_t)l.string_end + 1) * sizeof *l.texts);
    memset(l.texts, 0xff, ((size_t)l.string_end + 1) * sizeof *l.texts);
    for (size_t i = 0; i < trace_reader_chunks(l.r); i++) {
        if (trace_reader_decode(l.r, i, &batch, &why) == 0) {
            add_batch(&l, &batch);
            continue;
        }
        b->processes.v[b->processes.n - 1].damaged_chunks++;
        timeline_builder_problem(b, "%s", why.msg);
    }
    note_state(&l, path);
    free(l.texts);
    trace_batch_free(&batch);
    trace_reader_close(l.r);
    return 0;
}

static struct timeline *load(const char *const *paths, size_t n, struct stretch *wanted, struct err *err) {
    struct timeline_builder *b = timeline_builder_open();
    size_t loaded = 0;
    struct err first = { "" }, why;
    if (!n) err_set(&first, "no trace file given");
    for (size_t i = 0; i < n; i++) {
        if (load_file(b, paths[i], wanted, &why) == 0) {
            loaded++;
            continue;
        }
        if (!first.msg[0]) first = why;
        timeline_builder_problem(b, "%s", why.msg);
    }
    if (loaded) return timeline_builder_finish(b);
    timeline_builder_close(b);
    *err = first;
    return NULL;
}

struct timeline *timeline_load(const char *const *paths, size_t n, struct err *err) {
    return load(paths, n, NULL, err);
}

struct timeline *timeline_load_between(const char *const *paths, size_t n, uint64_t from_ns, uint64_t to_ns,
                                       struct err *err) {
    struct stretch wanted = { .from_ns = from_ns, .to_ns = to_ns };
    struct timeline *tl = load(paths, n, &wanted, err);
    if (tl) {
        tl->cut_kernels = wanted.cut_kernels;
        tl->cut_ns = wanted.cut_ns;
    }
    return tl;
}

/* sample_trace IN OUT REPLAYS [counted|uncounted|attached]: writes the trace that `inferprof run` would have
 * recorded of the same program: the kernels of the first REPLAYS launches of CUDA graphs, and a replay record
 * for each later launch, as if CUPTI had been detached. "uncounted": no replay records. "attached": as if
 * CUPTI had stayed attached. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "trace/reader.h"
#include "trace/writer.h"

static const struct trace_reader *in;
static struct trace_writer *out;
static uint64_t limit_ns = UINT64_MAX; /* start of the first launch that is not recorded */
static uint64_t first_ns = UINT64_MAX, last_ns;
static const char *mode = "";

static bool launches_graph(const struct trace_launch *l) {
    const char *name = trace_reader_string(in, l->api, NULL);
    return name && strstr(name, "GraphLaunch") != NULL;
}

static void visit(void (*use)(unsigned kind, const struct trace_schema *s, const void *record)) {
    struct trace_batch b = { 0 };
    struct err err;
    for (size_t i = 0; i < trace_reader_chunks(in); i++) {
        unsigned kind = trace_reader_chunk(in, i)->kind;
        const struct trace_schema *s = trace_schema(kind);
        if (!s || kind == TRACE_LOST) continue;
        if (trace_reader_decode(in, i, &b, &err) != 0) exit(1);
        for (size_t k = 0; k < b.n; k++) use(kind, s, (const char *)b.records + k * s->record_bytes);
    }
    trace_batch_free(&b);
}

static uint64_t starts[1 << 16];
static size_t nstarts;

static void note_launch(unsigned kind, const struct trace_schema *s, const void *record) {
    if (kind == TRACE_META) return;
    if (s->fields[0].type == TRACE_FIELD_TIME) {
        uint64_t ns = trace_field_get(record, &s->fields[0]);
        if (ns < first_ns) first_ns = ns;
        if (ns > last_ns) last_ns = ns;
    }
    if (kind == TRACE_LAUNCH && launches_graph(record) && nstarts < sizeof starts / sizeof *starts)
        starts[nstarts++] = ((const struct trace_launch *)record)->start_ns;
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t next_correlation; /* of the first launch that is not recorded */

static void find_correlation(unsigned kind, const struct trace_schema *s, const void *record) {
    const struct trace_launch *l = record;
    (void)s;
    if (kind == TRACE_LAUNCH && l->start_ns == limit_ns) next_correlation = l->correlation;
}

static void put_replay(const struct trace_launch *l) {
    bool attached = strcmp(mode, "attached") == 0;
    struct trace_replay r = { .start_ns = l->start_ns, .end_ns = l->end_ns, .graph = 3, .thread = l->thread };
    r.detach = attached ? 0 : 1;
    if (strcmp(mode, "uncounted") != 0) trace_writer_replay(out, &r, 1);
}

/* Work belongs to its launch: kernels of recorded launches may start after limit_ns. */
static bool is_recorded(unsigned kind, const struct trace_schema *s, const void *record) {
    if (kind == TRACE_KERNEL) return ((const struct trace_kernel *)record)->correlation < next_correlation;
    if (kind == TRACE_COPY) return ((const struct trace_copy *)record)->correlation < next_correlation;
    return s->fields[0].type != TRACE_FIELD_TIME || trace_field_get(record, &s->fields[0]) < limit_ns;
}

static void copy_record(unsigned kind, const struct trace_schema *s, const void *record) {
    union trace_record r;
    size_t len = 0;
    if (!is_recorded(kind, s, record)) {
        if (kind == TRACE_LAUNCH && launches_graph(record)) put_replay(record);
        return;
    }
    memcpy(&r, record, s->record_bytes);
    for (size_t k = 0; k < s->nfields; k++) {
        if (s->fields[k].type != TRACE_FIELD_STR) continue;
        uint32_t *id = (uint32_t *)(void *)((char *)&r + s->fields[k].offset);
        const char *text = trace_reader_string(in, *id, &len);
        *id = text ? trace_writer_string(out, text, len) : 0;
    }
    trace_writer_put(out, (enum trace_kind)kind, &r, 1);
}

int main(int argc, char **argv) {
    struct err err;
    if (argc < 4) return 2;
    size_t replays = strtoul(argv[3], NULL, 10);
    if (argc > 4 && strcmp(argv[4], "counted") != 0) mode = argv[4];
    struct trace_reader *r = trace_reader_open(argv[1], &err);
    out = r ? trace_writer_open(argv[2], &(struct trace_writer_options){ .memory_bytes = 256u << 20 }, &err)
            : NULL;
    if (!out) {
        fprintf(stderr, "sample_trace: %s\n", err.msg);
        return 1;
    }
    in = r;
    visit(note_launch);
    qsort(starts, nstarts, sizeof *starts, ascending);
    if (nstarts <= replays) return 2;
    limit_ns = starts[replays];
    visit(find_correlation);
    visit(copy_record);
    trace_writer_meta(out, "capture.from", "%" PRIu64, first_ns);
    trace_writer_meta(out, "capture.window", "%" PRIu64 " %" PRIu64, first_ns, limit_ns - 1);
    trace_writer_meta(out, "capture.to", "%" PRIu64, last_ns);
    if (!*mode) trace_writer_meta(out, "replays.slots", "replaced 1 refused 0");
    if (strcmp(mode, "uncounted") == 0) trace_writer_meta(out, "replays.slots", "replaced 0 refused 0");
    int rc = trace_writer_close(out, &err);
    trace_reader_close(r);
    return rc != 0;
}

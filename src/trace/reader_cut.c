#include "trace/reader_cut.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/die.h"
#include "base/sha256.h"
#include "base/util.h"
#include "trace/writer.h"

/* Number of records between two flushes. The writer drops records that do not fit its memory instead of
 * waiting, so it is flushed regularly. */
#define RECORDS_PER_FLUSH 20000
#define FLUSH_MS 60000
/* Power samples are also kept this long before and after the span, because the energy at its ends is computed
 * from the samples around them. */
#define POWER_MARGIN_NS 1000000000u

struct cut {
    const struct trace_reader *in;
    struct trace_writer *out;
    struct trace_cut what;
    uint32_t *strings; /* maps input string numbers to output numbers; UINT32_MAX: not written yet */
    size_t since_flush, clipped; /* clipped: ranges that were shortened */
};

bool trace_cut_find(const struct trace_reader *in, const char *name, struct trace_cut *cut) {
    struct trace_batch b = { 0 };
    struct err ignored; /* chunks that cannot be decoded are skipped */
    bool found = false;
    uint64_t last = 0;
    for (size_t i = 0; i < trace_reader_chunks(in); i++) {
        if (trace_reader_chunk(in, i)->kind != TRACE_RANGE || trace_reader_decode(in, i, &b, &ignored) < 0)
            continue;
        for (size_t k = 0; k < b.n; k++) {
            const char *text = trace_reader_string(in, b.range[k].name, NULL);
            if (!text || strcmp(text, name) != 0 || (found && b.range[k].start_ns < last)) continue;
            found = true;
            last = cut->from_ns = b.range[k].start_ns;
            cut->to_ns = b.range[k].end_ns;
        }
    }
    trace_batch_free(&b);
    return found;
}

static uint32_t string_of(struct cut *c, uint32_t id) {
    size_t len = 0;
    if (id >= trace_reader_string_end(c->in)) return 0;
    if (c->strings[id] == UINT32_MAX) {
        const char *text = trace_reader_string(c->in, id, &len);
        c->strings[id] = text ? trace_writer_string(c->out, text, len) : 0;
    }
    return c->strings[id];
}

static bool identifies_machine(const struct cut *c, const struct trace_meta *m) {
    static const char *const keys[] = { "host",        "node",        "process.command", "process.exe",
                                        "setting.dir", "setting.raw", "setting.cupti",   "cupti.path" };
    const char *key = trace_reader_string(c->in, m->key, NULL);
    for (size_t i = 0; key && i < COUNTOF(keys); i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

/* Returns the string number of a pseudonym for the uuid of a device. It is the same in all traces of a run,
 * because readers identify a device by its uuid. */
static uint32_t pseudonym_of(const struct cut *c, uint32_t uuid) {
    char hex[65], text[32];
    size_t len = 0;
    const char *name = trace_reader_string(c->in, uuid, &len);
    struct sha256 hash;
    sha256_start(&hash);
    sha256_add(&hash, name ? name : "", name ? len : 0);
    sha256_hex(&hash, hex);
    int n = snprintf(text, sizeof text, "anonymous-%.12s", hex);
    return trace_writer_string(c->out, text, (size_t)n);
}

static bool is_device_id(const struct cut *c, const struct trace_meta *m) {
    const char *key = trace_reader_string(c->in, m->key, NULL);
    return key && file_has_ending(key, ".uuid");
}

/* Returns true for the offset that the reader has already added to the times. A reader of the copy must not
 * add it again. */
static bool is_clock_offset(const struct cut *c, const struct trace_meta *m) {
    const char *key = trace_reader_string(c->in, m->key, NULL);
    return key && strcmp(key, "clock.offset_ns") == 0;
}

/* Returns true if the record is copied. Ranges must overlap the span, power samples must be near it, other
 * records must start in it. Records without a time describe the whole trace and are copied, except the clock
 * offset and meta records that `anonymous` omits. */
static bool is_inside(const struct cut *c, unsigned kind, const struct trace_schema *s, const void *record) {
    if (kind == TRACE_META)
        return !is_clock_offset(c, record) && !(c->what.anonymous && identifies_machine(c, record));
    if (s->fields[0].type != TRACE_FIELD_TIME) return true;
    uint64_t start = trace_field_get(record, &s->fields[0]);
    if (kind == TRACE_RANGE)
        return start < c->what.to_ns && trace_field_get(record, &s->fields[1]) > c->what.from_ns;
    if (start < c->what.from_ns) return kind == TRACE_POWER && c->what.from_ns - start <= POWER_MARGIN_NS;
    return start < c->what.to_ns || (kind == TRACE_POWER && start - c->what.to_ns <= POWER_MARGIN_NS);
}

static void copy_record(struct cut *c, unsigned kind, const struct trace_schema *s, const void *record) {
    union trace_record r;
    memcpy(&r, record, s->record_bytes);
    for (size_t k = 0; k < s->nfields; k++) {
        if (s->fields[k].type != TRACE_FIELD_STR) continue;
        uint32_t *id = (uint32_t *)(void *)((char *)&r + s->fields[k].offset);
        bool renamed =
            kind == TRACE_META && id == &r.meta.value && c->what.anonymous && is_device_id(c, record);
        *id = renamed ? pseudonym_of(c, *id) : string_of(c, *id);
    }
    if (kind == TRACE_RANGE) {
        c->clipped += r.range.start_ns < c->what.from_ns || r.range.end_ns > c->what.to_ns;
        r.range.start_ns = MAX(r.range.start_ns, c->what.from_ns);
        r.range.end_ns = MIN(r.range.end_ns, c->what.to_ns);
    }
    trace_writer_put(c->out, (enum trace_kind)kind, &r, 1);
    if (++c->since_flush < RECORDS_PER_FLUSH) return;
    trace_writer_flush(c->out, FLUSH_MS);
    c->since_flush = 0;
}

static int copy_all(struct cut *c, struct err *err) {
    struct trace_batch b = { 0 };
    int rc = 0;
    for (size_t i = 0; i < trace_reader_chunks(c->in) && rc == 0; i++) {
        unsigned kind = trace_reader_chunk(c->in, i)->kind;
        const struct trace_schema *s = trace_schema(kind);
        if (kind == TRACE_LOST || !s) continue; /* copy_losses fills the writer's own table */
        rc = trace_reader_decode(c->in, i, &b, err);
        for (size_t k = 0; rc == 0 && k < b.n; k++) {
            const void *record = (const char *)b.records + k * s->record_bytes;
            if (is_inside(c, kind, s, record)) copy_record(c, kind, s, record);
        }
    }
    trace_batch_free(&b);
    return rc;
}

static void copy_losses(const struct cut *c) {
    const struct trace_summary *s = trace_reader_summary(c->in);
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++)
        for (unsigned reason = 0; reason < TRACE_LOST_REASON_END; reason++)
            if (s->lost[kind][reason])
                trace_writer_lost(c->out, (enum trace_kind)kind, (enum trace_lost_reason)reason,
                                  s->lost[kind][reason]);
}

int trace_cut_file(const struct trace_reader *in, const char *path, const struct trace_cut *cut,
                   struct err *err) {
    size_t n = (size_t)trace_reader_string_end(in) + 1;
    struct cut c = { .in = in, .what = *cut };
    if (!(c.out = trace_writer_open(path, NULL, err))) return -1;
    c.strings = xmalloc(n * sizeof *c.strings);
    memset(c.strings, 0xff, n * sizeof *c.strings);
    int rc = copy_all(&c, err);
    trace_writer_meta(c.out, "cut", "%" PRIu64 " ns from %" PRIu64, cut->to_ns - cut->from_ns, cut->from_ns);
    if (c.clipped) trace_writer_meta(c.out, "cut.clipped", "%zu", c.clipped);
    copy_losses(&c);
    free(c.strings);
    if (rc == 0) return trace_writer_close(c.out, err);
    struct err later; /* the first error is reported */
    trace_writer_close(c.out, &later);
    return -1;
}

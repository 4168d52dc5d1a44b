/* `inferprof trace info FILE...`: contents, losses and damage of traces. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "base/table.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "trace/reader.h"
#include "trace/reader_files.h"

struct info_opts {
    bool json;
};

struct kind_totals {
    uint64_t records, bytes, chunks;
};

struct info {
    struct kind_totals kinds[TRACE_KIND_END];
    uint64_t first_ns, last_ns; /* 0, 0: no times */
    uint64_t malformed;         /* valid checksum, invalid content */
    struct err malformed_first;
};

static void note_time(struct info *in, uint64_t t) {
    if (t == 0) return;
    if (!in->first_ns || t < in->first_ns) in->first_ns = t;
    in->last_ns = MAX(in->last_ns, t);
}

/* The first field of records with times is the start; the second may be the end. */
static void note_times(struct info *in, const struct trace_batch *b) {
    const struct trace_schema *s = trace_schema(b->kind);
    if (s->fields[0].type != TRACE_FIELD_TIME) return;
    bool has_end = s->fields[1].type == TRACE_FIELD_AFTER;
    for (size_t i = 0; i < b->n; i++) {
        const char *rec = (const char *)b->records + i * s->record_bytes;
        note_time(in, trace_field_get(rec, &s->fields[0]));
        if (has_end) note_time(in, trace_field_get(rec, &s->fields[1]));
    }
}

static void gather_info(const struct trace_reader *r, struct info *in) {
    struct trace_batch b = { 0 };
    struct err err;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        const struct trace_chunk *c = trace_reader_chunk(r, i);
        struct kind_totals *k = &in->kinds[c->kind];
        if (trace_reader_decode(r, i, &b, &err) < 0) {
            if (!in->malformed++) in->malformed_first = err;
            continue;
        }
        k->chunks++;
        k->bytes += c->bytes;
        if (c->kind != TRACE_LOST) k->records += c->count;
        note_times(in, &b);
    }
    trace_batch_free(&b);
    in->kinds[TRACE_STRING].records = trace_reader_string_end(r) - 1;
    in->kinds[TRACE_STRING].bytes = trace_reader_string_bytes(r);
}

/* ---- JSON */

static void json_losses(struct jsonw *j, const struct trace_summary *s) {
    jsonw_karray(j, "lost");
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned why = 0; why < TRACE_LOST_REASON_END; why++) {
            if (!s->lost[k][why]) continue;
            jsonw_object(j);
            jsonw_kstr(j, "kind", trace_kind_name(k));
            jsonw_kstr(j, "reason", trace_lost_reason_name(why));
            jsonw_ku64(j, "count", s->lost[k][why]);
            jsonw_end(j);
        }
    jsonw_end(j);
}

static void json_damage(struct jsonw *j, const struct trace_summary *s, const struct info *in) {
    jsonw_key(j, "damage");
    if (!s->damaged_places && !in->malformed) {
        jsonw_null(j);
        return;
    }
    jsonw_object(j);
    jsonw_ku64(j, "places", s->damaged_places);
    jsonw_ku64(j, "bytes", s->damaged_bytes);
    jsonw_key(j, "first_offset");
    if (s->damaged_places)
        jsonw_u64(j, s->damage_offset);
    else
        jsonw_null(j);
    jsonw_kstr(j, "first", s->damaged_places ? s->damage : in->malformed_first.msg);
    jsonw_ku64(j, "malformed_chunks", in->malformed);
    jsonw_end(j);
}

static void json_kinds(struct jsonw *j, const struct info *in) {
    jsonw_kobject(j, "kinds");
    for (unsigned k = 0; k < TRACE_KIND_END; k++) {
        if (!in->kinds[k].records) continue;
        jsonw_kobject(j, trace_kind_name(k));
        jsonw_ku64(j, "records", in->kinds[k].records);
        jsonw_ku64(j, "bytes", in->kinds[k].bytes);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void json_meta(struct jsonw *j, const struct trace_reader *r) {
    const char *key, *value;
    jsonw_karray(j, "meta"); /* pairs, because keys may repeat */
    for (size_t i = 0; trace_reader_meta_at(r, i, &key, &value); i++) {
        jsonw_array(j);
        jsonw_str(j, key);
        jsonw_str(j, value);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void json_info(struct jsonw *j, const char *path, const struct trace_reader *r,
                      const struct info *in) {
    const struct trace_summary *s = trace_reader_summary(r);
    char version[16];
    snprintf(version, sizeof version, "%u.%u", s->major, s->minor);
    jsonw_object(j);
    jsonw_kstr(j, "schema", SCHEMA_TRACE_INFO);
    jsonw_kstr(j, "file", path);
    jsonw_ku64(j, "bytes", s->file_bytes);
    jsonw_kstr(j, "format", version);
    jsonw_kbool(j, "finished", s->finished);
    jsonw_knum(j, "duration_ns", in->last_ns ? (double)(in->last_ns - in->first_ns) : NAN);
    json_kinds(j, in);
    json_losses(j, s);
    json_damage(j, s, in);
    jsonw_ku64(j, "unknown_chunks", s->unknown_chunks);
    json_meta(j, r);
    jsonw_end(j);
}

/* ---- Text */

static void text_line(struct strbuf *out, const char *label, const char *value) {
    if (!value) return;
    strbuf_addf(out, "  %-10s ", label);
    strbuf_add_printable(out, value, strlen(value));
    strbuf_addch(out, '\n');
}

static void text_devices(struct strbuf *out, const struct trace_reader *r) {
    char key[64], label[32];
    for (unsigned d = 0; d < 64; d++) {
        snprintf(key, sizeof key, "device.%u.name", d);
        snprintf(label, sizeof label, "device %u", d);
        text_line(out, label, trace_reader_meta(r, key));
    }
}

static void text_kinds(struct strbuf *out, const struct info *in) {
    char n[32], bytes[32];
    struct table t;
    table_init(&t);
    table_column(&t, "  kind", TABLE_LEFT);
    table_column(&t, "records", TABLE_RIGHT);
    table_column(&t, "bytes", TABLE_RIGHT);
    table_column(&t, "bytes/record", TABLE_RIGHT);
    for (unsigned k = 0; k < TRACE_KIND_END; k++) {
        const struct kind_totals *row = &in->kinds[k];
        if (!row->records) continue;
        table_cell(&t, "  %s", trace_kind_name(k));
        table_cell(&t, "%s", units_grouped(row->records, n, sizeof n));
        table_cell(&t, "%s", units_bytes((double)row->bytes, bytes, sizeof bytes));
        table_cell(&t, "%.1f", (double)row->bytes / (double)row->records);
    }
    if (table_rows(&t)) table_text(&t, out);
    table_free(&t);
}

static void text_losses(struct strbuf *out, const struct trace_summary *s) {
    static const char *const why[] = {
        [TRACE_LOST_MEMORY] = "the writer's memory was full: increase it",
        [TRACE_LOST_DISK] = "the disk was full or the size limit was reached",
        [TRACE_LOST_SOURCE] = "dropped before they reached inferprof",
        [TRACE_LOST_UNTRUSTED] = "quarantined: invalid times",
    };
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        for (unsigned i = 0; i < TRACE_LOST_REASON_END; i++)
            if (s->lost[k][i])
                strbuf_addf(out, "  lost       %" PRIu64 " %s records (%s)\n", s->lost[k][i],
                            trace_kind_name(k) ? trace_kind_name(k) : "unknown", why[i]);
}

static void text_damage(struct strbuf *out, const struct trace_summary *s, const struct info *in) {
    if (s->damaged_places)
        strbuf_addf(out,
                    "  damage     %" PRIu64 " place%s, %" PRIu64 " bytes skipped; first at offset %" PRIu64
                    ": %s\n",
                    s->damaged_places, s->damaged_places == 1 ? "" : "s", s->damaged_bytes, s->damage_offset,
                    s->damage);
    if (in->malformed)
        strbuf_addf(out,
                    "  damage     %" PRIu64 " chunks with a valid checksum and invalid content; first: %s\n",
                    in->malformed, in->malformed_first.msg);
    if (s->unknown_chunks)
        strbuf_addf(out, "  newer      %" PRIu64 " chunks of kinds unknown to this program\n",
                    s->unknown_chunks);
    if (!s->finished)
        strbuf_addstr(
            out, "  unfinished the writer did not close this file: it was killed, or is still writing\n");
}

static void text_info(struct strbuf *out, const char *path, const struct trace_reader *r,
                      const struct info *in) {
    const struct trace_summary *s = trace_reader_summary(r);
    char bytes[32], duration[32];
    strbuf_add_printable(out, path, strlen(path));
    strbuf_addf(out, "  (%s, format %u.%u)\n", units_bytes((double)s->file_bytes, bytes, sizeof bytes),
                s->major, s->minor);
    text_line(out, "source", trace_reader_meta(r, "source"));
    text_line(out, "process", trace_reader_meta(r, "process.pid"));
    text_line(out, "command", trace_reader_meta(r, "process.command"));
    text_line(out, "host", trace_reader_meta(r, "host"));
    text_devices(out, r);
    units_duration_ns(in->last_ns ? (double)(in->last_ns - in->first_ns) : NAN, duration, sizeof duration);
    text_line(out, "duration", duration);
    text_line(out, "problem", trace_reader_meta(r, "problem"));
    text_kinds(out, in);
    text_losses(out, s);
    text_damage(out, s, in);
}

static int add_info(const struct info_opts *o, const char *path, struct jsonw *j, struct strbuf *out) {
    struct info in = { 0 };
    struct err err;
    struct trace_reader *r = trace_reader_open(path, &err);
    if (!r) return command_fail(&err);
    gather_info(r, &in);
    if (o->json)
        json_info(j, path, r, &in);
    else
        text_info(out, path, r, &in);
    trace_reader_close(r);
    return EXIT_DONE;
}

static int run_trace_info(const void *opts, int argc, char **argv) {
    const struct info_opts *o = opts;
    struct strbuf out = STRBUF_INIT;
    struct strlist paths = { 0 };
    struct jsonw j;
    int status = EXIT_DONE;
    for (int i = 0; i < argc; i++)
        if (!trace_files_add(&paths, argv[i])) status = command_no_traces(argv[i]);
    jsonw_start(&j, &out, JSONW_PRETTY);
    if (o->json) jsonw_array(&j);
    for (size_t i = 0; i < paths.n; i++)
        if (add_info(o, paths.v[i], &j, &out) != EXIT_DONE) status = EXIT_FAILED;
    strlist_free(&paths);
    if (o->json) {
        jsonw_end(&j);
        jsonw_finish(&j);
    }
    fwrite(out.buf, 1, out.len, stdout);
    strbuf_free(&out);
    return status;
}

static const struct opt options[] = {
    { 0, "json", OPT_FLAG, offsetof(struct info_opts, json), NULL, "print JSON instead of text", NULL },
};

const struct command cmd_trace_info = {
    .name = "trace info",
    .args = "RUN_DIR|FILE.ipt...",
    .summary = "print the contents, losses and damage of trace files",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct info_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run_trace_info,
};

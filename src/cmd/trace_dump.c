/* `inferprof trace dump FILE`: prints every record on one line, in file order. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "trace/reader.h"
#include "trace/reader_files.h"

struct dump_opts {
    const char *kind;
    uint64_t limit;
    bool json;
};

static const struct dump_opts defaults = { .limit = UINT64_MAX };

static double as_double(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static void json_record(struct jsonw *j, const struct trace_reader *r, const struct trace_schema *s,
                        const void *rec) {
    jsonw_object(j);
    jsonw_kstr(j, "kind", s->name);
    for (size_t k = 0; k < s->nfields; k++) {
        const struct trace_field *f = &s->fields[k];
        uint64_t v = trace_field_get(rec, f);
        size_t len;
        jsonw_key(j, f->name);
        const char *text = f->type == TRACE_FIELD_STR ? trace_reader_string(r, (uint32_t)v, &len) : NULL;
        if (f->type == TRACE_FIELD_F64)
            jsonw_num(j, as_double(v));
        else if (f->type != TRACE_FIELD_STR)
            jsonw_u64_exact(j, v);
        else if (text)
            jsonw_strn(j, text, len);
        else
            jsonw_null(j);
    }
    jsonw_end(j);
}

static void text_value(struct strbuf *out, const struct trace_reader *r, const struct trace_field *f,
                       uint64_t v) {
    size_t len;
    if (f->type == TRACE_FIELD_F64) {
        strbuf_addf(out, " %s=%g", f->name, as_double(v));
        return;
    }
    if (f->type != TRACE_FIELD_STR) {
        strbuf_addf(out, " %s=%" PRIu64, f->name, v);
        return;
    }
    const char *text = trace_reader_string(r, (uint32_t)v, &len);
    strbuf_addf(out, " %s=", f->name);
    if (!text)
        strbuf_addf(out, "?%" PRIu64, v); /* the text's chunk is missing */
    else
        jsonw_quote(out, text, len);
}

/* Skips empty fields: NaN, and 0 except in the first field. */
static void text_record(struct strbuf *out, const struct trace_reader *r, const struct trace_schema *s,
                        const void *rec) {
    strbuf_addstr(out, s->name);
    for (size_t k = 0; k < s->nfields; k++) {
        uint64_t v = trace_field_get(rec, &s->fields[k]);
        bool unknown = s->fields[k].type == TRACE_FIELD_F64 ? isnan(as_double(v)) : v == 0 && k > 0;
        if (!unknown) text_value(out, r, &s->fields[k], v);
    }
    strbuf_addch(out, '\n');
}

static void print_record(const struct dump_opts *o, const struct trace_reader *r,
                         const struct trace_schema *s, const void *rec, struct strbuf *line) {
    strbuf_reset(line);
    if (o->json) {
        struct jsonw j;
        jsonw_start(&j, line, JSONW_COMPACT);
        json_record(&j, r, s, rec);
        jsonw_finish(&j);
        strbuf_addch(line, '\n');
    } else {
        text_record(line, r, s, rec);
    }
    fwrite(line->buf, 1, line->len, stdout);
}

/* The loss table has a row per kind and reason. Rows with 0 are not printed. */
static bool is_zero_loss(const struct trace_batch *b, size_t i) {
    return b->kind == TRACE_LOST && b->lost[i].count == 0;
}

static int dump_records(const struct dump_opts *o, const struct trace_reader *r, unsigned only,
                        uint64_t *left) {
    struct trace_batch b = { 0 };
    struct strbuf line = STRBUF_INIT;
    struct err err;
    int status = EXIT_DONE;
    for (size_t i = 0; i < trace_reader_chunks(r) && *left; i++) {
        unsigned kind = trace_reader_chunk(r, i)->kind;
        if (only && kind != only) continue;
        if (trace_reader_decode(r, i, &b, &err) < 0) {
            status = command_fail(&err);
            continue;
        }
        const struct trace_schema *s = trace_schema(kind);
        for (size_t k = 0; k < b.n && *left && !ferror(stdout); k++) {
            if (is_zero_loss(&b, k)) continue;
            print_record(o, r, s, (const char *)b.records + k * s->record_bytes, &line);
            --*left;
        }
    }
    strbuf_free(&line);
    trace_batch_free(&b);
    return status;
}

static int dump_file(const struct dump_opts *o, const char *path, unsigned only, uint64_t *left) {
    struct err err;
    struct trace_reader *r = trace_reader_open(path, &err);
    if (!r) return command_fail(&err);
    int status = dump_records(o, r, only, left);
    const struct trace_summary *s = trace_reader_summary(r);
    if (s->damaged_places)
        log_warn("%s: offset %" PRIu64 ": %s; %" PRIu64 " bytes skipped", path, s->damage_offset, s->damage,
                 s->damaged_bytes);
    trace_reader_close(r);
    return status;
}

static unsigned find_kind(const char *name) {
    for (unsigned k = 0; k < TRACE_KIND_END; k++)
        if (trace_schema(k) && strcmp(trace_schema(k)->name, name) == 0) return k;
    return 0;
}

static int unknown_kind(const char *name) {
    struct suggest near;
    struct strbuf all = STRBUF_INIT;
    suggest_start(&near, name);
    for (unsigned k = 0; k < TRACE_KIND_END; k++) {
        if (!trace_schema(k)) continue;
        suggest_try(&near, trace_schema(k)->name);
        strbuf_addf(&all, "%s%s", all.len ? ", " : "", trace_schema(k)->name);
    }
    if (near.best)
        command_usage("trace dump: --kind: unknown kind '%s'; did you mean '%s'?", name, near.best);
    else
        command_usage("trace dump: --kind: unknown kind '%s'; expected one of %s", name, all.buf);
    strbuf_free(&all);
    return EXIT_MISUSED;
}

static int run_trace_dump(const void *opts, int argc, char **argv) {
    const struct dump_opts *o = opts;
    unsigned only = 0;
    struct strlist paths = { 0 };
    uint64_t left = o->limit;
    int status = EXIT_DONE;
    (void)argc;
    if (o->kind && !(only = find_kind(o->kind))) return unknown_kind(o->kind);
    if (!trace_files_add(&paths, argv[0])) status = command_no_traces(argv[0]);
    for (size_t i = 0; i < paths.n; i++)
        if (dump_file(o, paths.v[i], only, &left) != EXIT_DONE) status = EXIT_FAILED;
    strlist_free(&paths);
    return status;
}

static const struct opt options[] = {
    { 'k', "kind", OPT_STR, offsetof(struct dump_opts, kind), "KIND",
      "only records of this kind: kernel, launch, range, copy, ...", NULL },
    { 'n', "limit", OPT_UINT, offsetof(struct dump_opts, limit), "N", "print at most N records", NULL },
    { 0, "json", OPT_FLAG, offsetof(struct dump_opts, json), NULL, "one JSON object per line", NULL },
};

const struct command cmd_trace_dump = {
    .name = "trace dump",
    .args = "RUN_DIR|FILE.ipt",
    .summary = "print the records of a trace, one per line",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct dump_opts),
    .min_args = 1,
    .max_args = 1,
    .complete = COMPLETE_FILES,
    .run = run_trace_dump,
};

#include "report/export_kept.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/util.h"

static bool next_chunk(struct export_kept *k) {
    struct err ignored; /* the loader has reported chunks that cannot be decoded */
    for (; k->chunk < trace_reader_chunks(k->reader); k->chunk++) {
        if (trace_reader_chunk(k->reader, k->chunk)->kind != TRACE_SOURCE_EVENT) continue;
        if (trace_reader_decode(k->reader, k->chunk++, &k->batch, &ignored) < 0 || !k->batch.n) continue;
        k->row = 0;
        return true;
    }
    return false;
}

bool export_kept_open(struct export_kept *k, struct trace_set *readers, const char *path) {
    *k = (struct export_kept){ .text = STRBUF_INIT, .readers = readers };
    struct err err;
    k->reader = trace_set_take(readers, path, &err);
    if (!k->reader || !next_chunk(k)) return false;
    k->valid = xcalloc((size_t)trace_reader_string_end(k->reader) + 1, 1);
    return true;
}

void export_kept_close(struct export_kept *k) {
    trace_batch_free(&k->batch);
    trace_set_give(k->readers, k->reader);
    strbuf_free(&k->text);
    free(k->valid);
}

static const char *text_of(const struct export_kept *k, uint32_t id) {
    const char *text = trace_reader_string(k->reader, id, NULL);
    return text ? text : "";
}

static void add_double(struct strbuf *out, double v) {
    size_t before = out->len;
    if (!isfinite(v)) {
        strbuf_addstr(out, "null");
        return;
    }
    strbuf_addf(out, "%.17g", v);
    if (!strpbrk(out->buf + before, ".e")) strbuf_addstr(out, ".0"); /* keeps the type float */
}

/* Replaces the placeholders of trace_source_event.args by the numbers of the event; without an event, by
 * null. */
static void fill(struct export_kept *k, const char *template, const struct trace_source_event *e) {
    const uint64_t ids[] = { e ? e->id0 : 0, e ? e->id1 : 0, e ? e->id2 : 0, e ? e->id3 : 0 };
    size_t n = 0;
    bool quoted = false;
    strbuf_reset(&k->text);
    for (const char *p = template; *p; p++) {
        if (quoted && *p == '\\' && p[1]) {
            strbuf_add(&k->text, p++, 2);
            continue;
        }
        if (*p == '"') quoted = !quoted;
        if (!quoted && *p == '#' && n < COUNTOF(ids)) {
            if (e)
                strbuf_addf(&k->text, "%" PRIu64, ids[n]);
            else
                strbuf_addstr(&k->text, "null");
            n++;
        } else if (!quoted && *p == '~') {
            add_double(&k->text, e ? e->value : NAN);
        } else {
            strbuf_addch(&k->text, *p);
        }
    }
}

/* Checks that the arguments are a JSON object, because a trace may be damaged. Each text is checked once,
 * with null for each placeholder: then any number is valid in its place, unlike in "1~". */
static bool is_valid(struct export_kept *k, const char *template) {
    signed char *state = &k->valid[k->event->args];
    struct err err;
    if (*state == 0) {
        fill(k, template, NULL);
        json_t *parsed = jsonr_load_text(k->text.buf, k->text.len, "arguments", &err);
        *state = json_is_object(parsed) ? 1 : -1;
        json_decref(parsed);
    }
    return *state > 0;
}

static const char *arguments(struct export_kept *k) {
    const char *template = text_of(k, k->event->args);
    if (!*template || !is_valid(k, template)) return "";
    fill(k, template, k->event);
    return k->text.buf;
}

bool export_kept_next(struct export_kept *k) {
    if (k->row >= k->batch.n && !next_chunk(k)) return false;
    k->event = &k->batch.source_event[k->row++];
    k->category = text_of(k, k->event->category);
    k->name = text_of(k, k->event->name);
    k->pid_text = text_of(k, k->event->pid_text);
    k->tid_text = text_of(k, k->event->tid_text);
    k->args = arguments(k);
    return true;
}

/* Reads a digest. The file may come from another machine or be damaged: every member is checked, and an error
 * names the file and the member. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/jsonr.h"
#include "base/schema.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "ranks/digest.h"

#define TIME_MAX_NS (INT64_MAX / 4) /* about 73 years: sums of two times do not overflow */

#define STEP_MAX_NS 1e16 /* about 4 months: the sum of DIGEST_CLOCK_STEPS steps does not overflow */

struct source {
    struct rank_digest *d;
    const char *what; /* name of the file or text, for messages */
    struct err *err;
    bool bad; /* err is set */
};

static void refuse(struct source *s, const char *member, const char *expected) {
    if (!s->bad)
        err_set(s->err, "%s: damaged digest: `%s` is not %s; make it again with `inferprof digest`", s->what,
                member, expected);
    s->bad = true;
}

/* ---- members */

static uint64_t get_u64(struct source *s, const json_t *o, const char *key, uint64_t most) {
    const json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n > most) {
        refuse(s, key, "a number in its range");
        return 0;
    }
    return (uint64_t)n;
}

static uint32_t get_known_u32(struct source *s, const json_t *o, const char *key) {
    if (json_is_null(json_object_get(o, key))) return RANK_NONE;
    return (uint32_t)get_u64(s, o, key, RANK_NONE - 1);
}

static bool get_bool(struct source *s, const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_boolean(v)) refuse(s, key, "true or false");
    return json_is_true(v);
}

static const char *get_text(struct source *s, const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_null(v) && !json_is_string(v)) refuse(s, key, "a text or null");
    return digest_text(s->d, json_string_value(v));
}

static double number_of(struct source *s, const json_t *v, const char *key) {
    if (json_is_null(v)) return NAN;
    double n = json_is_number(v) ? json_number_value(v) : NAN;
    if (!isfinite(n) || fabs(n) > 1e300) refuse(s, key, "a number or null");
    return n;
}

/* Reads a number that is not negative; NaN: unknown. */
static double get_amount(struct source *s, const json_t *o, const char *key) {
    double n = number_of(s, json_object_get(o, key), key);
    /* a difference of two sums may be slightly below 0, because of rounding */
    if (n < -1) refuse(s, key, "0 or more");
    return n;
}

/* Converts a time relative to base_ns to a time on the rank's own clock. */
static uint64_t time_of(struct source *s, const json_t *v, const char *key) {
    json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n > TIME_MAX_NS || n < -TIME_MAX_NS ||
        (n < 0 && (uint64_t)-n > s->d->base_ns)) {
        refuse(s, key, "a time in ns");
        return 0;
    }
    return s->d->base_ns + (uint64_t)n;
}

static const json_t *get_array(struct source *s, const json_t *o, const char *key, size_t most) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_array(v) || json_array_size(v) > most) refuse(s, key, "a list of a permitted length");
    return json_is_array(v) && json_array_size(v) <= most ? v : NULL;
}

/* Returns a column, or NULL after an error. All columns of a table must have n rows. */
static const json_t *get_column(struct source *s, const json_t *o, const char *key, size_t n) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_array(v) || json_array_size(v) != n) refuse(s, key, "as long as the other columns");
    return s->bad ? NULL : v;
}

static const char *const *get_texts(struct source *s, const json_t *o, const char *key, size_t *n) {
    const json_t *list = get_array(s, o, key, DIGEST_TRACES);
    const char **v = digest_alloc(s->d, json_array_size(list), sizeof *v);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = digest_text(s->d, json_string_value(json_array_get(list, i)));
        if (text) v[(*n)++] = text;
    }
    return v;
}

/* ---- parts of the document */

static void read_identity(struct source *s, const json_t *o) {
    struct rank_digest *d = s->d;
    d->rank = get_known_u32(s, o, "rank");
    d->world_size = get_known_u32(s, o, "world_size");
    d->local_rank = get_known_u32(s, o, "local_rank");
    d->node_rank = get_known_u32(s, o, "node_rank");
    d->pid = get_known_u32(s, o, "pid");
    d->node = get_text(s, o, "node");
    d->host = get_text(s, o, "host");
    d->launcher = get_text(s, o, "launcher");
    d->job = get_text(s, o, "job");
    d->finished = get_bool(s, o, "finished");
    d->relative_clock = get_bool(s, o, "relative_clock");
    d->device = get_text(s, o, "device");
    d->device_uuid = get_text(s, o, "device_uuid");
    d->traces = get_texts(s, o, "traces", &d->ntraces);
    d->warnings = get_texts(s, o, "problems", &d->nwarnings);
}

static void read_totals(struct source *s, const json_t *o) {
    struct rank_digest *d = s->d;
    d->base_ns = d->first_ns = get_u64(s, o, "base_ns", TIME_MAX_NS);
    d->last_ns = time_of(s, json_object_get(o, "last_ns"), "last_ns");
    const json_t *end = json_object_get(o, "first_step_end_ns");
    if (!json_is_null(end)) d->first_step_end_ns = time_of(s, end, "first_step_end_ns");
    d->kernels = get_u64(s, o, "kernels", INT64_MAX);
    d->launches = get_u64(s, o, "launches", INT64_MAX);
    d->lost_records = get_u64(s, o, "lost_records", INT64_MAX);
    d->ncollectives_total = get_u64(s, o, "collectives_recorded", INT64_MAX);
    d->timeline_ns = get_amount(s, o, "timeline_ns");
    d->unrecorded_ns = get_amount(s, o, "unrecorded_ns");
    d->hidden_ns = get_amount(s, o, "hidden_ns");
    d->sm_mhz_mean = get_amount(s, o, "sm_mhz_mean");
    d->throttled_ns = get_amount(s, o, "throttled_ns");
    d->joules = get_amount(s, o, "joules");
    if (!s->bad && d->last_ns < d->first_ns) refuse(s, "last_ns", "after the first record");
}

/* Digests of earlier versions do not have this list. */
static void read_clock_steps(struct source *s, const json_t *o) {
    const json_t *list =
        json_object_get(o, "clock_steps") ? get_array(s, o, "clock_steps", DIGEST_CLOCK_STEPS) : NULL;
    struct rank_clock_step *v = digest_alloc(s->d, json_array_size(list), sizeof *v);
    for (size_t i = 0; i < json_array_size(list) && !s->bad; i++) {
        const json_t *step = json_array_get(list, i);
        v[i] = (struct rank_clock_step){ .at_ns = get_u64(s, step, "at_ns", TIME_MAX_NS),
                                         .step_ns = number_of(s, json_object_get(step, "step_ns"), "step_ns"),
                                         .error_ns = get_amount(s, step, "error_ns") };
        if (!(fabs(v[i].step_ns) < STEP_MAX_NS)) refuse(s, "step_ns", "a time in ns");
        if (!(v[i].error_ns < STEP_MAX_NS)) refuse(s, "error_ns", "a time in ns");
    }
    s->d->clock_steps = v;
    s->d->nclock_steps = json_array_size(list);
}

static void read_steps(struct source *s, const json_t *o, struct digest_stage *out) {
    const json_t *rows = json_object_get(o, "rows");
    size_t n = json_array_size(get_array(s, rows, "steps", RANK_STEPS_MAX));
    const json_t *start = get_column(s, rows, "start_ns", n), *steps = get_column(s, rows, "steps", n),
                 *wall = get_column(s, rows, "wall_ns", n), *compute = get_column(s, rows, "compute_ns", n),
                 *exposed = get_column(s, rows, "exposed_ns", n), *tokens = get_column(s, rows, "tokens", n);
    out->steps_per_row = (uint32_t)get_u64(s, o, "steps_per_row", 1u << 30);
    if (!s->bad && (!out->steps_per_row || (out->steps_per_row & (out->steps_per_row - 1))))
        refuse(s, "steps_per_row", "a power of two");
    if (s->bad) return;
    out->rows = digest_alloc(s->d, n, sizeof *out->rows);
    out->nrows = n;
    for (size_t i = 0; i < n && !s->bad; i++) {
        json_int_t count = json_integer_value(json_array_get(steps, i));
        if (count < 0 || count > out->steps_per_row) refuse(s, "steps", "at most `steps_per_row`");
        out->rows[i] =
            (struct digest_step){ .start_ns = time_of(s, json_array_get(start, i), "start_ns"),
                                  .steps = (uint32_t)count,
                                  .wall_ns = number_of(s, json_array_get(wall, i), "wall_ns"),
                                  .compute_ns = number_of(s, json_array_get(compute, i), "compute_ns"),
                                  .exposed_ns = number_of(s, json_array_get(exposed, i), "exposed_ns"),
                                  .tokens = number_of(s, json_array_get(tokens, i), "tokens") };
    }
}

/* Reads up to n numbers. A newer version may write more causes or categories, after the known ones. */
static void read_numbers(struct source *s, const json_t *o, const char *key, double *out, size_t n) {
    const json_t *v = get_array(s, o, key, 1000);
    for (size_t i = 0; i < n && i < json_array_size(v); i++) out[i] = number_of(s, json_array_get(v, i), key);
}

static void read_stage(struct source *s, const json_t *o, size_t row, struct digest_stage *out) {
    out->name = get_text(s, o, "name");
    out->path = get_text(s, o, "path");
    out->parent = get_known_u32(s, o, "parent");
    out->outside = get_bool(s, o, "outside");
    out->implicit = get_bool(s, o, "implicit");
    out->occurrences = get_u64(s, o, "occurrences", INT64_MAX);
    out->kernels = get_u64(s, o, "kernels", INT64_MAX);
    out->launches = get_u64(s, o, "launches", INT64_MAX);
    out->tokens_in = get_amount(s, o, "tokens_in");
    out->tokens_out = get_amount(s, o, "tokens_out");
    out->compute_ns = get_amount(s, o, "compute_ns");
    out->exposed_ns = get_amount(s, o, "exposed_ns");
    out->copy_ns = get_amount(s, o, "copy_ns");
    out->idle_ns = get_amount(s, o, "idle_ns");
    read_numbers(s, o, "idle_cause_ns", out->idle_cause_ns, ANALYSIS_IDLE_CAUSES);
    read_numbers(s, o, "category_ns", out->category_ns, KERNEL_CATEGORY_END);
    read_steps(s, o, out);
    if (!out->name || !out->path) refuse(s, "name", "a text");
    if (out->parent != RANK_NONE && out->parent >= row) refuse(s, "parent", "an earlier stage");
}

static void read_stages(struct source *s, const json_t *o) {
    const json_t *list = get_array(s, o, "stages", DIGEST_STAGES);
    size_t n = json_array_size(list);
    s->d->stages = digest_alloc(s->d, n, sizeof *s->d->stages);
    for (size_t i = 0; i < n && !s->bad; i++, s->d->nstages++)
        read_stage(s, json_array_get(list, i), i, &s->d->stages[i]);
}

/* Digests of earlier versions do not have it. */
static void read_unassigned(struct source *s, const json_t *o) {
    const json_t *t = json_object_get(o, "unassigned");
    if (!t) return;
    s->d->unassigned = (struct digest_unassigned){ .compute_ns = get_amount(s, t, "compute_ns"),
                                                   .exposed_ns = get_amount(s, t, "exposed_ns"),
                                                   .copy_ns = get_amount(s, t, "copy_ns"),
                                                   .idle_ns = get_amount(s, t, "idle_ns") };
}

static void read_classes(struct source *s, const json_t *o) {
    const json_t *list = get_array(s, o, "kernel_classes", DIGEST_CLASSES);
    size_t n = json_array_size(list);
    s->d->classes = digest_alloc(s->d, n, sizeof *s->d->classes);
    for (size_t i = 0; i < n && !s->bad; i++, s->d->nclasses++) {
        const json_t *c = json_array_get(list, i);
        s->d->classes[i] = (struct digest_class){ .name = get_text(s, c, "name"),
                                                  .blocks = get_u64(s, c, "blocks", INT64_MAX),
                                                  .threads = get_u64(s, c, "threads", INT64_MAX),
                                                  .calls = get_u64(s, c, "calls", INT64_MAX),
                                                  .total_ns = get_amount(s, c, "total_ns"),
                                                  .communicates = get_bool(s, c, "communicates") };
        if (!s->d->classes[i].name) refuse(s, "name", "a text");
    }
}

static uint64_t get_hex(struct source *s, const json_t *o, const char *key) {
    const char *text = json_string_value(json_object_get(o, key));
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        refuse(s, key, "16 hexadecimal digits");
        return 0;
    }
    return strtoull(text, NULL, 16);
}

static uint64_t get_known_u64(struct source *s, const json_t *o, const char *key, uint64_t most) {
    return json_is_null(json_object_get(o, key)) ? 0 : get_u64(s, o, key, most);
}

static void read_operations(struct source *s, const json_t *o) {
    const json_t *list = get_array(s, o, "operations", DIGEST_OPERATIONS);
    size_t n = json_array_size(list);
    s->d->operations = digest_alloc(s->d, n, sizeof *s->d->operations);
    for (size_t i = 0; i < n && !s->bad; i++, s->d->noperations++) {
        const json_t *p = json_array_get(list, i);
        struct digest_operation *out = &s->d->operations[i];
        out->communicator = get_hex(s, p, "communicator");
        out->communicator_name = get_text(s, p, "communicator_name");
        out->op = get_text(s, p, "operation");
        out->type = get_text(s, p, "type");
        out->bytes = get_known_u64(s, p, "bytes", INT64_MAX);
        out->size = (uint32_t)get_known_u64(s, p, "size", RANK_NONE - 1);
        out->pair = get_bool(s, p, "pair");
        out->from_rank = get_known_u32(s, p, "from_rank");
        out->to_rank = get_known_u32(s, p, "to_rank");
        out->from_kernel = get_bool(s, p, "from_kernel");
        out->matchable = get_bool(s, p, "matchable");
        out->calls = get_u64(s, p, "calls", INT64_MAX);
        out->exposed_ns = get_amount(s, p, "exposed_ns");
        out->total_ns = get_amount(s, p, "total_ns");
    }
}

static uint32_t small_of(struct source *s, const json_t *v, const char *key, uint32_t below, uint32_t none) {
    json_int_t n = json_integer_value(v);
    if (json_is_null(v) && none) return none;
    if (!json_is_integer(v) || n < 0 || n >= below) {
        refuse(s, key, "a row that exists");
        return 0;
    }
    return (uint32_t)n;
}

static void read_pieces(struct source *s, const json_t *list, struct digest_collective *c, size_t *cap) {
    size_t n = json_array_size(list) / 2;
    uint64_t last = 0, length = c->end_ns - c->start_ns;
    if (!json_is_array(list) || n > DIGEST_PIECES || json_array_size(list) % 2 || s->d->npieces + n > *cap) {
        refuse(s, "exposed_parts", "a list of pairs");
        return;
    }
    c->first_piece = (uint32_t)s->d->npieces;
    c->npieces = (uint8_t)n;
    for (size_t i = 0; i < n; i++) {
        json_int_t from = json_integer_value(json_array_get(list, 2 * i));
        json_int_t to = json_integer_value(json_array_get(list, 2 * i + 1));
        if (from < 0 || (uint64_t)from < last || to < from || (uint64_t)to > length) {
            refuse(s, "exposed_parts", "in order and inside of the collective");
            return;
        }
        last = (uint64_t)to;
        s->d->pieces[s->d->npieces++] = (struct digest_piece){ (uint64_t)from, (uint64_t)to };
    }
}

static size_t count_pieces(const json_t *parts) {
    size_t n = 0, i;
    const json_t *v;
    json_array_foreach(parts, i, v) n += json_array_size(v) / 2;
    return n;
}

static void read_collectives(struct source *s, const json_t *document) {
    struct rank_digest *d = s->d;
    const json_t *o = json_object_get(document, "collectives");
    size_t n = json_array_size(get_array(s, o, "sequence", 16u << 20));
    const json_t *operation = get_column(s, o, "operation", n), *sequence = get_column(s, o, "sequence", n),
                 *start = get_column(s, o, "start_ns", n), *end = get_column(s, o, "end_ns", n),
                 *exposed = get_column(s, o, "exposed_ns", n), *stage = get_column(s, o, "stage", n),
                 *step = get_column(s, o, "step", n), *parts = get_column(s, o, "exposed_parts", n);
    d->every = (uint32_t)get_u64(s, o, "every", 1u << 30);
    if (!s->bad && (!d->every || (d->every & (d->every - 1)))) refuse(s, "every", "a power of two");
    if (s->bad) return;
    size_t cap = count_pieces(parts);
    d->collectives = digest_alloc(d, n, sizeof *d->collectives);
    d->pieces = digest_alloc(d, cap, sizeof *d->pieces);
    for (size_t i = 0; i < n && !s->bad; i++) {
        struct digest_collective *c = &d->collectives[d->ncollectives++];
        json_int_t seq = json_integer_value(json_array_get(sequence, i));
        c->sequence = (uint64_t)seq;
        c->operation = small_of(s, json_array_get(operation, i), "operation", (uint32_t)d->noperations, 0);
        c->start_ns = time_of(s, json_array_get(start, i), "start_ns");
        c->end_ns = time_of(s, json_array_get(end, i), "end_ns");
        c->exposed_ns = (float)number_of(s, json_array_get(exposed, i), "exposed_ns");
        c->stage =
            (uint16_t)small_of(s, json_array_get(stage, i), "stage", (uint32_t)d->nstages, DIGEST_NO_STAGE);
        c->step = small_of(s, json_array_get(step, i), "step", RANK_NONE, RANK_NONE);
        if (seq < 0) refuse(s, "sequence", "0 or more");
        if (c->end_ns < c->start_ns) refuse(s, "end_ns", "after its start");
        if (!s->bad) read_pieces(s, json_array_get(parts, i), c, &cap);
    }
}

static struct rank_digest *read_document(const json_t *o, const char *what, struct err *err) {
    struct source s = { .d = digest_new(), .what = what, .err = err };
    const char *schema = json_string_value(json_object_get(o, "schema"));
    unsigned version = schema_version(schema, SCHEMA_DIGEST);
    if (version != schema_version(SCHEMA_DIGEST, SCHEMA_DIGEST)) {
        if (!version)
            err_set(err, "%s: not a digest of a rank", what);
        else
            err_set(err,
                    "%s: digest of version %u, but this program reads another version; make it again "
                    "with `inferprof digest`",
                    what, version);
        rank_digest_free(s.d);
        return NULL;
    }
    read_identity(&s, o);
    read_totals(&s, o);
    if (!s.bad) read_clock_steps(&s, o);
    if (!s.bad) read_stages(&s, o);
    if (!s.bad) read_unassigned(&s, o);
    if (!s.bad) read_classes(&s, o);
    if (!s.bad) read_operations(&s, o);
    if (!s.bad) read_collectives(&s, o);
    if (!s.bad) {
        digest_finish(s.d);
        return s.d;
    }
    rank_digest_free(s.d);
    return NULL;
}

struct rank_digest *rank_digest_parse(const char *text, size_t n, const char *what, struct err *err) {
    json_t *o = jsonr_load_text(text, n, what, err);
    struct rank_digest *d = o ? read_document(o, what, err) : NULL;
    json_decref(o);
    return d;
}

struct rank_digest *rank_digest_read(const char *path, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    struct rank_digest *d = NULL;
    if (file_read(path, DIGEST_BYTES_MAX, &text, err) == 0)
        d = rank_digest_parse(text.buf ? text.buf : "", text.len, path, err);
    strbuf_free(&text);
    if (d) d->path = digest_text(d, path);
    return d;
}

#include "base/columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/die.h"
#include "base/text.h"
#include "base/util.h"

static unsigned position(const struct column *c, enum column_document document) {
    switch (document) {
    case COLUMN_DOC_CSV: return c->data & CSV ? 1 : 0;
    case COLUMN_DOC_MARKDOWN: return c->at.md;
    case COLUMN_DOC_HTML: return c->at.html;
    case COLUMN_DOC_TERMINAL: return c->at.terminal;
    case COLUMN_DOC_SUMMARY: return c->at.summary;
    }
    return 0;
}

/* Columns with equal positions keep their order. */
static void insert_column(struct column_set *set, const struct column *c, const struct column_group *g) {
    size_t at = set->n++;
    if (set->n > COLUMN_SET_MAX) die("columns: more than %d", COLUMN_SET_MAX);
    for (; at && position(set->v[at - 1].column, set->document) > position(c, set->document); at--)
        set->v[at] = set->v[at - 1];
    set->v[at] = (struct column_in_set){ c, g };
}

void column_set_init(struct column_set *set, const struct column_group *groups, size_t ngroups,
                     enum column_document document, const void *context) {
    set->document = document;
    set->other_headings = set->name_runs = false;
    set->n = 0;
    for (size_t g = 0; g < ngroups; g++) {
        if (groups[g].exists && !groups[g].exists(context)) continue;
        for (size_t i = 0; i < groups[g].n; i++)
            if (position(&groups[g].columns[i], document))
                insert_column(set, &groups[g].columns[i], &groups[g]);
    }
}

struct column_row column_row_in(const struct column_in_set *c, const struct column_row *r) {
    struct column_row own = *r;
    if (c->group->item) own.item = c->group->item(r);
    return own;
}

static struct column_value read_field(const struct column_source *s, const void *item) {
    const char *at = (const char *)item + s->offset;
    switch (s->type) {
    case COLUMN_F64: return column_f64(*(const double *)(const void *)at);
    case COLUMN_U64: return column_u64(*(const uint64_t *)(const void *)at);
    case COLUMN_U32: return column_u64(*(const uint32_t *)(const void *)at);
    case COLUMN_BOOL: return (struct column_value){ .type = COLUMN_BOOL, .flag = *(const bool *)at };
    case COLUMN_STR: return column_str(*(const char *const *)(const void *)at);
    default: return (struct column_value){ .type = COLUMN_NONE };
    }
}

struct column_value column_get(const struct column *c, const struct column_row *r) {
    if (!r->item) return (struct column_value){ .type = COLUMN_NONE };
    return c->source.get ? c->source.get(r) : read_field(&c->source, r->item);
}

double column_number(struct column_value v) {
    if (v.type == COLUMN_U64) return (double)v.u64;
    return v.type == COLUMN_F64 ? v.f64 : NAN;
}

bool column_is_text(const struct column *c) { return c->format == COLUMN_TEXT || c->format == COLUMN_NAME; }

/* One or two decimals would show 0.004 as 0.0. */
static struct text plain_number(const struct column *c, double v) {
    bool few = c->decimals == 1 || c->decimals == 2;
    return text_num(v, few && v != 0 && fabs(v) < 0.1 ? 4 : c->decimals);
}

/* Without decimals, 0.4 GB/s would be 0. */
static struct text giga_number(const struct column *c, double v) {
    bool small = v != 0 && fabs(v) < 1;
    return text_num(v, !small ? c->decimals : fabs(v) < 0.1 ? MAX(c->decimals, 4) : MAX(c->decimals, 2));
}

static struct text format_number(const struct column *c, double v) {
    switch (c->format) {
    case COLUMN_COUNT: return text_num(v, 0);
    case COLUMN_NUMBER: return plain_number(c, v);
    case COLUMN_TERA: return plain_number(c, v * 1e-12);
    case COLUMN_MS: return text_ms_number(v);
    case COLUMN_NS_MS: return text_ms_number(v / 1e6);
    case COLUMN_NS_US: return text_us_number(v);
    case COLUMN_SHARE:
    case COLUMN_PERCENT: return text_percent(v);
    case COLUMN_PCT: return text_percent(v / 100);
    case COLUMN_TIMES: return text_times(v);
    case COLUMN_FLOPS: return text_flops(v);
    case COLUMN_BYTES: return text_bytes(v);
    case COLUMN_GIGA: return giga_number(c, v * 1e-9);
    case COLUMN_UNITS: return text_units(v);
    case COLUMN_SECONDS: return text_seconds(v);
    case COLUMN_TEXT:
    case COLUMN_NAME:
    case COLUMN_YES_NO: break;
    }
    return text_num(NAN, 0);
}

void column_show(const struct column *c, const struct column_row *r, struct strbuf *out) {
    size_t before = out->len;
    if (c->show && r->item) c->show(r, out);
    if (out->len > before) return;
    struct column_value v = column_get(c, r);
    if (c->format == COLUMN_YES_NO)
        strbuf_addstr(out, text_or_dash(v.type != COLUMN_BOOL ? NULL : v.flag ? "yes" : "no"));
    else if (column_is_text(c))
        strbuf_addstr(out, text_or_dash(v.type == COLUMN_STR ? v.str : NULL));
    else
        strbuf_addstr(out, format_number(c, column_number(v)).s);
}

void column_csv_cell(struct column_value v, struct table *t) {
    switch (v.type) {
    case COLUMN_F64: table_cell(t, "%s", text_raw(v.f64).s); return;
    case COLUMN_U64: table_cell(t, "%" PRIu64, v.u64); return;
    case COLUMN_BOOL: table_cell(t, "%s", v.flag ? "true" : "false"); return;
    case COLUMN_STR: table_cell(t, "%s", v.str ? v.str : ""); return;
    case COLUMN_DIMS:
        if (!v.dims[0]) break;
        table_cell(t, "%ux%ux%u", v.dims[0], v.dims[1], v.dims[2]);
        return;
    case COLUMN_U32:
    case COLUMN_NONE: break;
    }
    table_cell(t, "%s", "");
}

void column_set_heads(const struct column_set *set, struct table *t) {
    char key[64], named[64];
    table_init(t);
    for (size_t i = 0; i < set->n; i++) {
        const struct column *c = set->v[i].column;
        const char *prefix = set->v[i].group->csv_prefix;
        snprintf(key, sizeof key, "%s%s", prefix ? prefix : "", c->key ? c->key : "");
        const char *heading = set->other_headings && c->other_heading ? c->other_heading : c->heading;
        if (set->name_runs && c->run_name) {
            snprintf(named, sizeof named, "%s (%s)", heading, c->run_name);
            heading = named;
        }
        table_column(t, set->document == COLUMN_DOC_CSV ? key : heading,
                     column_is_text(c) && !c->right ? TABLE_LEFT : TABLE_RIGHT);
    }
}

void column_set_cells(const struct column_set *set, const struct column_row *r, struct table *t) {
    struct strbuf shown = STRBUF_INIT;
    for (size_t i = 0; i < set->n; i++) {
        struct column_row own = column_row_in(&set->v[i], r);
        if (set->document == COLUMN_DOC_CSV) {
            column_csv_cell(column_get(set->v[i].column, &own), t);
            continue;
        }
        strbuf_reset(&shown);
        column_show(set->v[i].column, &own, &shown);
        table_cell(t, "%s", shown.buf);
    }
    strbuf_free(&shown);
}

const void *column_item(const struct column_items *items, size_t i) {
    const void *item =
        items->bytes ? (const char *)items->v + i * items->bytes : ((const void *const *)items->v)[i];
    return !items->keep || items->keep(item) ? item : NULL;
}

void column_set_table(const struct column_set *set, const void *context, struct column_items items,
                      struct table *t) {
    column_set_heads(set, t);
    for (size_t i = 0; i < items.n; i++) {
        struct column_row r = { context, column_item(&items, i), i };
        if (r.item) column_set_cells(set, &r, t);
    }
}

void columns_table(const struct column_group *groups, size_t ngroups, enum column_document document,
                   const void *context, struct column_items items, struct table *t) {
    struct column_set set;
    column_set_init(&set, groups, ngroups, document, context);
    column_set_table(&set, context, items, t);
}

static void json_value(struct column_value v, struct jsonw *j) {
    switch (v.type) {
    case COLUMN_F64: jsonw_num(j, v.f64); return;
    case COLUMN_U64: jsonw_u64(j, v.u64); return;
    case COLUMN_BOOL: jsonw_bool(j, v.flag); return;
    case COLUMN_STR: jsonw_str(j, v.str); return;
    case COLUMN_DIMS:
        if (!v.dims[0]) break;
        jsonw_array(j);
        for (int i = 0; i < 3; i++) jsonw_u64(j, v.dims[i]);
        jsonw_end(j);
        return;
    case COLUMN_U32:
    case COLUMN_NONE: break;
    }
    jsonw_null(j);
}

void columns_json(const struct column_group *group, const struct column_row *r, struct jsonw *j) {
    for (size_t i = 0; i < group->n; i++) {
        const struct column *c = &group->columns[i];
        if (!(c->data & JSON)) continue;
        jsonw_key(j, c->key);
        json_value(column_get(c, r), j);
    }
}

void columns_json_array(const char *key, const struct column_group *group, const void *context,
                        struct column_items items, size_t limit, struct jsonw *j) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < MIN(items.n, limit); i++) {
        struct column_row r = { context, column_item(&items, i), i };
        if (!r.item) continue;
        jsonw_object(j);
        columns_json(group, &r, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

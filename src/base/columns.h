/* Tables as data: one row per column, with its key, heading, help text, format and source. A
 * new metric needs only one row.
 *     { "mean_ns", "mean us", COLUMN_NS_US, FIELD(struct analysis_kernel, mean_ns),
 *       .data = CSV | JSON, .at = { .md = 80, .html = 50 }, .help = "mean duration of a call" },
 * CSV and JSON contain the value with full precision, in the order of the rows. Markdown, HTML and the
 * terminal contain it formatted, in the order of the position numbers. NaN and NULL are unknown: empty in
 * CSV, null in JSON, otherwise a dash. */
#ifndef BASE_COLUMNS_H
#define BASE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/jsonw.h"
#include "base/strbuf.h"
#include "base/table.h"

enum column_type {
    COLUMN_NONE, /* unknown */
    COLUMN_F64,
    COLUMN_U64,
    COLUMN_U32, /* only for values of fields */
    COLUMN_BOOL,
    COLUMN_STR,
    COLUMN_DIMS, /* uint32_t[3]; [0] == 0: unknown */
};
struct column_value {
    enum column_type type;
    union {
        double f64;
        uint64_t u64;
        bool flag;
        const char *str; /* NULL: unknown */
        const uint32_t *dims;
    };
};

/* How a value is formatted. Text is left-aligned, everything else right-aligned. */
enum column_format {
    COLUMN_TEXT,
    COLUMN_NAME,    /* HTML: `below` has the full name */
    COLUMN_COUNT,   /* 1,234 */
    COLUMN_NUMBER,  /* with `decimals` */
    COLUMN_MS,      /* value in ms */
    COLUMN_NS_MS,   /* ns, shown as ms */
    COLUMN_NS_US,   /* ns, shown as us */
    COLUMN_SHARE,   /* as COLUMN_PERCENT; HTML adds a bar */
    COLUMN_PERCENT, /* fraction, shown as percent */
    COLUMN_PCT,     /* percent, from 0 to 100 */
    COLUMN_TIMES,   /* 3.4x */
    COLUMN_FLOPS,
    COLUMN_BYTES,
    COLUMN_GIGA,    /* value / 1e9, with `decimals` */
    COLUMN_TERA,    /* value / 1e12, as COLUMN_NUMBER */
    COLUMN_UNITS,   /* 12.3 M */
    COLUMN_SECONDS, /* 1.23 ms */
    COLUMN_YES_NO,
};

/* One row of a table. */
struct column_row {
    const void *context; /* shared by all rows of a table; may be NULL */
    const void *item;    /* NULL: all values are unknown */
    size_t index;
};

enum column_data { CSV = 1, JSON = 2 };

/* A member of the item, or a function. */
struct column_source {
    size_t offset;
    enum column_type type;
    struct column_value (*get)(const struct column_row *r);
};
/* The type follows from the member. */
#define FIELD(item, field) \
    { .offset = offsetof(item, field), .type = COLUMN_TYPE_OF(((item *)0)->field) }
#define GET(function) \
    { .get = function }
#define COLUMN_TYPE_OF(x) \
    _Generic((x), double: COLUMN_F64, uint64_t: COLUMN_U64, uint32_t: COLUMN_U32, bool: COLUMN_BOOL, \
             const char *: COLUMN_STR, char *: COLUMN_STR)

typedef void column_writer(const struct column_row *r, struct strbuf *out);
struct column {
    const char *key;     /* CSV heading and JSON key */
    const char *heading; /* with the unit */
    enum column_format format;
    struct column_source source;
    unsigned data; /* enum column_data: the data files that contain this column */
    /* Positions in Markdown, HTML, terminal and summary. Columns are in ascending order; 0: omitted. */
    struct {
        uint8_t md, html, terminal, summary;
    } at;
    const char *help;          /* HTML: tooltip of the heading */
    const char *other_heading; /* for column_set.other_headings; NULL: `heading` */
    /* "timed" or "recorded": added to the heading if column_set.name_runs is set. NULL: nothing is added. */
    const char *run_name;
    /* Writes the text instead of the formatted value. HTML still sorts by the value. */
    column_writer *show;
    column_writer *below;   /* HTML: writes a second line */
    column_writer *tooltip; /* HTML */
    column_writer *swatch;  /* HTML: writes the CSS class of a coloured square before the text */
    int decimals;
    bool right; /* text is right-aligned */
};

/* Columns that are shown only if their data exists. */
struct column_group {
    const struct column *columns;
    size_t n;
    bool (*exists)(const void *context);               /* NULL: always */
    const void *(*item)(const struct column_row *row); /* NULL: the row's own item */
    const char *csv_prefix;                            /* CSV heading prefix; NULL: none */
};

static inline struct column_value column_f64(double v) {
    return (struct column_value){ .type = COLUMN_F64, .f64 = v };
}
static inline struct column_value column_u64(uint64_t v) {
    return (struct column_value){ .type = COLUMN_U64, .u64 = v };
}
/* 0: unknown */
static inline struct column_value column_u64_known(uint64_t v) {
    return v ? column_u64(v) : (struct column_value){ .type = COLUMN_NONE };
}
/* below 0: unknown */
static inline struct column_value column_bool_known(int v) {
    return v < 0 ? (struct column_value){ .type = COLUMN_NONE }
                 : (struct column_value){ .type = COLUMN_BOOL, .flag = v > 0 };
}
static inline struct column_value column_str(const char *s) {
    return (struct column_value){ .type = COLUMN_STR, .str = s };
}
static inline struct column_value column_dims(const uint32_t d[3]) {
    return (struct column_value){ .type = COLUMN_DIMS, .dims = d };
}

/* The rows of a table: an array of items, or of pointers to items (bytes 0). */
struct column_items {
    const void *v;
    size_t n, bytes;
    bool (*keep)(const void *item); /* NULL: all of them */
};

enum column_document {
    COLUMN_DOC_CSV,
    COLUMN_DOC_MARKDOWN,
    COLUMN_DOC_HTML,
    COLUMN_DOC_TERMINAL,
    COLUMN_DOC_SUMMARY
};

/* The columns of one document, sorted. */
#define COLUMN_SET_MAX 64
struct column_set {
    enum column_document document;
    bool other_headings; /* use column.other_heading */
    bool name_runs;      /* add column.run_name to the headings */
    struct column_in_set {
        const struct column *column;
        const struct column_group *group;
    } v[COLUMN_SET_MAX];
    size_t n;
};
void column_set_init(struct column_set *set, const struct column_group *groups, size_t ngroups,
                     enum column_document document, const void *context);
/* Writes the headings and the items. Also initialises the table. */
void column_set_table(const struct column_set *set, const void *context, struct column_items items,
                      struct table *t);
void column_set_heads(const struct column_set *set, struct table *t);
void column_set_cells(const struct column_set *set, const struct column_row *r, struct table *t);

const void *column_item(const struct column_items *items, size_t i); /* NULL: `keep` returns false */
void columns_table(const struct column_group *groups, size_t ngroups, enum column_document document,
                   const void *context, struct column_items items, struct table *t);
/* Writes "key": [ { ... }, ... ]. Uses the first `limit` items, without those that `keep` rejects. */
void columns_json_array(const char *key, const struct column_group *group, const void *context,
                        struct column_items items, size_t limit, struct jsonw *j);
/* writes members of an object */
void columns_json(const struct column_group *group, const struct column_row *r, struct jsonw *j);

/* For writers of documents. */
struct column_row column_row_in(const struct column_in_set *c, const struct column_row *r);
struct column_value column_get(const struct column *c, const struct column_row *r);
void column_csv_cell(struct column_value v, struct table *t);
double column_number(struct column_value v); /* NaN: unknown or text */
void column_show(const struct column *c, const struct column_row *r, struct strbuf *out); /* for people */
bool column_is_text(const struct column *c);

#endif

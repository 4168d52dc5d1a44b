/* Conditions of a list of runs. SQLite does not know how many runs match each condition. Therefore they are
 * counted first: the condition with the fewest runs leads, and the other columns are written as "+column",
 * which excludes their indexes. PostgreSQL decides itself. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "history/query_internal.h"

/* Up to this many matches, reading and sorting them is cheaper than reading all runs in sorted order. */
#define FEW_RUNS 2000
#define UNKNOWN_RUNS (INT64_MAX - 1) /* not counted: leads last */
#define WORDS_MAX 8                  /* other words are ignored */

static const struct filter_column {
    const char *column;
    size_t offset;
    bool grouped; /* column of run_groups */
} columns[] = {
    { "model", offsetof(struct history_filter, model), true },
    { "device", offsetof(struct history_filter, device), true },
    { "engine", offsetof(struct history_filter, engine), true },
    { "host", offsetof(struct history_filter, host), true },
    { "version", offsetof(struct history_filter, version), false },
};

static const char *column_value(const struct history_filter *f, size_t i) {
    return *(const char *const *)((const char *)f + columns[i].offset);
}

static bool is_pattern(const char *value) { return strchr(value, '*') != NULL; }

void query_free(struct query *q) {
    strbuf_free(&q->sql);
    strlist_free(&q->texts);
}

/* Adds a parameter. Copies the text. */
static void add_copy(struct query *q, const char *text) {
    strlist_add(&q->texts, "%s", text);
    db_text(&q->args, q->texts.v[q->texts.n - 1]);
}

/* Adds a LIKE pattern as a parameter. If `stars`, '*' matches any text; no other character is special. */
static void add_like(struct query *q, const char *before, const char *text, bool stars, const char *after) {
    struct strbuf pattern = STRBUF_INIT;
    strbuf_addstr(&pattern, before);
    for (const char *p = text; *p; p++) {
        if (*p == '%' || *p == '_' || *p == '\\') strbuf_addch(&pattern, '\\');
        strbuf_addch(&pattern, stars && *p == '*' ? '%' : *p);
    }
    strbuf_addstr(&pattern, after);
    add_copy(q, pattern.buf);
    strbuf_free(&pattern);
}

/* Adds "column = $n", or LIKE for a pattern. */
static void add_match(struct query *q, const char *prefix, const char *column, const char *value) {
    if (is_pattern(value)) {
        add_like(q, "", value, true, "");
        strbuf_addf(&q->sql, "LOWER(%s%s) LIKE LOWER($%zu) ESCAPE '\\'", prefix, column, q->args.n);
    } else {
        db_text(&q->args, value);
        strbuf_addf(&q->sql, "%s%s = $%zu", prefix, column, q->args.n);
    }
}

/* ---- words of a search */

struct words {
    char *v[WORDS_MAX];
    size_t n;
    char buffer[400];
    bool indexed; /* the trigram index finds every word */
};

static void split_words(const char *text, struct words *w) {
    w->n = 0;
    w->indexed = true;
    size_t length = text ? strlen(text) : 0;
    if (length >= sizeof w->buffer) { /* only whole characters are copied */
        length = sizeof w->buffer - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    }
    snprintf(w->buffer, sizeof w->buffer, "%.*s", (int)length, text ? text : "");
    char *rest = w->buffer;
    for (char *word; w->n < WORDS_MAX && (word = strtok_r(rest, " \t", &rest));) {
        size_t n = strlen(word);
        bool ascii = true;
        /* LOWER and the index agree only for ASCII. */
        for (size_t i = 0; i < n; i++) ascii = ascii && (unsigned char)word[i] < 0x80;
        w->indexed = w->indexed && n >= 3 && ascii;
        w->v[w->n++] = word;
    }
    w->indexed = w->indexed && w->n > 0;
}

/* Adds the words in quotes as a parameter. */
static void add_index_query(struct query *q, const struct words *w) {
    struct strbuf s = STRBUF_INIT;
    for (size_t i = 0; i < w->n; i++) {
        strbuf_addstr(&s, i ? " AND \"" : "\"");
        for (const char *p = w->v[i]; *p; p++) strbuf_addf(&s, *p == '"' ? "\"\"" : "%c", *p);
        strbuf_addch(&s, '"');
    }
    add_copy(q, s.buf);
    strbuf_free(&s);
}

static void add_words(struct query *q, const struct history *h, const struct words *w) {
    for (size_t i = 0; i < w->n; i++) {
        if (database_is_postgres(h->db)) {
            add_like(q, "%", w->v[i], false, "%");
            strbuf_addf(&q->sql, " AND r.search LIKE LOWER($%zu) ESCAPE '\\'", q->args.n);
        } else {
            add_copy(q, w->v[i]);
            strbuf_addf(&q->sql, " AND INSTR(r.search, LOWER($%zu)) > 0", q->args.n);
        }
    }
}

/* ---- counts */

static int read_count(struct history *h, const struct query *q, int64_t *count, struct err *err) {
    struct db_result r;
    if (database_query(h->db, q->sql.buf, &q->args, &r, err) < 0) return -1;
    *count = db_cell_int(&r, 0, 0);
    db_result_free(&r);
    return 0;
}

/* Counts the runs that match all filters on grouped columns, and for each filter the runs that match it. */
static int count_groups(struct history *h, const struct history_filter *f, struct query_plan *plan,
                        int64_t alone[COUNTOF(columns)], struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    struct strbuf each = STRBUF_INIT;
    struct db_result r;
    size_t at = 1;
    strbuf_addstr(&q.sql, "SELECT SUM(CASE WHEN 1 = 1");
    for (size_t i = 0; i < COUNTOF(columns); i++) {
        const char *value = column_value(f, i);
        if (!value || !columns[i].grouped) continue;
        strbuf_addstr(&q.sql, " AND ");
        size_t start = q.sql.len;
        add_match(&q, "g.", columns[i].column, value);
        strbuf_addf(&each, ", SUM(CASE WHEN %s THEN g.runs ELSE 0 END)", q.sql.buf + start);
    }
    strbuf_addf(&q.sql, " THEN g.runs ELSE 0 END)%s FROM run_groups g", each.len ? each.buf : "");
    int rc = database_query(h->db, q.sql.buf, &q.args, &r, err);
    if (rc == 0) {
        plan->grouped_runs = db_cell_int(&r, 0, 0);
        for (size_t i = 0; i < COUNTOF(columns); i++)
            alone[i] = column_value(f, i) && columns[i].grouped ? db_cell_int(&r, 0, at++) : UNKNOWN_RUNS;
        db_result_free(&r);
    }
    query_free(&q);
    strbuf_free(&each);
    return rc;
}

/* Counts the runs that SQLite's search index finds, up to `most` + 1. */
static int count_found(struct history *h, const struct words *w, int64_t most, int64_t *count,
                       struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    add_index_query(&q, w);
    strbuf_addf(&q.sql,
                "SELECT COUNT(*) FROM (SELECT rowid FROM runs_text WHERE runs_text MATCH $1 LIMIT %lld)",
                (long long)most + 1);
    int rc = read_count(h, &q, count, err);
    query_free(&q);
    return rc;
}

static int count_tagged(struct history *h, const char *tag, int64_t most, int64_t *count, struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    db_text(&q.args, tag);
    strbuf_addf(&q.sql, "SELECT COUNT(*) FROM (SELECT run FROM tags WHERE tag = $1 LIMIT %lld) AS t",
                (long long)most + 1);
    int rc = read_count(h, &q, count, err);
    query_free(&q);
    return rc;
}

/* ---- the plan */

/* Chooses the condition with the fewest runs. A tag or a single value of a column also leads with many runs if
 * the list is in the order of time, because their indexes have this order. The index of tags also has the
 * grouped columns, so a tag with many runs goes before a column with many runs. */
static int choose_lead(struct history *h, const struct history_filter *f, bool by_time,
                       const int64_t alone[COUNTOF(columns)], struct query_plan *plan, struct err *err) {
    struct words w;
    int64_t least = INT64_MAX, found = INT64_MAX, tagged = INT64_MAX;
    size_t lead = 0;
    for (size_t i = 0; i < COUNTOF(columns); i++) {
        const char *value = column_value(f, i);
        if (!value || alone[i] >= least) continue;
        if (alone[i] > FEW_RUNS && (!by_time || is_pattern(value))) continue;
        least = alone[i];
        lead = i;
    }
    split_words(f->text, &w);
    if (w.indexed && count_found(h, &w, FEW_RUNS, &found, err) < 0) return -1;
    if (f->tag && count_tagged(h, f->tag, FEW_RUNS, &tagged, err) < 0) return -1;
    if (found <= FEW_RUNS && found <= least && found <= tagged)
        plan->lead = QUERY_LEAD_SEARCH;
    else if (f->tag && (tagged <= FEW_RUNS ? tagged <= least : by_time && least > FEW_RUNS))
        plan->lead = QUERY_LEAD_TAG;
    else if (least < INT64_MAX)
        plan->lead = QUERY_LEAD_COLUMN + (int)lead;
    return 0;
}

int query_plan(struct history *h, const struct history_filter *f, bool by_time, struct query_plan *plan,
               struct err *err) {
    int64_t alone[COUNTOF(columns)];
    *plan = (struct query_plan){ .lead = QUERY_LEAD_ORDER };
    if (count_groups(h, f, plan, alone, err) < 0) return -1;
    plan->grouped_only = !f->version && !f->tag && !f->text && !f->stage && !f->since_ns && !f->until_ns;
    if (plan->grouped_runs == 0) return 0;
    if (database_is_postgres(h->db)) {
        if (f->tag) plan->lead = QUERY_LEAD_TAG;
        return 0;
    }
    return choose_lead(h, f, by_time, alone, plan, err);
}

const char *query_time_column(const struct query_plan *plan) {
    return plan->lead == QUERY_LEAD_TAG ? "t.started_ns" : "r.started_ns";
}

const char *query_id_column(const struct query_plan *plan) {
    return plan->lead == QUERY_LEAD_TAG ? "t.run" : "r.id";
}

/* An index starts with these three columns. */
static bool is_whole_series(const struct history_filter *f) {
    return f->model && f->device && f->engine && !is_pattern(f->model) && !is_pattern(f->device) &&
           !is_pattern(f->engine);
}

/* A pattern for a grouped column becomes a list of the matching values. */
static void add_column(struct query *q, const struct history *h, const struct history_filter *f,
                       const struct query_plan *plan, size_t i) {
    const char *value = column_value(f, i);
    if (!value) return;
    bool leads = plan->lead == QUERY_LEAD_COLUMN + (int)i ||
                 (plan->lead >= QUERY_LEAD_COLUMN && i < 3 && is_whole_series(f));
    strbuf_addstr(&q->sql, " AND ");
    const char *prefix = plan->lead == QUERY_LEAD_TAG && columns[i].grouped ? "t."
                         : leads || database_is_postgres(h->db)             ? "r."
                                                                            : "+r.";
    if (!is_pattern(value) || !columns[i].grouped) {
        add_match(q, is_pattern(value) ? "r." : prefix, columns[i].column, value);
        return;
    }
    strbuf_addf(&q->sql, "%s%s IN (SELECT g.%s FROM run_groups g WHERE ", prefix, columns[i].column,
                columns[i].column);
    add_match(q, "g.", columns[i].column, value);
    strbuf_addch(&q->sql, ')');
}

/* Adds the tables. CROSS JOIN makes SQLite start with the rows of the tag. */
static void add_tables(struct query *q, const struct history_filter *f, const struct query_plan *plan) {
    bool tag_leads = plan->lead == QUERY_LEAD_TAG;
    strbuf_addstr(&q->sql, tag_leads ? " FROM tags t CROSS JOIN runs r" : " FROM runs r");
    if (f->stage) strbuf_addstr(&q->sql, " JOIN stages s ON s.run = r.id");
    strbuf_addstr(&q->sql, tag_leads ? " WHERE r.id = t.run" : " WHERE 1 = 1");
}

static void add_tag(struct query *q, const struct history_filter *f, const struct query_plan *plan) {
    if (!f->tag) return;
    db_text(&q->args, f->tag);
    if (plan->lead == QUERY_LEAD_TAG)
        strbuf_addf(&q->sql, " AND t.tag = $%zu", q->args.n);
    else
        strbuf_addf(&q->sql, " AND EXISTS (SELECT 1 FROM tags t WHERE t.run = r.id AND t.tag = $%zu)",
                    q->args.n);
}

void query_add_conditions(struct query *q, const struct history *h, const struct history_filter *f,
                          const struct query_plan *plan) {
    struct words w;
    add_tables(q, f, plan);
    if (f->stage) {
        db_text(&q->args, f->stage);
        strbuf_addf(&q->sql, " AND s.name = $%zu", q->args.n);
    }
    for (size_t i = 0; i < COUNTOF(columns); i++) add_column(q, h, f, plan, i);
    add_tag(q, f, plan);
    if (f->since_ns) {
        db_int(&q->args, f->since_ns);
        strbuf_addf(&q->sql, " AND %s >= $%zu", query_time_column(plan), q->args.n);
    }
    if (f->until_ns) {
        db_int(&q->args, f->until_ns);
        strbuf_addf(&q->sql, " AND %s < $%zu", query_time_column(plan), q->args.n);
    }
    split_words(f->text, &w);
    if (plan->lead == QUERY_LEAD_SEARCH) {
        add_index_query(q, &w);
        strbuf_addf(&q->sql, " AND r.id IN (SELECT rowid FROM runs_text WHERE runs_text MATCH $%zu)",
                    q->args.n);
    }
    add_words(q, h, &w);
}

/* ---- number of matching runs */

static bool is_only_search(const struct history_filter *f) {
    for (size_t i = 0; i < COUNTOF(columns); i++)
        if (column_value(f, i)) return false;
    return f->text && !f->tag && !f->stage && !f->since_ns && !f->until_ns;
}

int query_count(struct history *h, const struct history_filter *f, const struct query_plan *plan,
                int64_t *total, struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    struct words w;
    int rc;
    *total = plan->grouped_runs;
    if (plan->grouped_only || plan->grouped_runs == 0) return 0;
    split_words(f->text, &w);
    if (is_only_search(f) && w.indexed && !database_is_postgres(h->db))
        rc = count_found(h, &w, HISTORY_COUNT_MAX, total, err);
    else {
        strbuf_addstr(&q.sql, "SELECT COUNT(*) FROM (SELECT r.id");
        query_add_conditions(&q, h, f, plan);
        /* With this order, SQLite reads an index that contains the searched text instead of the table. */
        if (w.n && !database_is_postgres(h->db))
            strbuf_addstr(&q.sql, " ORDER BY r.started_ns DESC, r.id DESC");
        strbuf_addf(&q.sql, " LIMIT %d) AS matches", HISTORY_COUNT_MAX + 1);
        rc = read_count(h, &q, total, err);
        query_free(&q);
    }
    if (*total > HISTORY_COUNT_MAX) *total = -1;
    return rc;
}

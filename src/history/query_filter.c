/* Conditions of a list of runs. SQLite does not know how many runs match each condition. Therefore they are
 * counted first: the condition with the fewest runs leads, and the other columns are written as "+column",
 * which excludes their indexes. PostgreSQL decides itself. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"
#include "history/query_internal.h"

/* Up to this many matches, reading and sorting them is cheaper than reading all runs in sorted order. */
#define FEW_RUNS 2000
/* The same for runs with a tag or in a time. The order of the list often depends on them, for example if
 * newer runs are slower: reading in sorted order then finds the matches late. */
#define FEW_CORRELATED_RUNS 5000
#define UNKNOWN_RUNS (INT64_MAX - 1) /* a condition that is not counted leads only if no other does */
#define WORDS_MAX 8                  /* words of a search; the others are ignored */

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
    if (length >= sizeof w->buffer) length = utf8_cut(text, sizeof w->buffer - 1);
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

/* Words that the index cannot find are searched in the newest runs only, so that the time has a limit. */
#define SHORT_RUNS 20000

static void add_words(struct query *q, const struct history *h, const struct words *w) {
    if (w->n && !w->indexed)
        strbuf_addf(
            &q->sql,
            " AND r.started_ns >= COALESCE((SELECT started_ns FROM runs ORDER BY started_ns DESC LIMIT 1 "
            "OFFSET %d), 0)",
            SHORT_RUNS);
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

/* Adds the filters on columns. */
static void add_columns(struct query *q, const struct history *h, const struct history_filter *f,
                        const struct query_plan *plan, bool grouped_only);

static void add_times(struct query *q, const struct history_filter *f, const char *column) {
    if (f->since_ns) {
        db_int(&q->args, f->since_ns);
        strbuf_addf(&q->sql, " AND %s >= $%zu", column, q->args.n);
    }
    if (f->until_ns) {
        db_int(&q->args, f->until_ns);
        strbuf_addf(&q->sql, " AND %s < $%zu", column, q->args.n);
    }
}

/* Counts the runs that match the tag, the times and the filters on grouped columns, up to
 * FEW_CORRELATED_RUNS + 1. */
static int count_tagged(struct history *h, const struct history_filter *f, int64_t *count, struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    struct query_plan by_tag = { .lead = QUERY_LEAD_TAG };
    db_text(&q.args, f->tag);
    strbuf_addstr(&q.sql, "SELECT COUNT(*) FROM (SELECT t.run FROM tags t WHERE t.tag = $1");
    add_columns(&q, h, f, &by_tag, true);
    add_times(&q, f, "t.started_ns");
    strbuf_addf(&q.sql, " LIMIT %d) AS matches", FEW_CORRELATED_RUNS + 1);
    int rc = read_count(h, &q, count, err);
    query_free(&q);
    return rc;
}

/* Counts the runs that started in the time of the filter, up to FEW_CORRELATED_RUNS + 1. */
static int count_started(struct history *h, const struct history_filter *f, int64_t *count, struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    strbuf_addstr(&q.sql, "SELECT COUNT(*) FROM (SELECT r.id FROM runs r WHERE 1 = 1");
    add_times(&q, f, "r.started_ns");
    strbuf_addf(&q.sql, " LIMIT %d) AS matches", FEW_CORRELATED_RUNS + 1);
    int rc = read_count(h, &q, count, err);
    query_free(&q);
    return rc;
}

/* ---- the plan */

/* Returns the number of the column whose value has the fewest runs. A value with many runs is used only in a
 * list by time, because the index of the column is ordered by time. *least is INT64_MAX if there is no such
 * column. */
static size_t rarest_column(const struct history_filter *f, bool by_time,
                            const int64_t alone[COUNTOF(columns)], int64_t *least) {
    size_t lead = 0;
    *least = INT64_MAX;
    for (size_t i = 0; i < COUNTOF(columns); i++) {
        const char *value = column_value(f, i);
        if (!value || alone[i] >= *least) continue;
        if (alone[i] > FEW_RUNS && (!by_time || is_pattern(value))) continue;
        *least = alone[i];
        lead = i;
    }
    return lead;
}

/* Chooses the condition with the fewest runs, if it has few. Otherwise, a list in the order of time is read
 * through an index that has this order: of the tag, of a column, or of all runs. */
static int choose_lead(struct history *h, const struct history_filter *f, bool by_time,
                       const int64_t alone[COUNTOF(columns)], int64_t tagged, int64_t started,
                       struct query_plan *plan, struct err *err) {
    struct words w;
    int64_t least, found = INT64_MAX;
    size_t column = rarest_column(f, by_time, alone, &least);
    split_words(f->text, &w);
    if (w.indexed && count_found(h, &w, FEW_RUNS, &found, err) < 0) return -1;
    if (found <= FEW_RUNS && found <= least && found <= tagged && found <= started)
        plan->lead = QUERY_LEAD_SEARCH;
    else if (least <= FEW_RUNS && least <= started)
        plan->lead = QUERY_LEAD_COLUMN + (int)column;
    else if (f->tag && (tagged <= FEW_CORRELATED_RUNS || by_time))
        plan->lead = QUERY_LEAD_TAG;
    else if (started <= FEW_CORRELATED_RUNS)
        plan->lead = QUERY_LEAD_TIME;
    else if (least < INT64_MAX)
        plan->lead = QUERY_LEAD_COLUMN + (int)column;
    return 0;
}

int query_plan(struct history *h, const struct history_filter *f, bool by_time, struct query_plan *plan,
               struct err *err) {
    int64_t alone[COUNTOF(columns)], tagged = INT64_MAX, started = INT64_MAX;
    *plan = (struct query_plan){ .lead = QUERY_LEAD_ORDER };
    if (count_groups(h, f, plan, alone, err) < 0) return -1;
    plan->grouped_only = !f->version && !f->tag && !f->text && !f->stage && !f->since_ns && !f->until_ns;
    if (plan->grouped_runs == 0) return 0;
    if (f->tag && count_tagged(h, f, &tagged, err) < 0) return -1;
    if (tagged == 0) plan->grouped_runs = 0;
    if (!by_time && !f->tag && (f->since_ns || f->until_ns) && count_started(h, f, &started, err) < 0)
        return -1;
    if (!database_is_postgres(h->db)) return choose_lead(h, f, by_time, alone, tagged, started, plan, err);
    if (f->tag)
        plan->lead = QUERY_LEAD_TAG;
    else if (started <= FEW_CORRELATED_RUNS)
        plan->lead = QUERY_LEAD_TIME;
    plan->first = !by_time && (tagged <= FEW_CORRELATED_RUNS || started <= FEW_CORRELATED_RUNS);
    return 0;
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
    /* PostgreSQL computes the array once; it could compare an IN list again for every run. */
    bool postgres = database_is_postgres(h->db);
    strbuf_addf(&q->sql, "%s%s %s(SELECT DISTINCT g.%s FROM run_groups g WHERE ", prefix, columns[i].column,
                postgres ? "= ANY (ARRAY" : "IN ", columns[i].column);
    add_match(q, "g.", columns[i].column, value);
    strbuf_addstr(&q->sql, postgres ? "))" : ")");
}

static void add_columns(struct query *q, const struct history *h, const struct history_filter *f,
                        const struct query_plan *plan, bool grouped_only) {
    for (size_t i = 0; i < COUNTOF(columns); i++)
        if (columns[i].grouped || !grouped_only) add_column(q, h, f, plan, i);
}

/* Adds the tables. If a condition leads, CROSS JOIN makes SQLite read the tables in this order. With
 * plan->first, OFFSET 0 makes PostgreSQL read the rows of the condition first: it assumes that conditions do
 * not depend on each other, and would read the runs in the order of the list until enough of them match. */
static void add_tables(struct query *q, const struct history_filter *f, const struct query_plan *plan) {
    bool tag_leads = plan->lead == QUERY_LEAD_TAG;
    if (tag_leads) {
        db_text(&q->args, f->tag);
        strbuf_addf(&q->sql, " FROM %s t CROSS JOIN runs r",
                    plan->first ? "(SELECT * FROM tags WHERE tag = $1 OFFSET 0)" : "tags");
    } else if (plan->first) {
        strbuf_addstr(&q->sql, " FROM (SELECT * FROM runs r WHERE 1 = 1");
        add_times(q, f, "r.started_ns");
        strbuf_addstr(&q->sql, " OFFSET 0) r");
    } else {
        strbuf_addstr(&q->sql, " FROM runs r");
    }
    if (f->stage)
        strbuf_addstr(&q->sql, plan->lead == QUERY_LEAD_ORDER ? ", stages s" : " CROSS JOIN stages s");
    strbuf_addstr(&q->sql, tag_leads ? " WHERE r.id = t.run AND t.tag = $1" : " WHERE 1 = 1");
}

void query_add_conditions(struct query *q, const struct history *h, const struct history_filter *f,
                          const struct query_plan *plan) {
    struct words w;
    add_tables(q, f, plan);
    if (f->stage) {
        db_text(&q->args, f->stage);
        bool postgres = database_is_postgres(h->db);
        strbuf_addf(&q->sql, " AND s.run = r.id AND %ss.name = $%zu",
                    postgres || plan->lead == QUERY_LEAD_ORDER ? "" : "+", q->args.n);
    }
    add_columns(q, h, f, plan, false);
    if (f->tag && plan->lead != QUERY_LEAD_TAG) {
        db_text(&q->args, f->tag);
        strbuf_addf(&q->sql, " AND EXISTS (SELECT 1 FROM tags t WHERE t.run = r.id AND t.tag = $%zu)",
                    q->args.n);
    }
    add_times(q, f, query_time_column(plan));
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

/* Lists of runs: order, cursors and pages. query_filter.c adds the conditions. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"
#include "history/query.h"
#include "history/query_internal.h"

/* Runs without a value of a numeric key are omitted. */
static const struct sort_key {
    /* column NULL: needs a stage. stage_column NULL: no value per stage. */
    const char *key, *column, *stage_column;
    bool text, ascending;
} sort_keys[] = {
    { "started", "r.started_ns", NULL, false, false },
    { "name", "r.name", NULL, true, true },
    { "model", "COALESCE(r.model, '')", NULL, true, true },
    { "device", "COALESCE(r.device, '')", NULL, true, true },
    { "engine", "COALESCE(r.engine, '')", NULL, true, true },
    { "time", NULL, "s.time_ms", false, true },
    { "time_per_token", "r.time_per_token_ms", "s.time_per_token_ms", false, true },
    { "tokens_per_s", "r.tokens_per_s", "s.tokens_per_s", false, false },
    { "time_to_first_token", "r.time_to_first_token_ms", NULL, false, true },
    { "mfu", "r.mfu", "s.mfu", false, false },
    { "mbu", "r.mbu", "s.mbu", false, false },
    { "distance", NULL, "s.distance", false, false },
};

const char *history_sort_keys(void) {
    return "started|name|model|device|engine|time|time_per_token|tokens_per_s|time_to_first_token|mfu|mbu|"
           "distance";
}

static const struct sort_key *find_sort(const struct history_filter *f, const char **column,
                                        struct err *err) {
    for (size_t i = 0; i < COUNTOF(sort_keys); i++) {
        const struct sort_key *k = &sort_keys[i];
        if (strcmp(k->key, f->sort ? f->sort : "started") != 0) continue;
        *column = f->stage && k->stage_column ? k->stage_column : k->column;
        if (*column) return k;
        err_set(err, "sorting by %s needs a stage, for example decode", k->key);
        return NULL;
    }
    err_set(err, "unknown sort key '%s'; use one of %s", f->sort, history_sort_keys());
    return NULL;
}

/* "ID.VALUE": id and hexadecimal sort value of the last row */
static char *make_cursor(int64_t id, const char *value) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addf(&s, "%lld.", (long long)id);
    for (const char *p = value; *p; p++) strbuf_addf(&s, "%02x", (unsigned char)*p);
    return strbuf_detach(&s);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The cursor comes from a client, so every character is checked. */
static int parse_cursor(const char *cursor, const struct sort_key *key, int64_t *id, char **value,
                        struct err *err) {
    char *end;
    *id = strtoll(cursor, &end, 10);
    size_t n = *end == '.' ? strlen(end + 1) : 1;
    bool bad = end == cursor || n % 2 || n > 2000 || cursor[0] < '0' || cursor[0] > '9';
    struct strbuf s = STRBUF_INIT;
    for (size_t i = 0; !bad && i < n; i += 2) {
        int high = hex_digit(end[1 + i]), low = hex_digit(end[2 + i]);
        bad = high < 0 || low < 0 || (high == 0 && low == 0);
        if (!bad) strbuf_addch(&s, (char)(high * 16 + low));
    }
    if (!bad && !key->text) { /* databases reject other texts */
        char *number_end;
        errno = 0;
        double number = strtod(s.buf, &number_end);
        bad = s.len == 0 || *number_end || errno || !isfinite(number) || strpbrk(s.buf, "xXpP");
        if (!bad && strcmp(key->key, "started") == 0)
            bad = strspn(s.buf, "0123456789-") != s.len || s.len > 18 + 1;
    }
    bad = bad || !utf8_valid(s.buf, s.len);
    *value = strbuf_detach(&s);
    if (!bad) return 0;
    free(*value);
    *value = NULL;
    return err_set(err, "the cursor is not valid; start again without one");
}

int history_check_cursor(const struct history_filter *filter, struct err *err) {
    const char *column;
    int64_t id;
    char *value;
    const struct sort_key *key = find_sort(filter, &column, err);
    if (!key || parse_cursor(filter->cursor, key, &id, &value, err) < 0) return -1;
    free(value);
    return 0;
}

/* `plus`: "+" excludes the index of the column in SQLite; else "". */
static int add_order(struct query *q, const struct history_filter *f, const struct sort_key *key,
                     const char *column, const char *id_column, const char *plus, size_t limit,
                     struct err *err) {
    bool ascending = key->ascending != f->reverse;
    if (!key->text && strcmp(key->key, "started") != 0) strbuf_addf(&q->sql, " AND %s IS NOT NULL", column);
    if (f->cursor) {
        int64_t id;
        char *value;
        if (parse_cursor(f->cursor, key, &id, &value, err) < 0) return -1;
        strlist_add(&q->texts, "%s", value);
        free(value);
        strbuf_addf(&q->sql, " AND (%s, %s) %c ($%zu, $%zu)", column, id_column, ascending ? '>' : '<',
                    q->args.n + 1, q->args.n + 2);
        db_text(&q->args, q->texts.v[q->texts.n - 1]);
        db_int(&q->args, id);
    }
    const char *order = ascending ? "ASC" : "DESC";
    strbuf_addf(&q->sql, " ORDER BY %s%s %s, %s %s LIMIT %zu", plus, column, order, id_column, order,
                limit + 1);
    return 0;
}

#define RUN_COLUMNS                                                                                        \
    "r.id, r.name, r.store, r.path, r.digest, r.title, r.model, r.device, r.engine, r.host, r.version, "   \
    "r.command, r.verdict, r.busy, r.started_ns, r.findings, r.repeats, r.failed_repeats, r.mfu, r.mbu, "  \
    "r.time_to_first_token_ms, r.time_per_token_ms, r.tokens_per_s, r.incomplete, r.unstable, r.missing, " \
    "r.metrics_mtime_ns, r.metrics_bytes"
#define STAGE_COLUMNS                                                                                 \
    ", s.time_ms, s.ci95_low_ms, s.ci95_high_ms, s.time_per_token_ms, s.tokens_per_s, s.mfu, s.mbu, " \
    "s.distance"
enum { RUN_COLUMN_COUNT = 28 };

const char *const query_run_columns = RUN_COLUMNS;

void query_take_run(const struct history *h, struct db_result *r, size_t row, struct history_run *run) {
    *run = (struct history_run){ .id = db_cell_int(r, row, 0) };
    char **texts[] = { &run->name,    &run->store,   &run->path,   &run->digest, &run->title,
                       &run->model,   &run->device,  &run->engine, &run->host,   &run->version,
                       &run->command, &run->verdict, &run->busy };
    for (size_t i = 0; i < COUNTOF(texts); i++) *texts[i] = db_take(r, row, 1 + i);
    run->started_ns = db_cell_int(r, row, 14);
    run->findings = db_cell_int(r, row, 15);
    double *numbers[] = { &run->repeats,     &run->failed_repeats,         &run->mfu,
                          &run->mbu,         &run->time_to_first_token_ms, &run->time_per_token_ms,
                          &run->tokens_per_s };
    for (size_t i = 0; i < COUNTOF(numbers); i++) *numbers[i] = db_cell_num(r, row, 16 + i);
    run->incomplete = db_cell_int(r, row, 23) != 0;
    run->unstable = db_cell_int(r, row, 24) != 0;
    run->missing = db_cell_int(r, row, 25) != 0;
    run->metrics_mtime_ns = db_cell_int(r, row, 26);
    run->metrics_bytes = db_cell_int(r, row, 27);
    run->here = run->store && strcmp(run->store, h->store) == 0;
    double *of_stage[] = { &run->stage_time_ms,      &run->stage_ci95_low_ms,
                           &run->stage_ci95_high_ms, &run->stage_time_per_token_ms,
                           &run->stage_tokens_per_s, &run->stage_mfu,
                           &run->stage_mbu,          &run->stage_distance };
    for (size_t i = 0; i < COUNTOF(of_stage); i++)
        *of_stage[i] = r->columns > RUN_COLUMN_COUNT + 1 ? db_cell_num(r, row, RUN_COLUMN_COUNT + i) : NAN;
}

static struct history_run *page_run(struct history_page *page, int64_t id) {
    for (size_t i = 0; i < page->n; i++)
        if (page->v[i].id == id) return &page->v[i];
    return NULL;
}

static int add_tags(struct history *h, struct history_page *page, struct err *err) {
    struct strbuf sql = STRBUF_INIT;
    struct db_result r;
    if (page->n == 0) return 0;
    strbuf_addstr(&sql, "SELECT run, tag FROM tags WHERE run IN (");
    for (size_t i = 0; i < page->n; i++) strbuf_addf(&sql, "%s%lld", i ? "," : "", (long long)page->v[i].id);
    strbuf_addstr(&sql, ") ORDER BY tag");
    int rc = database_query(h->db, sql.buf, NULL, &r, err);
    strbuf_free(&sql);
    if (rc < 0) return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct history_run *run = page_run(page, db_cell_int(&r, i, 0));
        if (run) strlist_add(&run->tags, "%s", db_cell(&r, i, 1));
    }
    db_result_free(&r);
    return 0;
}

static int read_page(struct history *h, struct query *q, size_t limit, struct history_page *page,
                     struct err *err) {
    struct db_result r;
    if (database_query(h->db, q->sql.buf, &q->args, &r, err) < 0) return -1;
    page->n = MIN(r.rows, limit);
    page->v = xcalloc(page->n + 1, sizeof *page->v);
    if (r.rows > limit)
        page->next = make_cursor(db_cell_int(&r, limit - 1, 0), db_cell(&r, limit - 1, r.columns - 1));
    for (size_t i = 0; i < page->n; i++) query_take_run(h, &r, i, &page->v[i]);
    db_result_free(&r);
    return add_tags(h, page, err);
}

int history_list(struct history *h, const struct history_filter *filter, struct history_page *page,
                 struct err *err) {
    const char *column;
    *page = (struct history_page){ .total = -1 };
    const struct sort_key *key = find_sort(filter, &column, err);
    if (!key) return -1;
    size_t limit = MIN(filter->limit ? filter->limit : 50, HISTORY_LIMIT_MAX);
    struct query q = { .sql = STRBUF_INIT };
    struct query_plan plan;
    bool by_time = strcmp(key->key, "started") == 0;
    if (query_plan(h, filter, by_time, &plan, err) < 0) return -1;
    if (by_time) column = query_time_column(&plan);
    strbuf_addf(&q.sql, "SELECT " RUN_COLUMNS "%s, %s AS sort_value", filter->stage ? STAGE_COLUMNS : "",
                column);
    query_add_conditions(&q, h, filter, &plan);
    const char *plus = plan.lead == QUERY_LEAD_TIME && !database_is_postgres(h->db) ? "+" : "";
    int rc = add_order(&q, filter, key, column, query_id_column(&plan), plus, limit, err);
    if (rc == 0 && plan.grouped_runs) rc = read_page(h, &q, limit, page, err);
    query_free(&q);
    /* Unless the order omits runs without a value, a single page has all matching runs. */
    if (rc == 0 && filter->count && !filter->cursor && !page->next && (key->text || by_time))
        page->total = (int64_t)page->n;
    else if (rc == 0 && filter->count)
        rc = query_count(h, filter, &plan, &page->total, err);
    if (rc < 0) history_page_free(page);
    return rc;
}

void history_run_free(struct history_run *run) {
    char *texts[] = { run->name,    run->store,   run->path,   run->digest, run->title,
                      run->model,   run->device,  run->engine, run->host,   run->version,
                      run->command, run->verdict, run->busy };
    for (size_t i = 0; i < COUNTOF(texts); i++) free(texts[i]);
    strlist_free(&run->tags);
    *run = (struct history_run){ 0 };
}

void history_page_free(struct history_page *page) {
    for (size_t i = 0; i < page->n; i++) history_run_free(&page->v[i]);
    free(page->v);
    free(page->next);
    *page = (struct history_page){ .total = -1 };
}

/* "7d": a number and m, h, d or w */
static bool parse_age(const char *text, int64_t now_ns, int64_t *out_ns) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || n < 0 || n > 100000 || !*end || end[1]) return false;
    int64_t unit_s = *end == 'd' ? 86400 : *end == 'h' ? 3600 : *end == 'm' ? 60 : *end == 'w' ? 604800 : 0;
    int64_t age_s = n * unit_s, now_s = now_ns / 1000000000;
    *out_ns = age_s < now_s ? now_ns - age_s * 1000000000 : 1; /* no run is older than 1970 */
    return unit_s != 0;
}

int history_parse_time(const char *text, int64_t now_ns, int64_t *out_ns, struct err *err) {
    static const char *const formats[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M",
                                           "%Y-%m-%dT%H:%M" };
    if (parse_age(text, now_ns, out_ns)) return 0;
    for (size_t i = 0; i < COUNTOF(formats); i++) {
        struct tm tm = { 0 };
        const char *end = strptime(text, formats[i], &tm);
        if (!end || *end || tm.tm_year < 70 || tm.tm_year > 300) continue;
        *out_ns = (int64_t)timegm(&tm) * 1000000000;
        return 0;
    }
    return err_set(err, "'%s' is not a time; use 7d, 24h, 2026-11-01 or 2026-11-01T12:00:00Z", text);
}

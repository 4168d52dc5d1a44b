#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/jsonr.h"
#include "base/opt.h"
#include "base/util.h"
#include "serve/api.h"
#include "serve/run_json.h"
#include "serve/server.h"

/* ---- arguments */

bool api_read_count(struct request *q, const char *name, size_t least, size_t most, size_t *out) {
    const char *text = http_query(q, name);
    if (!text) return true;
    char *end;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || v < least || v > most) {
        http_problem(q, 400, "%s must be a whole number from %zu to %zu", name, least, most);
        return false;
    }
    *out = v;
    return true;
}

static bool read_time(struct request *q, const char *name, int64_t *out) {
    const char *text = http_query(q, name);
    struct err err;
    if (!text) return true;
    if (history_parse_time(text, (int64_t)clock_wall_ns(), out, &err) == 0) {
        int64_t later;
        /* The answer to "the last hour" changes without a change of the runs. */
        if (history_parse_time(text, (int64_t)clock_wall_ns() + 1000000000, &later, &err) == 0 &&
            later != *out)
            q->no_store = true;
        return true;
    }
    http_problem(q, 400, "%s: %s", name, err.msg);
    return false;
}

static bool read_order(struct request *q, struct history_filter *f) {
    const char *order = http_query(q, "order");
    if (order && !opt_is_choice("default|reverse", order)) {
        http_problem(q, 400, "order must be default or reverse");
        return false;
    }
    if (f->sort && !opt_is_choice(history_sort_keys(), f->sort)) {
        http_problem(q, 400, "sort must be one of %s", history_sort_keys());
        return false;
    }
    if (f->sort && !f->stage && opt_is_choice("time|distance", f->sort))
        f->stage = "decode"; /* only stages have these keys */
    f->reverse = order && strcmp(order, "reverse") == 0;
    return true;
}

static bool check_cursor(struct request *q, const struct history_filter *f) {
    struct err err;
    if (!f->cursor || history_check_cursor(f, &err) == 0) return true;
    http_problem(q, 400, "%s", err.msg);
    return false;
}

/* NULL: not given, or empty (an unused field of a form) */
static const char *query_text(const struct request *q, const char *name) {
    const char *text = http_query(q, name);
    return text && *text ? text : NULL;
}

bool api_read_filter(struct request *q, struct history_filter *f) {
    *f = (struct history_filter){ .model = query_text(q, "model"),
                                  .device = query_text(q, "device"),
                                  .engine = query_text(q, "engine"),
                                  .host = query_text(q, "host"),
                                  .tag = query_text(q, "tag"),
                                  .version = query_text(q, "version"),
                                  .text = query_text(q, "search"),
                                  .stage = query_text(q, "stage"),
                                  .sort = query_text(q, "sort"),
                                  .cursor = query_text(q, "cursor"),
                                  .limit = 50,
                                  .count = true };
    return read_time(q, "since", &f->since_ns) && read_time(q, "until", &f->until_ns) &&
           api_read_count(q, "limit", 1, HISTORY_LIMIT_MAX, &f->limit) && read_order(q, f) &&
           check_cursor(q, f);
}

bool api_find_run(struct request *q, struct history *h, const char *name, struct history_run *run) {
    struct err err;
    int found = history_find(h, name, run, &err);
    if (found == 1) return true;
    if (found == 0)
        http_problem(q, 404, "no run '%s'", name);
    else
        request_database_failed(q, &err);
    return false;
}

/* ---- lists and single runs */

void api_list_runs(struct request *q) {
    struct history_filter f;
    struct history_page page;
    struct err err;
    struct jsonw j;
    if (!api_read_filter(q, &f)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_list(h, &f, &page, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        run_json_page(&j, &page);
        jsonw_finish(&j);
        history_page_free(&page);
    }
    request_done(q, h);
}

enum run_part { PART_ALL, PART_FIGURES, PART_FINDINGS };

static void write_part(struct request *q, const struct history *h, const struct history_run *run,
                       const struct run_record *r, const void *data) {
    enum run_part part = *(const enum run_part *)data;
    struct jsonw j;
    (void)h;
    http_json(q, 200, "");
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    if (part == PART_ALL)
        run_json_details(&j, run, r);
    else {
        jsonw_object(&j);
        jsonw_kstr(&j, "run", run->name);
        if (part == PART_FIGURES) {
            jsonw_key(&j, "stages");
            run_json_stages(&j, r);
            jsonw_key(&j, "figures");
            run_json_figures(&j, r);
        } else {
            jsonw_key(&j, "findings");
            run_json_findings(&j, r);
        }
        jsonw_end(&j);
    }
    jsonw_finish(&j);
}

void api_answer_run(struct request *q, run_answer *answer, const void *data) {
    struct history_run run;
    struct run_record r;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (api_find_run(q, h, q->arguments[0], &run)) {
        if (history_details(h, run.id, &r, &err) < 0)
            request_database_failed(q, &err);
        else {
            answer(q, h, &run, &r, data);
            run_record_free(&r);
        }
        history_run_free(&run);
    }
    request_done(q, h);
}

static void get_part(struct request *q, enum run_part part) { api_answer_run(q, write_part, &part); }

void api_get_run(struct request *q) { get_part(q, PART_ALL); }
void api_get_figures(struct request *q) { get_part(q, PART_FIGURES); }
void api_get_findings(struct request *q) { get_part(q, PART_FINDINGS); }

void api_delete_run(struct request *q) {
    struct history_run run;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (api_find_run(q, h, q->arguments[0], &run)) {
        int rc = history_delete(h, &run, &err);
        if (rc < 0 && run.here)
            request_failed(q, 503, &err);
        else if (rc < 0)
            http_problem(q, 409, "%s", err.msg);
        else if (rc == 0)
            http_problem(q, 404, "no run '%s'", q->arguments[0]);
        else
            q->status = 204;
        history_run_free(&run);
    }
    request_done(q, h);
}

/* ---- tags */

/* Reads the tags of the array `key`, if it exists. Returns false if it is not an array of at most 100 valid
 * tags. */
static bool read_tags(const json_t *root, const char *key, struct strlist *out) {
    const json_t *list = json_object_get(root, key);
    if (!list) return true;
    if (!json_is_array(list) || json_array_size(list) > 100) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *tag = json_string_value(json_array_get(list, i));
        if (!tag || !run_tag_valid(tag)) return false;
        strlist_add(out, "%s", tag);
    }
    return true;
}

static bool only_tag_members(const json_t *root) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)root, key, value) {
        if (!opt_is_choice("add|remove", key)) return false;
    }
    return true;
}

static void change_tags(struct request *q, struct history *h, const struct strlist *add,
                        const struct strlist *remove) {
    struct history_run run;
    struct err err;
    if (!api_find_run(q, h, q->arguments[0], &run)) return;
    int rc = history_tag(h, &run, (const char *const *)add->v, add->n, (const char *const *)remove->v,
                         remove->n, &err);
    bool there = run.here && !run.missing;
    history_run_free(&run);
    if (rc < 0 && there)
        request_failed(q, 503, &err);
    else if (rc < 0)
        http_problem(q, 409, "%s", err.msg);
    else
        get_part(q, PART_ALL);
}

void api_tag_run(struct request *q) {
    struct err err;
    struct strlist add = { 0 }, remove = { 0 };
    json_t *root = jsonr_load_text(q->body.buf, q->body.len, "body", &err);
    bool valid = json_is_object(root) && only_tag_members(root) && read_tags(root, "add", &add) &&
                 read_tags(root, "remove", &remove);
    struct history *h = NULL;
    if (!valid)
        http_problem(q, 400,
                     "expected {\"add\": [tags], \"remove\": [tags]}; a tag is 1 to 64 letters, digits or "
                     "._:+/-");
    else if ((h = request_history(q)))
        change_tags(q, h, &add, &remove);
    if (h) request_done(q, h);
    strlist_free(&add);
    strlist_free(&remove);
    json_decref(root);
}

/* inferprof runs: lists, shows, tags and deletes the runs under a folder, with an index in a database. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/log.h"
#include "base/text.h"
#include "base/util.h"
#include "base/wrap.h"
#include "cmd/commands.h"
#include "history/query.h"
#include "serve/run_columns.h"
#include "serve/run_json.h"
#include "session/run_dir.h"

struct runs_opts {
    const char *root, *database;
    bool json, reindex, reverse, yes;
    const char *model, *device, *engine, *host, *tag, *stage, *since, *until, *search, *sort, *cursor;
    uint64_t limit;
    struct opt_list remove;
};

static struct history *open_history(const struct runs_opts *o, const char *root, struct err *err) {
    struct history *h = history_open(root ? root : o->root, o->database, err);
    struct history_counts counts;
    if (!h) return NULL;
    if (history_refresh(h, o->reindex ? HISTORY_ALL : HISTORY_CHANGED, &counts, err) < 0) {
        history_close(h);
        strlist_free(&counts.warnings);
        return NULL;
    }
    for (size_t i = 0; i < counts.warnings.n; i++) log_warn("%s", counts.warnings.v[i]);
    if (o->reindex)
        log_info("%llu runs indexed, %llu missing", (unsigned long long)(counts.added + counts.updated),
                 (unsigned long long)counts.missing);
    strlist_free(&counts.warnings);
    return h;
}

/* ---- list */

static int make_filter(const struct runs_opts *o, struct history_filter *f, struct err *err) {
    int64_t now_ns = (int64_t)clock_wall_ns();
    *f = (struct history_filter){ .model = o->model,
                                  .device = o->device,
                                  .engine = o->engine,
                                  .host = o->host,
                                  .tag = o->tag,
                                  .text = o->search,
                                  .stage = o->stage,
                                  .sort = o->sort,
                                  .reverse = o->reverse,
                                  .limit = (size_t)o->limit,
                                  .cursor = o->cursor,
                                  .count = true };
    if (o->since && history_parse_time(o->since, now_ns, &f->since_ns, err) < 0) return -1;
    if (o->until && history_parse_time(o->until, now_ns, &f->until_ns, err) < 0) return -1;
    return 0;
}

/* Columns that a narrow terminal omits first. */
static const char *const least_columns[] = {
    "engine", "MBU", "MFU", "first token ms", "device", "model", NULL
};

static void print_page(const struct history_page *page, const struct runs_opts *o) {
    struct table t;
    struct strbuf out = STRBUF_INIT;
    const struct column_group groups[] = { run_name_columns,
                                           o->stage ? run_stage_figure_columns : run_figure_columns,
                                           run_note_columns };
    columns_table(groups, COUNTOF(groups), COLUMN_DOC_TERMINAL, NULL,
                  (struct column_items){ page->v, page->n, sizeof *page->v }, &t);
    table_fit(&t, command_line_width(), least_columns);
    table_text(&t, &out);
    if (page->next) {
        struct strbuf more = STRBUF_INIT;
        strbuf_addf(&more, "%zu of %s%lld runs; the next ones: --cursor %s", page->n,
                    page->total < 0 ? "more than " : "",
                    page->total < 0 ? (long long)MAX(HISTORY_COUNT_MAX, page->n) : (long long)page->total,
                    page->next);
        wrap_text(&out, more.buf, 0, command_line_width(), 2);
        strbuf_free(&more);
    }
    fputs(out.buf, stdout);
    table_free(&t);
    strbuf_free(&out);
}

static void print_page_json(const struct history_page *page) {
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &out, JSONW_PRETTY);
    run_json_page(&j, page);
    jsonw_finish(&j);
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

/* If a folder has changed since it was indexed, the list is read again. */
static int list_verified(struct history *h, const struct history_filter *f, struct history_page *page,
                         struct err *err) {
    bool outdated = false;
    if (history_list(h, f, page, err) < 0) return -1;
    for (size_t i = 0; i < page->n; i++) outdated |= history_verify(h, &page->v[i]);
    if (!outdated) return 0;
    history_page_free(page);
    return history_list(h, f, page, err);
}

static int run_list(const void *opts, int argc, char **argv) {
    const struct runs_opts *o = opts;
    struct history_filter f;
    struct history_page page;
    struct err err;
    if (make_filter(o, &f, &err) < 0) return command_usage("runs: %s", err.msg);
    struct history *h = open_history(o, argc ? argv[0] : NULL, &err);
    if (!h) return command_fail(&err);
    int status = EXIT_DONE;
    if (list_verified(h, &f, &page, &err) < 0)
        status = command_fail(&err);
    else {
        if (o->json)
            print_page_json(&page);
        else if (page.n)
            print_page(&page, o);
        else
            printf("no runs match in %s\n", h->root);
        history_page_free(&page);
    }
    history_close(h);
    return status;
}

/* ---- one run */

/* `name` may be the start of a name. */
static int find_run(struct history *h, const char *name, struct history_run *run, struct err *err) {
    int found = history_find_start(h, name, run, err);
    if (found == 0) err_set(err, "no run '%s' in %s; see 'inferprof runs'", name, h->root);
    return found == 1 ? 0 : -1;
}

static void show_stages(const struct run_record *r, struct strbuf *out) {
    struct table t;
    columns_table(&run_stage_columns, 1, COLUMN_DOC_TERMINAL, NULL,
                  (struct column_items){ r->stages.v, r->stages.n, sizeof *r->stages.v }, &t);
    t.text_line_width = command_line_width();
    table_text(&t, out);
    table_free(&t);
}

static void show_line(struct strbuf *out, const char *key, const char *value) {
    if (!value || !*value) return;
    strbuf_addf(out, "%-10s ", key);
    wrap_text(out, value, 11, command_line_width(), 11);
}

static void show_text(const struct history *h, const struct history_run *run, const struct run_record *r,
                      struct strbuf *out) {
    char *dir = history_folder(h, run->path);
    show_line(out, "run", run->name);
    show_line(out, "title", run->title);
    show_line(out, "started", text_date((uint64_t)run->started_ns).s);
    show_line(out, "host", run->host);
    show_line(out, "folder", run->here ? dir : "in another store");
    show_line(out, "command", run->command);
    show_line(out, "verdict", run->verdict);
    if (run->missing) show_line(out, "note", "the folder is missing");
    if (run->incomplete) show_line(out, "note", "the run did not finish");
    if (run->unstable) show_line(out, "note", "unstable: the repeats of a stage vary by more than 5%");
    for (size_t i = 0; i < r->tags.n; i++) show_line(out, "tag", r->tags.v[i]);
    if (r->stages.n) {
        strbuf_addch(out, '\n');
        show_stages(r, out);
    }
    if (r->findings.n) strbuf_addstr(out, "\nFindings\n");
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct record_finding *f = &r->findings.v[i];
        struct strbuf line = STRBUF_INIT;
        strbuf_addf(&line, "%zu. %s", i + 1, text_or_dash(f->title));
        if (isfinite(f->saving_ms)) strbuf_addf(&line, " (could save up to %s)", text_ms(f->saving_ms).s);
        if (f->confidence) strbuf_addf(&line, ", %s confidence", f->confidence);
        wrap_text(out, line.buf, 0, command_line_width(), 3);
        strbuf_free(&line);
    }
    free(dir);
}

static int run_show(const void *opts, int argc, char **argv) {
    (void)argc;
    const struct runs_opts *o = opts;
    struct history_run run = { 0 };
    struct run_record r = { 0 };
    struct err err;
    struct strbuf out = STRBUF_INIT;
    struct history *h = open_history(o, NULL, &err);
    int rc = h ? find_run(h, argv[0], &run, &err) : -1;
    if (rc == 0 && history_verify(h, &run)) {
        history_run_free(&run);
        rc = find_run(h, argv[0], &run, &err);
    }
    if (rc == 0) rc = history_details(h, run.id, &r, &err);
    if (rc == 0 && o->json) {
        struct jsonw j;
        jsonw_start(&j, &out, JSONW_PRETTY);
        run_json_details(&j, &run, &r);
        jsonw_finish(&j);
    } else if (rc == 0)
        show_text(h, &run, &r, &out);
    fputs(out.buf, stdout);
    strbuf_free(&out);
    run_record_free(&r);
    history_run_free(&run);
    history_close(h);
    return rc == 0 ? EXIT_DONE : command_fail(&err);
}

static int run_tag(const void *opts, int argc, char **argv) {
    const struct runs_opts *o = opts;
    struct history_run run = { 0 };
    struct err err;
    if (argc < 2 && o->remove.n == 0) return command_usage("runs tag: expected RUN TAG..., or --remove TAG");
    struct history *h = open_history(o, NULL, &err);
    int rc = h ? find_run(h, argv[0], &run, &err) : -1;
    if (rc == 0)
        rc = history_tag(h, &run, (const char *const *)argv + 1, (size_t)argc - 1, o->remove.v, o->remove.n,
                         &err);
    history_run_free(&run);
    history_close(h);
    return rc == 0 ? EXIT_DONE : command_fail(&err);
}

static int run_delete(const void *opts, int argc, char **argv) {
    const struct runs_opts *o = opts;
    struct err err;
    if (!o->yes)
        return command_usage("runs delete: this deletes run folders with their traces; add --yes to confirm");
    struct history *h = open_history(o, NULL, &err);
    int rc = h ? 0 : -1;
    for (int i = 0; rc == 0 && i < argc; i++) {
        struct history_run run = { 0 };
        rc = find_run(h, argv[i], &run, &err);
        if (rc == 0 && history_delete(h, &run, &err) < 0) rc = -1;
        if (rc == 0) log_info("deleted %s", run.name);
        history_run_free(&run);
    }
    history_close(h);
    return rc == 0 ? EXIT_DONE : command_fail(&err);
}

#define FIELD_AT(field) offsetof(struct runs_opts, field)
#define STORE_OPTIONS                                                                        \
    { 0,       "database",                                                                   \
      OPT_STR, FIELD_AT(database),                                                           \
      "URL",   "postgresql://... or an SQLite file; default: DIR/.inferprof/index.sqlite",   \
      NULL },                                                                                \
    {                                                                                        \
        0, "reindex", OPT_FLAG, FIELD_AT(reindex), NULL, "read every run folder again", NULL \
    }
#define ROOT_OPTION \
    { 0, "root", OPT_STR, FIELD_AT(root), "DIR", "the folder with the runs; default: " RUN_DIR_ROOT, NULL }
#define JSON_OPTION \
    { 0, "json", OPT_FLAG, FIELD_AT(json), NULL, "print JSON", NULL }

static const struct opt list_options[] = {
    { 0, "model", OPT_STR, FIELD_AT(model), "NAME", "only this model; '*' matches any text", NULL },
    { 0, "device", OPT_STR, FIELD_AT(device), "NAME", "only this device", NULL },
    { 0, "engine", OPT_STR, FIELD_AT(engine), "NAME", "only this engine", NULL },
    { 0, "host", OPT_STR, FIELD_AT(host), "NAME", "only this machine", NULL },
    { 0, "tag", OPT_STR, FIELD_AT(tag), "TAG", "only runs with this tag", NULL },
    { 0, "since", OPT_STR, FIELD_AT(since), "TIME",
      "only runs that started at or after this time: 7d (7 days ago), 24h, 2026-11-01", NULL },
    { 0, "until", OPT_STR, FIELD_AT(until), "TIME", "only runs that started before this time", NULL },
    { 0, "search", OPT_STR, FIELD_AT(search), "TEXT",
      "only runs with these words in the name, title, model, device or host", NULL },
    { 0, "stage", OPT_STR, FIELD_AT(stage), "NAME", "show the figures of this stage, and sort by them",
      NULL },
    { 0, "sort", OPT_CHOICE, FIELD_AT(sort), "KEY", "order of the list; runs without the value are omitted",
      "started|name|model|device|engine|time|time_per_token|tokens_per_s|time_to_first_token|mfu|mbu|"
      "distance" },
    { 0, "reverse", OPT_FLAG, FIELD_AT(reverse), NULL, "reverse the order", NULL },
    { 'n', "limit", OPT_UINT, FIELD_AT(limit), "N", "print at most N runs; default: 50", "1..1000" },
    { 0, "cursor", OPT_STR, FIELD_AT(cursor), "TEXT", "print the page after the one that printed this cursor",
      NULL },
    JSON_OPTION,
    STORE_OPTIONS,
};
static const struct opt show_options[] = { ROOT_OPTION, JSON_OPTION, STORE_OPTIONS };
static const struct opt tag_options[] = {
    ROOT_OPTION,
    { 0, "remove", OPT_LIST, FIELD_AT(remove), "TAG", "remove this tag; may be repeated", NULL },
    STORE_OPTIONS,
};
static const struct opt delete_options[] = {
    ROOT_OPTION,
    { 0, "yes", OPT_FLAG, FIELD_AT(yes), NULL, "confirm that the folders are deleted", NULL },
    STORE_OPTIONS,
};

static const struct runs_opts defaults = { .root = RUN_DIR_ROOT, .limit = 50 };

#define ROW(row_name, row_args, row_summary, row_options, least, most, function)                      \
    {                                                                                                 \
        .name = row_name, .args = row_args, .summary = row_summary, .opts = row_options,              \
        .nopts = COUNTOF(row_options), .defaults = &defaults, .opts_bytes = sizeof(struct runs_opts), \
        .min_args = least, .max_args = most, .complete = COMPLETE_FOLDERS, .run = function,           \
    }

const struct command cmd_runs =
    ROW("runs", "[DIR]", "list the runs under a folder, with filters", list_options, 0, 1, run_list);
const struct command cmd_runs_show =
    ROW("runs show", "RUN", "show the stages and findings of one run", show_options, 1, 1, run_show);
const struct command cmd_runs_tag =
    ROW("runs tag", "RUN [TAG...]", "add tags to a run, or remove them", tag_options, 1, -1, run_tag);
const struct command cmd_runs_delete = ROW(
    "runs delete", "RUN...", "delete run folders and their index entries", delete_options, 1, -1, run_delete);

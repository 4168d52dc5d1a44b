#include "history/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "run/saved_metrics.h"

/* Longer texts are truncated, because the files are untrusted. Names are in indexes, and PostgreSQL limits an
 * index row to 2,704 bytes. */
#define TEXT_BYTES 4000
#define NAME_BYTES 200
#define COUNT_MAX 1e15
#define ROWS 500 /* per table and run */

/* Copies whole characters only. */
static char *copy_text(const char *text, size_t most) {
    if (!text) return NULL;
    size_t n = strlen(text);
    return xstrndup(text, n > most ? utf8_cut(text, most) : n);
}

static char *member_text(const json_t *o, const char *key) {
    return copy_text(jsonr_text(o, key), TEXT_BYTES);
}

/* An empty name is unknown. */
static char *member_name(const json_t *o, const char *key) {
    const char *text = jsonr_text(o, key);
    return text && *text ? copy_text(text, NAME_BYTES) : NULL;
}

static bool member_true(const json_t *o, const char *key) { return json_is_true(json_object_get(o, key)); }

/* NaN: negative, not finite or missing */
static double member_positive(const json_t *o, const char *key) {
    double v = jsonr_number(o, key);
    return isfinite(v) && v >= 0 ? v : NAN;
}

/* NaN: negative, not whole, too large or missing */
static double member_count(const json_t *o, const char *key) {
    double v = member_positive(o, key);
    return v <= COUNT_MAX && v == floor(v) ? v : NAN;
}

static bool has_stage(const struct run_record *r, const char *name) {
    for (size_t i = 0; i < r->stages.n; i++)
        if (strcmp(r->stages.v[i].name, name) == 0) return true;
    return false;
}

/* Queries find the stages of a run by name, so names are unique: the second stage "attention" of a run
 * becomes "decode/attention". NULL: the list contains this name too. */
static char *stage_name(const struct run_record *r, const json_t *stage) {
    const char *parent = jsonr_text(stage, "parent");
    char *name = copy_text(jsonr_text(stage, "name"), NAME_BYTES);
    if (has_stage(r, name)) {
        char *path = xasprintf("%s/%s", parent ? parent : "", name);
        free(name);
        name = copy_text(path, NAME_BYTES);
        free(path);
    }
    if (!has_stage(r, name)) return name;
    free(name);
    return NULL;
}

static void read_stages(struct run_record *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && r->stages.n < ROWS; i++) {
        const json_t *o = json_array_get(list, i), *timed = json_object_get(o, "timed");
        char *name = jsonr_text(o, "name") ? stage_name(r, o) : NULL;
        if (!name) continue;
        struct record_stage s = { .name = name,
                                  .parent = member_name(o, "parent"),
                                  .time_ms = member_positive(o, "time_ms"),
                                  .ci95_low_ms = member_positive(timed, "ci95_low"),
                                  .ci95_high_ms = member_positive(timed, "ci95_high"),
                                  .repeats = member_count(timed, "n"),
                                  .tokens = member_positive(o, "tokens"),
                                  .tokens_per_s = member_positive(o, "tokens_per_s"),
                                  .mfu = member_positive(o, "mfu"),
                                  .mbu = member_positive(o, "mbu"),
                                  .floor_ms = member_positive(o, "floor_ms"),
                                  .distance = member_positive(o, "distance"),
                                  .gpu_busy_share = member_positive(o, "gpu_busy_share") };
        /* recorded steps of CUDA graphs take longer than others: their time is not comparable */
        bool comparable = !jsonr_text(o, "recorded_only");
        s.time_per_token_ms = comparable && s.tokens > 0 ? s.time_ms / s.tokens : NAN;
        if (!comparable) s.time_ms = s.tokens_per_s = NAN;
        vec_push(&r->stages, s);
    }
}

static void read_figures(struct run_record *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && r->figures.n < ROWS; i++) {
        const json_t *o = json_array_get(list, i), *stats = json_object_get(o, "stats");
        if (!jsonr_text(o, "key")) continue;
        struct record_figure f = { .key = copy_text(jsonr_text(o, "key"), NAME_BYTES),
                                   .name = member_text(o, "name"),
                                   .unit = member_text(o, "unit"),
                                   .larger_is_better = member_true(o, "larger_is_better"),
                                   .median = jsonr_number(stats, "median"),
                                   .mean = jsonr_number(stats, "mean"),
                                   .std = jsonr_number(stats, "std"),
                                   .ci95_low = jsonr_number(stats, "ci95_low"),
                                   .ci95_high = jsonr_number(stats, "ci95_high"),
                                   .repeats = member_count(stats, "n") };
        vec_push(&r->figures, f);
    }
}

/* metrics.json lists the longest kernels first. */
static void read_kernels(struct run_record *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && r->kernels.n < RECORD_KERNELS; i++) {
        const json_t *o = json_array_get(list, i);
        if (!jsonr_text(o, "short_name")) continue;
        struct record_kernel k = { .name = member_text(o, "short_name"),
                                   .category = member_text(o, "category"),
                                   .library = member_text(o, "library"),
                                   .stage = member_text(o, "stage"),
                                   .calls = member_count(o, "calls"),
                                   .owned_ns = member_positive(o, "owned_ns"),
                                   .share = member_positive(o, "share") };
        vec_push(&r->kernels, k);
    }
}

static void read_findings(struct run_record *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && r->findings.n < ROWS; i++) {
        const json_t *o = json_array_get(list, i);
        if (!jsonr_text(o, "rule")) continue;
        struct record_finding f = { .rule = copy_text(jsonr_text(o, "rule"), NAME_BYTES),
                                    .stage = member_text(o, "stage"),
                                    .title = member_text(o, "title"),
                                    .evidence = member_text(o, "evidence"),
                                    .advice = member_text(o, "advice"),
                                    .confidence = member_text(o, "confidence"),
                                    .saving_ms = member_positive(o, "saving_ms"),
                                    .saving_percent = member_positive(o, "saving_percent") };
        vec_push(&r->findings, f);
    }
}

static void read_environment(struct run_record *r, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list) && r->env.n < ROWS; i++) {
        const json_t *o = json_array_get(list, i);
        const char *key = jsonr_text(o, "key"), *value = jsonr_text(o, "value");
        if (!key) continue;
        if (strcmp(key, "host") == 0 && !r->host)
            r->host = copy_text(value && *value ? value : NULL, NAME_BYTES);
        struct record_env row = { .kind = member_text(o, "group"),
                                  .key = copy_text(key, TEXT_BYTES),
                                  .value = copy_text(value, TEXT_BYTES) };
        vec_push(&r->env, row);
    }
}

static double figure_median(const struct run_record *r, const char *key) {
    for (size_t i = 0; i < r->figures.n; i++)
        if (strcmp(r->figures.v[i].key, key) == 0) return r->figures.v[i].median;
    return NAN;
}

/* Without timed repeats, the time per token and the decode rate are those of the stage "decode". */
static void derive_figures(struct run_record *r) {
    r->time_to_first_token_ms = figure_median(r, "time_to_first_token");
    r->time_per_token_ms = figure_median(r, "time_per_token");
    r->tokens_per_s = figure_median(r, "decode_tokens_per_s");
    for (size_t i = 0; i < r->stages.n; i++) {
        const struct record_stage *s = &r->stages.v[i];
        if (strcmp(s->name, "decode") != 0 || s->parent) continue;
        if (isnan(r->time_per_token_ms)) r->time_per_token_ms = s->time_per_token_ms;
        if (isnan(r->tokens_per_s)) r->tokens_per_s = s->tokens_per_s;
    }
}

void run_record_fill(struct run_record *r, const struct saved_metrics *m) {
    const json_t *root = m->root;
    const json_t *run = json_object_get(root, "run"), *model = json_object_get(root, "model");
    double started = jsonr_number(run, "started_unix_ns");
    r->title = member_text(run, "title");
    r->model = member_name(run, "model");
    r->engine = member_name(run, "engine");
    r->command = member_text(run, "command");
    r->version = member_name(run, "inferprof_version");
    r->verdict = member_text(root, "verdict");
    r->busy = member_text(json_object_get(root, "analysis_input"), "busy");
    r->device = member_name(json_object_get(root, "device"), "name");
    if (started > 0 && started < 9e18) r->started_ns = (int64_t)started;
    r->repeats = member_count(run, "repeats");
    r->failed_repeats = member_count(run, "failed_repeats");
    r->incomplete = member_true(run, "incomplete");
    r->unstable = member_true(run, "unstable");
    r->mfu = member_positive(model, "mfu");
    r->mbu = member_positive(model, "mbu");
    read_stages(r, jsonr_array(root, "stages"));
    read_figures(r, jsonr_array(root, "figures"));
    read_kernels(r, jsonr_array(root, "kernels"));
    read_findings(r, jsonr_array(root, "findings"));
    read_environment(r, jsonr_array(root, "environment"));
    derive_figures(r);
}

static int64_t mtime_ns(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

void run_record_stamp(const char *dir, int64_t *mtime, int64_t *bytes) {
    struct stat st;
    char *path = file_join(dir, "metrics.json");
    bool there = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
    *mtime = there ? mtime_ns(&st) : 0;
    *bytes = there ? (int64_t)st.st_size : 0;
    free(path);
}

static bool has_file(const char *dir, const char *name) {
    char *path = file_join(dir, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

bool run_record_is_run(const char *dir) {
    return has_file(dir, "metrics.json") || has_file(dir, "INCOMPLETE") || has_file(dir, "trace");
}

/* 64 hexadecimal digits */
static void read_digest(struct run_record *r, const char *dir) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *path = file_join(dir, RECORD_UPLOAD);
    if (file_read(path, 4096, &text, &ignored) == 0 && strspn(text.buf, "0123456789abcdef") == 64)
        r->digest = xstrndup(text.buf, 64);
    strbuf_free(&text);
    free(path);
}

bool run_tag_valid(const char *tag) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:+/-";
    size_t n = strlen(tag);
    return n >= 1 && n <= 64 && strspn(tag, letters) > 0 && strspn(tag, all) == n;
}

static void read_tags(struct strlist *tags, const char *dir) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *path = file_join(dir, RECORD_TAGS), *rest;
    if (file_read(path, 65536, &text, &ignored) == 0)
        for (char *tag = strtok_r(text.buf, "\n", &rest); tag && tags->n < ROWS;
             tag = strtok_r(NULL, "\n", &rest))
            if (run_tag_valid(tag)) strlist_add(tags, "%s", tag);
    strbuf_free(&text);
    free(path);
}

static bool list_has(const char *const *v, size_t n, const char *text) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i], text) == 0) return true;
    return false;
}

int run_tags_change(const char *dir, const char *const *add, size_t nadd, const char *const *remove,
                    size_t nremove, struct err *err) {
    struct strlist old = { 0 };
    struct strbuf text = STRBUF_INIT;
    char *path = file_join(dir, RECORD_TAGS);
    read_tags(&old, dir);
    for (size_t i = 0; i < old.n; i++)
        if (!list_has(remove, nremove, old.v[i])) strbuf_addf(&text, "%s\n", old.v[i]);
    for (size_t i = 0; i < nadd; i++)
        if (!list_has((const char *const *)old.v, old.n, add[i]) && !list_has(add, i, add[i]))
            strbuf_addf(&text, "%s\n", add[i]);
    int rc = file_write_atomic(path, text.buf, text.len, err);
    free(path);
    strbuf_free(&text);
    strlist_free(&old);
    return rc;
}

static const struct run_record unknown = { .repeats = NAN,
                                           .failed_repeats = NAN,
                                           .mfu = NAN,
                                           .mbu = NAN,
                                           .time_to_first_token_ms = NAN,
                                           .time_per_token_ms = NAN,
                                           .tokens_per_s = NAN };

int run_record_read(struct run_record *r, const char *dir, struct err *err) {
    struct stat st;
    *r = unknown;
    if (stat(dir, &st) == 0) r->started_ns = mtime_ns(&st);
    read_digest(r, dir);
    read_tags(&r->tags, dir);
    run_record_stamp(dir, &r->metrics_mtime_ns, &r->metrics_bytes);
    r->incomplete = r->metrics_mtime_ns == 0 || has_file(dir, "INCOMPLETE");
    if (r->metrics_mtime_ns == 0) return 0;
    char *path = file_join(dir, "metrics.json");
    bool unfinished = r->incomplete;
    struct saved_metrics *m = saved_metrics_load(path, err);
    if (m) run_record_fill(r, m);
    r->incomplete |= unfinished || !m;
    saved_metrics_close(m);
    free(path);
    return m ? 0 : -1;
}

void run_record_free(struct run_record *r) {
    char *texts[] = { r->digest, r->title,   r->model,   r->device,  r->engine,
                      r->host,   r->version, r->command, r->verdict, r->busy };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]);
    for (size_t i = 0; i < r->stages.n; i++) {
        free(r->stages.v[i].name);
        free(r->stages.v[i].parent);
    }
    for (size_t i = 0; i < r->figures.n; i++) {
        free(r->figures.v[i].key);
        free(r->figures.v[i].name);
        free(r->figures.v[i].unit);
    }
    for (size_t i = 0; i < r->kernels.n; i++) {
        struct record_kernel *k = &r->kernels.v[i];
        free(k->name);
        free(k->category);
        free(k->library);
        free(k->stage);
    }
    for (size_t i = 0; i < r->findings.n; i++) {
        struct record_finding *f = &r->findings.v[i];
        char *of_finding[] = { f->rule, f->stage, f->title, f->evidence, f->advice, f->confidence };
        for (size_t k = 0; k < sizeof of_finding / sizeof *of_finding; k++) free(of_finding[k]);
    }
    for (size_t i = 0; i < r->env.n; i++) {
        free(r->env.v[i].kind);
        free(r->env.v[i].key);
        free(r->env.v[i].value);
    }
    free(r->stages.v);
    free(r->figures.v);
    free(r->kernels.v);
    free(r->findings.v);
    free(r->env.v);
    strlist_free(&r->tags);
    *r = (struct run_record){ 0 };
}

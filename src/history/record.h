/* A run folder as rows of the database, from its metrics.json (if any), tags and upload digest.
 *     struct run_record r;
 *     run_record_read(&r, "runs/20260102-030405-llama", &err);     -- fills r also if it returns -1
 *     run_record_free(&r);
 * The files may be damaged or hostile. Texts are owned; doubles are NaN if unknown. */
#ifndef HISTORY_RECORD_H
#define HISTORY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strlist.h"

/* kernel classes with the most time */
#define RECORD_KERNELS 20
#define RECORD_TAGS ".tags"     /* one tag per line */
#define RECORD_UPLOAD ".upload" /* digest of the upload */

struct record_stage {
    char *name, *parent;
    double time_ms, ci95_low_ms, ci95_high_ms, repeats, tokens, time_per_token_ms, tokens_per_s, mfu, mbu,
        floor_ms, distance, gpu_busy_share;
};
struct record_figure {
    char *key, *name, *unit;
    bool larger_is_better;
    double median, mean, std, ci95_low, ci95_high, repeats;
};
struct record_kernel {
    char *name, *category, *library, *stage;
    double calls, owned_ns, share;
};
struct record_finding {
    char *rule, *stage, *title, *evidence, *advice, *confidence;
    double saving_ms, saving_percent;
};
struct record_env {
    char *kind, *key, *value;
};

struct run_record {
    char *digest, *title, *model, *device, *engine, *host, *version, *command;
    char *verdict;      /* the sentence at the top of the report */
    char *busy;         /* why the machine was busy; NULL: it was not */
    int64_t started_ns; /* metrics.json, or mtime of the folder */
    double repeats, failed_repeats, mfu, mbu, time_to_first_token_ms, time_per_token_ms, tokens_per_s;
    bool incomplete, unstable;
    int64_t metrics_mtime_ns, metrics_bytes; /* 0: there is no metrics.json */
    struct {
        struct record_stage *v;
        size_t n, cap;
    } stages;
    struct {
        struct record_figure *v;
        size_t n, cap;
    } figures;
    struct {
        struct record_kernel *v;
        size_t n, cap;
    } kernels;
    struct {
        struct record_finding *v;
        size_t n, cap;
    } findings;
    struct {
        struct record_env *v;
        size_t n, cap;
    } env;
    struct strlist tags;
};

int run_record_read(struct run_record *r, const char *dir, struct err *err);
/* `r` must be empty. */
struct saved_metrics;
void run_record_fill(struct run_record *r, const struct saved_metrics *m);
void run_record_free(struct run_record *r);

/* True if the folder has metrics.json, INCOMPLETE or trace/. */
bool run_record_is_run(const char *dir);
/* Modification time and size of metrics.json; both 0: no such file. */
void run_record_stamp(const char *dir, int64_t *mtime_ns, int64_t *bytes);

/* A tag is 1 to 64 letters, digits, or one of "._:+/-". It starts with a letter or digit. */
bool run_tag_valid(const char *tag);
/* Changes RECORD_TAGS of the folder. Existing tags are not added again; removing an unknown tag is not an
 * error. */
int run_tags_change(const char *dir, const char *const *add, size_t nadd, const char *const *remove,
                    size_t nremove, struct err *err);

#endif

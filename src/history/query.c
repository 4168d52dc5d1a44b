#include "history/query.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/random.h"
#include "base/util.h"
#include "base/vec.h"
#include "history/query_internal.h"
#include "history/write.h"

/* $1 is `text`, $2 is `store`, unless it is NULL. */
static int find_where(struct history *h, const char *condition, const char *text, const char *store,
                      struct db_result *r, struct err *err) {
    struct db_args args = { 0 };
    struct strbuf sql = STRBUF_INIT;
    db_text(&args, text);
    if (store) db_text(&args, store);
    strbuf_addf(&sql, "SELECT %s FROM runs r WHERE %s ORDER BY r.id LIMIT 3", query_run_columns, condition);
    int rc = database_query(h->db, sql.buf, &args, r, err);
    strbuf_free(&sql);
    return rc;
}

static int take_tags(struct history *h, int64_t id, struct strlist *tags, struct err *err) {
    struct db_args args = { 0 };
    struct db_result r;
    db_int(&args, id);
    if (database_query(h->db, "SELECT tag FROM tags WHERE run = $1 ORDER BY tag", &args, &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) strlist_add(tags, "%s", db_cell(&r, i, 0));
    db_result_free(&r);
    return 0;
}

static int take_single(struct history *h, struct db_result *r, struct history_run *run, struct err *err) {
    query_take_run(h, r, 0, run);
    db_result_free(r);
    if (take_tags(h, run->id, &run->tags, err) == 0) return 1;
    history_run_free(run);
    return -1;
}

int history_find(struct history *h, const char *name, struct history_run *run, struct err *err) {
    struct db_result r;
    if (find_where(h, "r.name = $1", name, NULL, &r, err) < 0) return -1;
    if (r.rows == 1) return take_single(h, &r, run, err);
    db_result_free(&r);
    return 0;
}

int history_find_start(struct history *h, const char *name, struct history_run *run, struct err *err) {
    struct db_result r;
    int found = history_find(h, name, run, err);
    if (found != 0) return found;
    /* LIKE would treat % and _ as patterns. */
    if (find_where(h, "SUBSTR(r.name, 1, LENGTH($1)) = $1", name, NULL, &r, err) < 0) return -1;
    if (r.rows == 1 && *name) return take_single(h, &r, run, err);
    size_t matches = *name ? r.rows : 0;
    db_result_free(&r);
    if (matches > 1) return err_set(err, "several runs start with '%s'; use the whole name", name);
    return 0;
}

static void set_missing(struct history *h, const struct history_run *run) {
    struct db_args args = { 0 };
    struct err ignored;
    db_int(&args, run->id);
    database_query(h->db, "UPDATE runs SET missing = 1 WHERE id = $1", &args, NULL, &ignored);
    history_bump_revision(h, &ignored);
}

int history_find_digest(struct history *h, const char *digest, struct history_run *run, struct err *err) {
    struct db_result r;
    if (find_where(h, "r.digest = $1 AND r.store = $2 AND r.missing = 0", digest, h->store, &r, err) < 0)
        return -1;
    if (r.rows == 0) {
        db_result_free(&r);
        return 0;
    }
    if (take_single(h, &r, run, err) < 0) return -1;
    char *dir = history_folder(h, run->path);
    bool there = file_is_dir(dir);
    free(dir);
    if (there) return 1;
    set_missing(h, run); /* deleted, but not noticed yet */
    history_run_free(run);
    return 0;
}

/* ---- details */

static int rows_of(struct history *h, int64_t id, const char *sql, struct db_result *r, struct err *err) {
    struct db_args args = { 0 };
    db_int(&args, id);
    return database_query(h->db, sql, &args, r, err);
}

static int read_stages(struct history *h, int64_t id, struct run_record *out, struct err *err) {
    struct db_result r;
    if (rows_of(
            h, id,
            "SELECT name, parent, time_ms, ci95_low_ms, ci95_high_ms, repeats, tokens, time_per_token_ms, "
            "tokens_per_s, mfu, mbu, floor_ms, distance, gpu_busy_share FROM stages WHERE run = $1 "
            "ORDER BY position",
            &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct record_stage s = { .name = db_take(&r, i, 0), .parent = db_take(&r, i, 1) };
        double *numbers[] = { &s.time_ms, &s.ci95_low_ms,       &s.ci95_high_ms, &s.repeats,
                              &s.tokens,  &s.time_per_token_ms, &s.tokens_per_s, &s.mfu,
                              &s.mbu,     &s.floor_ms,          &s.distance,     &s.gpu_busy_share };
        for (size_t k = 0; k < COUNTOF(numbers); k++) *numbers[k] = db_cell_num(&r, i, 2 + k);
        vec_push(&out->stages, s);
    }
    db_result_free(&r);
    return 0;
}

static int read_figures(struct history *h, int64_t id, struct run_record *out, struct err *err) {
    struct db_result r;
    if (rows_of(h, id,
                "SELECT key, name, unit, larger_is_better, median, mean, std, ci95_low, ci95_high, repeats "
                "FROM figures WHERE run = $1 ORDER BY position",
                &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct record_figure f = { .key = db_take(&r, i, 0),
                                   .name = db_take(&r, i, 1),
                                   .unit = db_take(&r, i, 2),
                                   .larger_is_better = db_cell_int(&r, i, 3) != 0 };
        double *numbers[] = { &f.median, &f.mean, &f.std, &f.ci95_low, &f.ci95_high, &f.repeats };
        for (size_t k = 0; k < COUNTOF(numbers); k++) *numbers[k] = db_cell_num(&r, i, 4 + k);
        vec_push(&out->figures, f);
    }
    db_result_free(&r);
    return 0;
}

static int read_kernels(struct history *h, int64_t id, struct run_record *out, struct err *err) {
    struct db_result r;
    if (rows_of(h, id,
                "SELECT name, category, library, stage, calls, owned_ns, share FROM kernel_classes WHERE run "
                "= $1 "
                "ORDER BY position",
                &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct record_kernel k = { .name = db_take(&r, i, 0),
                                   .category = db_take(&r, i, 1),
                                   .library = db_take(&r, i, 2),
                                   .stage = db_take(&r, i, 3),
                                   .calls = db_cell_num(&r, i, 4),
                                   .owned_ns = db_cell_num(&r, i, 5),
                                   .share = db_cell_num(&r, i, 6) };
        vec_push(&out->kernels, k);
    }
    db_result_free(&r);
    return 0;
}

static int read_findings(struct history *h, int64_t id, struct run_record *out, struct err *err) {
    struct db_result r;
    if (rows_of(h, id,
                "SELECT rule, stage, title, evidence, advice, confidence, saving_ms, saving_percent FROM "
                "findings "
                "WHERE run = $1 ORDER BY position",
                &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct record_finding f = { .rule = db_take(&r, i, 0),
                                    .stage = db_take(&r, i, 1),
                                    .title = db_take(&r, i, 2),
                                    .evidence = db_take(&r, i, 3),
                                    .advice = db_take(&r, i, 4),
                                    .confidence = db_take(&r, i, 5),
                                    .saving_ms = db_cell_num(&r, i, 6),
                                    .saving_percent = db_cell_num(&r, i, 7) };
        vec_push(&out->findings, f);
    }
    db_result_free(&r);
    return 0;
}

static int read_environment(struct history *h, int64_t id, struct run_record *out, struct err *err) {
    struct db_result r;
    if (rows_of(h, id, "SELECT kind, key, value FROM environment WHERE run = $1 ORDER BY position", &r, err) <
        0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct record_env e = { .kind = db_take(&r, i, 0),
                                .key = db_take(&r, i, 1),
                                .value = db_take(&r, i, 2) };
        vec_push(&out->env, e);
    }
    db_result_free(&r);
    return 0;
}

int history_details(struct history *h, int64_t id, struct run_record *out, struct err *err) {
    *out = (struct run_record){ 0 };
    if (read_stages(h, id, out, err) == 0 && read_figures(h, id, out, err) == 0 &&
        read_kernels(h, id, out, err) == 0 && read_findings(h, id, out, err) == 0 &&
        read_environment(h, id, out, err) == 0 && take_tags(h, id, &out->tags, err) == 0)
        return 0;
    run_record_free(out);
    return -1;
}

/* ---- changes */

int history_tag(struct history *h, const struct history_run *run, const char *const *add, size_t nadd,
                const char *const *remove, size_t nremove, struct err *err) {
    for (size_t i = 0; i < nadd; i++)
        if (!run_tag_valid(add[i]))
            return err_set(err, "'%s' is not a tag: use 1 to 64 letters, digits or ._:+/-", add[i]);
    if (!run->here) return err_set(err, "%s: its folder is in another store", run->name);
    if (run->missing) return err_set(err, "%s: its folder is missing", run->name);
    char *dir = history_folder(h, run->path);
    int rc = run_tags_change(dir, add, nadd, remove, nremove, err);
    free(dir);
    return rc < 0 ? -1 : history_index_folder(h, run->path, NULL, err);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st;
    (void)type;
    (void)at;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

/* Renames the folder before it deletes the files, so that no other process sees a half-deleted run. Returns
 * 1; 0: no such folder; -1: failure. */
static int delete_folder(struct history *h, const struct history_run *run, struct err *err) {
    char *trash = file_join(h->root, HISTORY_PRIVATE "/trash");
    char *to = xasprintf("%s/%016" PRIx64, trash, random_u64());
    char *from = history_folder(h, run->path);
    int rc = file_mkdirs(trash, err);
    if (rc == 0 && rename(from, to) == 0)
        rc = nftw(to, remove_entry, 16, FTW_DEPTH | FTW_PHYS) < 0
                 ? err_set(err, "%s: %s", to, strerror(errno))
                 : 1;
    else if (rc == 0)
        rc = errno == ENOENT ? 0 : err_set(err, "%s: %s", from, strerror(errno));
    free(trash);
    free(to);
    free(from);
    return rc;
}

int history_delete(struct history *h, const struct history_run *run, struct err *err) {
    if (!*run->path) return err_set(err, "%s is the root folder itself; delete it by hand", h->root);
    if (!run->here && !run->missing)
        return err_set(err, "%s: its folder is in another store; delete it there", run->name);
    int removed = run->here ? delete_folder(h, run, err) : 0;
    if (removed < 0) return -1;
    struct db_args args = { 0 };
    struct db_result r;
    db_int(&args, run->id);
    if (history_begin(h, err) < 0) return -1;
    int rc = database_query(h->db, "DELETE FROM runs WHERE id = $1", &args, &r, err);
    bool row_deleted = rc == 0 && r.changed > 0;
    if (rc == 0) db_result_free(&r);
    if (row_deleted) rc = history_write_text(h, run->id, true, false, err);
    if (rc == 0) rc = history_bump_revision(h, err);
    if (rc == 0) rc = database_commit(h->db, err);
    database_rollback(h->db); /* does nothing after a commit */
    return rc < 0 ? -1 : removed || row_deleted;
}

bool history_verify(struct history *h, const struct history_run *run) {
    struct err ignored;
    int64_t mtime_ns, bytes;
    if (!run->here) return false;
    char *dir = history_folder(h, run->path);
    bool there = file_is_dir(dir);
    run_record_stamp(dir, &mtime_ns, &bytes);
    free(dir);
    if (!there) {
        if (!run->missing) set_missing(h, run);
        return !run->missing;
    }
    bool same = run->metrics_mtime_ns == mtime_ns && run->metrics_bytes == bytes;
    if (same && !run->missing) return false;
    return history_index_folder(h, run->path, NULL, &ignored) == 0;
}

/* Finds run folders under the root and updates the database. The modification times of the folders above them
 * are stored, so that unchanged folders are not read again. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "history/write.h"

#define MAX_DEPTH 4
#define BATCH 500 /* runs per transaction */
/* After this many new or updated runs, PostgreSQL is made to update its statistics. It would do so itself a
 * minute later; until then it may read whole tables. */
#define MANY_RUNS 1000
/* The modification time of a folder that changed more recently is not stored, because the folder may change
 * again within the resolution of the time. */
#define SETTLED_NS 2000000000

struct known_run {
    char *path;
    int64_t mtime_ns, bytes;
    bool missing, incomplete;
    bool seen;
};

struct refresh {
    struct history *h;
    struct history_counts *counts;
    enum history_scan scan;
    struct {
        struct known_run *v; /* sorted by path */
        size_t n, cap;
    } known;
    size_t in_batch;
    size_t rejected; /* not accepted by the database */
    struct err *err;
};

#define REJECTED_MAX 50 /* the refresh fails then */

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const struct known_run *)a)->path, ((const struct known_run *)b)->path);
}

static struct known_run *find_known(struct refresh *f, const char *path) {
    struct known_run key = { .path = (char *)path };
    if (f->known.n == 0) return NULL;
    return bsearch(&key, f->known.v, f->known.n, sizeof key, compare_paths);
}

static int load_known(struct refresh *f) {
    struct db_args args = { 0 };
    struct db_result r;
    db_text(&args, f->h->store);
    if (database_query(f->h->db,
                       "SELECT path, metrics_mtime_ns, metrics_bytes, missing, incomplete FROM runs "
                       "WHERE store = $1",
                       &args, &r, f->err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct known_run k = { .mtime_ns = db_cell_int(&r, i, 1),
                               .bytes = db_cell_int(&r, i, 2),
                               .missing = db_cell_int(&r, i, 3) != 0,
                               .incomplete = db_cell_int(&r, i, 4) != 0 };
        k.path = db_take(&r, i, 0);
        vec_push(&f->known, k);
    }
    db_result_free(&r);
    if (f->known.n) qsort(f->known.v, f->known.n, sizeof *f->known.v, compare_paths);
    return 0;
}

/* A transaction has up to BATCH runs. */
static int open_batch(struct refresh *f) {
    if (f->in_batch++ > 0) return 0;
    return history_begin(f->h, f->err);
}

static int close_batch(struct refresh *f) {
    if (f->in_batch == 0) return 0;
    f->in_batch = 0;
    bool changed = f->counts->added + f->counts->updated + f->counts->missing > 0;
    if (changed && history_bump_revision(f->h, f->err) < 0) {
        database_rollback(f->h->db);
        return -1;
    }
    return database_commit(f->h->db, f->err);
}

/* Writes the rows of one run. If the database rejects them, continues without this run. Returns -1 if that is
 * not possible, or if too many runs were rejected. */
static int write_or_skip(struct refresh *f, const char *path, const struct run_record *r, bool *written) {
    struct err ignored;
    if (database_query(f->h->db, "SAVEPOINT one_run", NULL, NULL, f->err) < 0) return -1;
    const char *name = file_basename(*path ? path : f->h->root);
    *written = history_write(f->h, path, name, r, NULL, f->err) == 0;
    if (*written) return database_query(f->h->db, "RELEASE SAVEPOINT one_run", NULL, NULL, f->err);
    if (database_query(f->h->db, "ROLLBACK TO SAVEPOINT one_run", NULL, NULL, &ignored) < 0) return -1;
    if (++f->rejected == REJECTED_MAX) return -1;
    strlist_add(&f->counts->warnings, "%s: %s", path, f->err->msg);
    return 0;
}

static int index_run(struct refresh *f, const char *path, const struct known_run *known) {
    struct run_record r;
    struct err problem;
    bool written = false;
    char *dir = history_folder(f->h, path);
    if (run_record_read(&r, dir, &problem) < 0) strlist_add(&f->counts->warnings, "%s", problem.msg);
    int rc = open_batch(f);
    if (rc == 0) rc = write_or_skip(f, path, &r, &written);
    if (written) *(known ? &f->counts->updated : &f->counts->added) += 1;
    if (rc == 0 && f->in_batch >= BATCH) rc = close_batch(f);
    run_record_free(&r);
    free(dir);
    return rc;
}

static int visit_run(struct refresh *f, const char *path) {
    struct known_run *known = find_known(f, path);
    progress_update(++f->counts->seen);
    if (known) {
        int64_t mtime_ns, bytes;
        known->seen = true;
        if (f->scan == HISTORY_CHANGED && !known->incomplete && !known->missing) return 0;
        char *dir = history_folder(f->h, path);
        run_record_stamp(dir, &mtime_ns, &bytes);
        free(dir);
        if (f->scan == HISTORY_CHANGED && !known->missing && mtime_ns == known->mtime_ns &&
            bytes == known->bytes)
            return 0;
    }
    return index_run(f, path, known);
}

static int mark_missing(struct refresh *f, const char *path) {
    struct db_args args = { 0 };
    db_text(&args, f->h->store);
    db_text(&args, path);
    f->counts->missing++;
    if (open_batch(f) < 0) return -1;
    return database_query(f->h->db, "UPDATE runs SET missing = 1 WHERE store = $1 AND path = $2", &args, NULL,
                          f->err);
}

static int store_folder(struct refresh *f, const char *path, int64_t mtime_ns) {
    struct db_args args = { 0 };
    db_text(&args, f->h->store);
    db_text(&args, path);
    db_int(&args, mtime_ns);
    if (open_batch(f) < 0) return -1;
    return database_query(f->h->db,
                          "INSERT INTO folders (store, path, mtime_ns) VALUES ($1, $2, $3) "
                          "ON CONFLICT (store, path) DO UPDATE SET mtime_ns = excluded.mtime_ns",
                          &args, NULL, f->err);
}

/* Path relative to the root; caller frees. NULL: hidden, not a folder, or not UTF-8. */
static char *entry_path(const char *folder, const struct dirent *e) {
    if (e->d_name[0] == '.' || !utf8_valid(e->d_name, strlen(e->d_name))) return NULL;
    if (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) return NULL;
    return *folder ? file_join(folder, e->d_name) : xstrdup(e->d_name);
}

static int visit_folder(struct refresh *f, const char *path, int depth);

static int visit_entry(struct refresh *f, const char *path, int depth) {
    if (find_known(f, path)) return visit_run(f, path);
    char *dir = history_folder(f->h, path);
    int rc = 0;
    struct stat st;
    if (run_record_is_run(dir))
        rc = visit_run(f, path);
    else if (depth < MAX_DEPTH && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode))
        rc = visit_folder(f, path, depth + 1);
    free(dir);
    return rc;
}

/* Reads a folder that may contain runs. */
static int visit_folder(struct refresh *f, const char *path, int depth) {
    struct stat st;
    char *dir = history_folder(f->h, path);
    DIR *d = opendir(dir);
    int rc = 0;
    if (d && fstat(dirfd(d), &st) == 0) {
        int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        if ((int64_t)clock_wall_ns() - mtime_ns < SETTLED_NS) mtime_ns = 0;
        for (struct dirent *e; rc == 0 && (e = readdir(d));) {
            char *entry = entry_path(path, e);
            if (entry) rc = visit_entry(f, entry, depth);
            free(entry);
        }
        if (rc == 0) rc = store_folder(f, path, mtime_ns);
    }
    if (d) closedir(d);
    free(dir);
    return rc;
}

/* Marks the runs directly in `folder` that were not found as missing. */
static int find_missing(struct refresh *f, const char *folder) {
    size_t n = strlen(folder);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->known.n; i++) {
        const struct known_run *k = &f->known.v[i];
        if (k->seen || strncmp(k->path, folder, n) != 0) continue;
        const char *rest = n ? k->path + n : k->path;
        if ((n && *rest++ != '/') || strchr(rest, '/')) continue;
        if (!k->missing)
            rc = mark_missing(f, k->path);
        else if (f->scan == HISTORY_ALL)
            f->counts->missing++;
    }
    return rc;
}

static bool folder_changed(const struct refresh *f, const char *path, int64_t mtime_ns) {
    struct stat st;
    char *dir = history_folder(f->h, path);
    bool there = stat(dir, &st) == 0;
    free(dir);
    return f->scan == HISTORY_ALL || mtime_ns == 0 || !there ||
           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec != mtime_ns;
}

static int64_t stored_mtime(const struct db_result *folders, const char *path) {
    for (size_t i = 0; i < folders->rows; i++)
        if (strcmp(db_cell(folders, i, 0), path) == 0) return db_cell_int(folders, i, 1);
    return 0;
}

static int visit_changed(struct refresh *f, const char *path, int64_t mtime_ns, int depth) {
    if (!folder_changed(f, path, mtime_ns)) return 0;
    if (!f->known.n && load_known(f) < 0) return -1;
    if (visit_folder(f, path, depth) < 0) return -1;
    return find_missing(f, path);
}

static int depth_of(const char *path) {
    int depth = *path != '\0';
    for (; *path; path++) depth += *path == '/';
    return depth;
}

static int visit_all_folders(struct refresh *f, const struct db_result *folders) {
    if (run_record_is_run(f->h->root)) return load_known(f) < 0 ? -1 : visit_run(f, "");
    if (visit_changed(f, "", stored_mtime(folders, ""), 0) < 0) return -1;
    for (size_t i = 0; i < folders->rows; i++) {
        const char *path = db_cell(folders, i, 0);
        if (*path && visit_changed(f, path, db_cell_int(folders, i, 1), depth_of(path)) < 0) return -1;
    }
    return 0;
}

/* Reads the run again if metrics.json changed. A folder that is gone is found by visit_changed(). */
static int recheck_run(struct refresh *f, const char *path, int64_t known_mtime_ns, int64_t known_bytes) {
    struct known_run k = { .path = (char *)path };
    int64_t mtime_ns, bytes;
    char *dir = history_folder(f->h, path);
    run_record_stamp(dir, &mtime_ns, &bytes);
    bool changed = (mtime_ns != known_mtime_ns || bytes != known_bytes) && file_is_dir(dir);
    free(dir);
    return changed ? index_run(f, path, &k) : 0;
}

/* Reads unfinished runs (up to 1000) again if metrics.json changed. The modification time of the parent
 * folder does not show this. */
static int revisit_unfinished(struct refresh *f) {
    struct db_args args = { 0 };
    struct db_result r;
    db_text(&args, f->h->store);
    if (database_query(f->h->db,
                       "SELECT path, metrics_mtime_ns, metrics_bytes FROM runs WHERE store = $1 AND "
                       "incomplete = 1 AND missing = 0 LIMIT 1000",
                       &args, &r, f->err) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r.rows; i++)
        rc = recheck_run(f, db_cell(&r, i, 0), db_cell_int(&r, i, 1), db_cell_int(&r, i, 2));
    db_result_free(&r);
    return rc;
}

static void free_known(struct refresh *f) {
    for (size_t i = 0; i < f->known.n; i++) free(f->known.v[i].path);
    free(f->known.v);
}

static int refresh_all(struct refresh *f) {
    struct db_args args = { 0 };
    struct db_result folders;
    db_text(&args, f->h->store);
    if (database_query(f->h->db, "SELECT path, mtime_ns FROM folders WHERE store = $1", &args, &folders,
                       f->err) < 0)
        return -1;
    int rc = visit_all_folders(f, &folders);
    if (rc == 0 && f->scan == HISTORY_CHANGED) rc = revisit_unfinished(f);
    if (rc == 0)
        rc = close_batch(f);
    else
        database_rollback(f->h->db);
    db_result_free(&folders);
    free_known(f);
    return rc;
}

int history_refresh(struct history *h, enum history_scan scan, struct history_counts *counts,
                    struct err *err) {
    struct refresh f = { .h = h, .counts = counts, .scan = scan, .err = err };
    *counts = (struct history_counts){ 0 };
    progress_start("indexing", "runs", 0);
    int rc = refresh_all(&f);
    if (rc == 0 && counts->added + counts->updated >= MANY_RUNS && database_is_postgres(h->db)) {
        struct err ignored;
        database_query(h->db, "ANALYZE", NULL, NULL, &ignored);
    }
    progress_finish();
    return rc;
}

int history_recheck(struct history *h, int64_t *position, size_t runs, struct history_counts *counts,
                    struct err *err) {
    struct refresh f = { .h = h, .counts = counts, .scan = HISTORY_CHANGED, .err = err };
    struct db_args args = { 0 };
    struct db_result r;
    *counts = (struct history_counts){ 0 };
    db_text(&args, h->store);
    db_int(&args, *position);
    db_int(&args, (int64_t)runs);
    if (database_query(h->db,
                       "SELECT id, path, metrics_mtime_ns, metrics_bytes FROM runs WHERE store = $1 AND "
                       "missing = 0 AND id > $2 ORDER BY id LIMIT $3",
                       &args, &r, err) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r.rows; i++)
        rc = recheck_run(&f, db_cell(&r, i, 1), db_cell_int(&r, i, 2), db_cell_int(&r, i, 3));
    *position = r.rows == runs ? db_cell_int(&r, r.rows - 1, 0) : 0;
    db_result_free(&r);
    if (rc == 0)
        rc = close_batch(&f);
    else
        database_rollback(h->db);
    return rc;
}

int history_index_folder(struct history *h, const char *path, char **name, struct err *err) {
    struct run_record r;
    char *dir = history_folder(h, path);
    struct err ignored;
    run_record_read(&r, dir, &ignored); /* unreadable: an incomplete run */
    int rc = history_begin(h, err);
    if (rc == 0) {
        rc = history_write(h, path, file_basename(*path ? path : h->root), &r, name, err);
        if (rc == 0) rc = history_bump_revision(h, err);
        if (rc == 0)
            rc = database_commit(h->db, err);
        else
            database_rollback(h->db);
    }
    run_record_free(&r);
    free(dir);
    return rc;
}

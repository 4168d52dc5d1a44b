/* Writes a job into a run folder. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/intern.h"
#include "ranks/inputs.h"
#include "ranks/job.h"

static bool is_empty(const char *folder) {
    DIR *dir = opendir(folder);
    bool empty = true;
    if (!dir) return true;
    for (struct dirent *e; (e = readdir(dir)) && empty;)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(dir);
    return empty;
}

static int copy_file(const char *from, const char *to, struct err *err) {
    struct file_atomic out;
    char block[65536];
    size_t n;
    FILE *in = fopen(from, "rb");
    if (!in) return err_set(err, "%s: %s", from, strerror(errno));
    int rc = file_atomic_open(&out, to, err);
    if (rc < 0) {
        fclose(in);
        return rc;
    }
    while ((n = fread(block, 1, sizeof block, in)) > 0) fwrite(block, 1, n, out.out);
    if (ferror(in)) {
        file_atomic_abort(&out);
        rc = err_set(err, "%s: cannot be read", from);
    } else {
        rc = file_atomic_commit(&out, err);
    }
    fclose(in);
    return rc;
}

/* The traces that were saved. The power of a node is one file, which all ranks of the node refer to. */
struct saved_traces {
    struct intern *names;        /* in the new folder */
    struct strlist paths, files; /* old path and new name */
};

static const char *saved_name(const struct saved_traces *s, const char *path) {
    for (size_t i = s->paths.n; i-- > 0;)
        if (strcmp(s->paths.v[i], path) == 0) return s->files.v[i];
    return NULL;
}

/* Returns a name for the trace. Adds the rank if the name is already used: two nodes can have files of the
 * same name. */
static char *trace_name(struct intern *used, const char *path, uint32_t rank) {
    const char *name = file_basename(path);
    char *out = intern_find(used, name, strlen(name)) == INTERN_NONE ? xstrdup(name)
                                                                     : xasprintf("rank%u-%s", rank, name);
    intern_str(used, out);
    return out;
}

/* Saves the trace and returns its new name in *name. */
static int save_trace(struct saved_traces *s, const char *path, uint32_t rank, const char *folder,
                      const char **name, struct err *err) {
    *name = saved_name(s, path);
    if (*name) return 0;
    char *file = trace_name(s->names, path, rank), *to = file_join(folder, file);
    int rc = link(path, to) == 0 ? 0 : copy_file(path, to, err);
    strlist_add(&s->paths, "%s", path);
    strlist_add(&s->files, "%s", file);
    *name = s->files.v[s->files.n - 1];
    free(file);
    free(to);
    return rc;
}

static int save_rank(struct rank_digest *d, uint32_t rank, const char *digests, const char *traces,
                     struct saved_traces *saved, struct err *err) {
    char name[48];
    const char **names = digest_alloc(d, d->ntraces, sizeof *names), *const *paths = d->traces;
    int rc = 0;
    for (size_t i = 0; i < d->ntraces && rc == 0; i++) {
        rc = save_trace(saved, paths[i], rank, traces, &names[i], err);
        names[i] = digest_text(d, names[i]);
    }
    snprintf(name, sizeof name, "rank-%05u%s", rank, RANK_DIGEST_ENDING);
    char *path = file_join(digests, name);
    d->traces = names;
    if (rc == 0) rc = rank_digest_write(d, path, err);
    d->traces = paths;
    free(path);
    return rc;
}

int rank_job_save(const struct rank_job *job, const char *dir, struct err *err) {
    const struct job_owner *o = job_owner(job);
    if (file_exists(dir) && (!file_is_dir(dir) || !is_empty(dir)))
        return err_set(err, "%s: exists and is not an empty folder; give a new folder", dir);
    char *digests = file_join(dir, RANK_DIGEST_FOLDER), *traces = file_join(dir, "trace");
    struct saved_traces saved = { .names = intern_open() };
    int rc = file_mkdirs(digests, err) < 0 || file_mkdirs(traces, err) < 0 ? -1 : 0;
    for (size_t i = 0; i < o->n && rc == 0; i++)
        rc = save_rank(o->digests[i], job->ranks[o->row_of[i]].rank, digests, traces, &saved, err);
    rmdir(traces); /* fails, as intended, if the folder has files */
    intern_close(saved.names);
    strlist_free(&saved.paths);
    strlist_free(&saved.files);
    free(digests);
    free(traces);
    return rc;
}

/* Copies RUN/ranks/rank-N.json, which record how the ranks ended. An existing file from an earlier operand is
 * kept. */
static int save_endings(const char *run, const char *to, struct err *err) {
    char *from = file_join(run, "ranks");
    DIR *dir = opendir(from);
    int rc = 0;
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        if (strncmp(e->d_name, "rank-", 5) != 0 || !file_has_ending(e->d_name, ".json")) continue;
        char *path = file_join(from, e->d_name), *copy = file_join(to, e->d_name);
        rc = file_mkdirs(to, err);
        if (rc == 0 && !file_exists(copy)) rc = copy_file(path, copy, err);
        free(path);
        free(copy);
    }
    if (dir) closedir(dir);
    free(from);
    return rc;
}

int rank_job_save_endings(const char *const *operands, size_t n, const char *dir, struct err *err) {
    char *to = file_join(dir, "ranks");
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) rc = save_endings(operands[i], to, err);
    free(to);
    return rc;
}

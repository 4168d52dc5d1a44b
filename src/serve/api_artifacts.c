/* The files of a run. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "base/vec.h"
#include "serve/api.h"
#include "serve/server.h"
#include "serve/tar.h"

int api_open_artifact(const struct history *h, const struct history_run *run, const char *path) {
    struct stat st;
    if (!tar_path_is_safe(path)) return -1;
    char *dir = history_folder(h, run->path);
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    while (fd >= 0 && *path) {
        size_t n = strcspn(path, "/");
        char *name = xstrndup(path, n);
        int flags = path[n] ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK; /* O_NONBLOCK: for pipes */
        int next = openat(fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
        free(name);
        close(fd);
        fd = next;
        path += n + (path[n] == '/');
    }
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

struct artifact {
    char *path;
    uint64_t bytes;
};
struct artifact_list {
    struct artifact *v;
    size_t n, cap;
};

static void list_artifacts(const char *dir, const char *below, int depth, struct artifact_list *out) {
    char *here = *below ? file_join(dir, below) : xstrdup(dir);
    DIR *d = opendir(here);
    for (struct dirent *e; d && out->n < TAR_FILES_MAX && (e = readdir(d));) {
        struct stat st;
        char *path = *below ? file_join(below, e->d_name) : xstrdup(e->d_name);
        bool safe = tar_path_is_safe(path) && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (safe && S_ISDIR(st.st_mode) && depth < 8) list_artifacts(dir, path, depth + 1, out);
        if (safe && S_ISREG(st.st_mode))
            vec_push(out, ((struct artifact){ xstrdup(path), (uint64_t)st.st_size }));
        free(path);
    }
    if (d) closedir(d);
    free(here);
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct artifact *)a)->path, ((const struct artifact *)b)->path);
}

static void write_artifacts(struct request *q, const char *run, struct artifact_list *files) {
    struct jsonw j;
    if (files->n) qsort(files->v, files->n, sizeof *files->v, by_path);
    http_json(q, 200, "");
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "run", run);
    jsonw_karray(&j, "artifacts");
    for (size_t i = 0; i < files->n; i++) {
        jsonw_object(&j);
        jsonw_kstr(&j, "path", files->v[i].path);
        jsonw_ku64(&j, "bytes", files->v[i].bytes);
        jsonw_end(&j);
        free(files->v[i].path);
    }
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
    free(files->v);
}

void api_answer_artifacts(struct request *q, const char *run, const char *dir) {
    struct artifact_list files = { 0 };
    list_artifacts(dir, "", 0, &files);
    write_artifacts(q, run, &files);
}

static bool folder_is_here(struct request *q, const struct history_run *run) {
    if (run->here && !run->missing) return true;
    http_problem(q, 409, run->here ? "the folder of the run is missing" : "the run is in another store");
    return false;
}

void api_list_artifacts(struct request *q) {
    struct history_run run;
    struct history *h = request_history(q);
    if (!h) return;
    if (api_find_run(q, h, q->arguments[0], &run)) {
        if (folder_is_here(q, &run)) {
            char *dir = history_folder(h, run.path);
            api_answer_artifacts(q, run.name, dir);
            free(dir);
        }
        history_run_free(&run);
    }
    request_done(q, h);
}

/* Never HTML, because the file may be an untrusted upload. Only the report is served as HTML, in a
 * sandbox. */
static const char *artifact_type(const char *path) {
    static const struct {
        const char *ending, *type;
    } rows[] = { { ".json", "application/json" },         { ".md", "text/plain; charset=utf-8" },
                 { ".csv", "text/csv; charset=utf-8" },   { ".yaml", "text/plain; charset=utf-8" },
                 { ".log", "text/plain; charset=utf-8" }, { ".png", "image/png" } };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (file_has_ending(path, rows[i].ending)) return rows[i].type;
    return "application/octet-stream";
}

static void send_file(struct request *q, struct history *h, const char *path, const char *type) {
    struct history_run run;
    struct stat st;
    if (!api_find_run(q, h, q->arguments[0], &run)) return;
    int fd = run.here && !run.missing ? api_open_artifact(h, &run, path) : -1;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        q->status = 200;
        q->type = type;
        q->fd = fd;
        q->fd_bytes = (uint64_t)st.st_size;
        snprintf(q->etag, sizeof q->etag, "W/\"%llx-%llx\"", (unsigned long long)st.st_size,
                 (unsigned long long)st.st_mtim.tv_sec * 1000000000 + (unsigned long long)st.st_mtim.tv_nsec);
    } else
        http_problem(q, 404, "run '%s' has no file '%s'", q->arguments[0], path);
    history_run_free(&run);
}

void api_get_artifact(struct request *q) {
    const char *path = http_query(q, "path");
    if (!path || !tar_path_is_safe(path)) {
        http_problem(q, 400, "path must be the path of a file, as listed by artifacts");
        return;
    }
    struct history *h = request_history(q);
    if (!h) return;
    http_add_header(q, "Content-Security-Policy", "sandbox; default-src 'none'");
    send_file(q, h, path, artifact_type(path));
    if (q->status == 200 && strncmp(q->type, "text/plain", 10) != 0 &&
        strcmp(q->type, "application/json") != 0 && strcmp(q->type, "image/png") != 0)
        http_add_header(q, "Content-Disposition", "attachment");
    request_done(q, h);
}

/* The page contains scripts and may be an untrusted upload. In the sandbox it has its own origin: it can
 * neither read our pages nor use the network. */
static void send_report(struct request *q, const char *path) {
    struct history *h = request_history(q);
    if (!h) return;
    http_add_header(q, "Content-Security-Policy",
                    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src "
                    "'unsafe-inline'; img-src data:");
    send_file(q, h, path, "text/html; charset=utf-8");
    request_done(q, h);
}

void api_get_report(struct request *q) { send_report(q, "report.html"); }
void api_get_ranks(struct request *q) { send_report(q, "ranks.html"); }

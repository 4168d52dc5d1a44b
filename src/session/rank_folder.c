#include "session/rank_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/jsonw.h"
#include "base/program.h"
#include "base/schema.h"
#include "base/util.h"
#include "base/vec.h"
#include "session/run_dir.h"

#define RANK_FILE_BYTES (1u << 20)
#define LISTED_WORDS 60 /* a list of ranks is shortened after this many characters */

/* The contents of the file of a rank. */
struct member {
    uint32_t rank, world_size;
    bool ended;
    char *job, *end, *node; /* end: how the program ended; NULL: with status 0, or unknown */
    struct strlist warnings;
};
struct members {
    struct member *v;
    size_t n, cap;
};

/* ---- writing */

static void put_number(struct jsonw *j, const char *key, uint32_t v) {
    if (v == LAUNCHER_UNKNOWN)
        jsonw_kstr(j, key, NULL);
    else
        jsonw_ku64(j, key, v);
}

static void put_text(struct jsonw *j, const char *key, const char *text) {
    jsonw_kstr(j, key, text && *text ? text : NULL);
}

static void put_end(struct jsonw *j, const int *wait_status) {
    struct strbuf how = STRBUF_INIT;
    bool exited = wait_status && WIFEXITED(*wait_status);
    if (wait_status) program_add_end(&how, *wait_status);
    jsonw_kstr(j, "state", wait_status ? "ended" : "running");
    put_text(j, "end", how.buf);
    put_number(j, "exit_status", exited ? (uint32_t)WEXITSTATUS(*wait_status) : LAUNCHER_UNKNOWN);
    strbuf_free(&how);
}

/* `wait_status` NULL: the program is running. */
static void describe(const struct rank_folder *f, const int *wait_status, const struct strlist *warnings,
                     struct strbuf *out) {
    const struct launcher *l = &f->launcher;
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_RANK);
    put_number(&j, "rank", l->rank);
    put_number(&j, "world_size", l->world_size);
    put_number(&j, "local_rank", l->local_rank);
    put_number(&j, "local_size", l->local_size);
    put_number(&j, "node_rank", l->node_rank);
    jsonw_kstr(&j, "node", l->node);
    put_text(&j, "launcher", l->name);
    put_text(&j, "job", l->job);
    jsonw_ku64(&j, "pid", (uint64_t)getpid());
    jsonw_kstr(&j, "command", f->command);
    jsonw_ku64(&j, "started_ns", f->started_ns);
    jsonw_ku64_known(&j, "ended_ns", wait_status ? clock_wall_ns() : 0);
    put_end(&j, wait_status);
    jsonw_karray(&j, "problems");
    for (size_t i = 0; warnings && i < warnings->n; i++) jsonw_str(&j, warnings->v[i]);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
    strbuf_addch(out, '\n');
}

/* Creates a file with this content. Returns -1 with errno set, which is EEXIST if the file exists. */
static int create_exclusively(const char *path, const char *text, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    ssize_t done = write(fd, text, n);
    int why = errno;
    close(fd);
    if (done == (ssize_t)n) return 0;
    unlink(path);
    errno = done < 0 ? why : ENOSPC;
    return -1;
}

/* ---- reading */

static void free_members(struct members *m) {
    for (size_t i = 0; i < m->n; i++) {
        free(m->v[i].job);
        free(m->v[i].end);
        free(m->v[i].node);
        strlist_free(&m->v[i].warnings);
    }
    free(m->v);
}

static int is_rank_file(const struct dirent *e) {
    unsigned rank;
    char rest[8];
    return sscanf(e->d_name, "rank-%5u.%7s", &rank, rest) == 2 && strcmp(rest, "json") == 0;
}

static char *copy_text(const char *text) { return text ? xstrdup(text) : NULL; }

/* A file that cannot be read belongs to a rank that is just starting, or that was killed while it started. */
static void add_member(struct members *m, const char *folder, const char *name) {
    char *path = file_join(folder, name);
    struct err ignored;
    json_t *d = jsonr_load_path(path, RANK_FILE_BYTES, &ignored);
    struct member row = { .rank = (uint32_t)strtoul(name + strlen("rank-"), NULL, 10),
                          .world_size = LAUNCHER_UNKNOWN };
    if (d && schema_version(jsonr_text(d, "schema"), SCHEMA_RANK)) {
        const char *state = jsonr_text(d, "state");
        double status = jsonr_number(d, "exit_status");
        row.world_size =
            jsonr_count(d, "world_size") ? (uint32_t)jsonr_count(d, "world_size") : LAUNCHER_UNKNOWN;
        row.ended = state && strcmp(state, "ended") == 0;
        row.job = copy_text(jsonr_text(d, "job"));
        row.node = copy_text(jsonr_text(d, "node"));
        row.end = status == 0 ? NULL : copy_text(jsonr_text(d, "end"));
        const json_t *warnings = jsonr_array(d, "problems");
        for (size_t i = 0; i < json_array_size(warnings); i++)
            if (json_is_string(json_array_get(warnings, i)))
                strlist_add(&row.warnings, "%s", json_string_value(json_array_get(warnings, i)));
    }
    vec_push(m, row);
    json_decref(d);
    free(path);
}

static struct members read_members(const char *dir) {
    struct members m = { 0 };
    struct dirent **files = NULL;
    char *folder = file_join(dir, RANK_FOLDER_NAME);
    int n = scandir(folder, &files, is_rank_file, alphasort);
    for (int i = 0; i < n; i++) {
        add_member(&m, folder, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    free(folder);
    return m;
}

/* ---- joining and leaving */

/* A folder without ranks/ belongs to the job if it is empty: every rank creates ranks/ first. */
static int check_folder(const char *dir, struct err *err) {
    char *ranks = file_join(dir, RANK_FOLDER_NAME), *metrics = file_join(dir, "metrics.json"),
         *mark = file_join(dir, RUN_DIR_MARKER);
    bool joined = file_is_dir(ranks), finished = file_exists(metrics) && !file_exists(mark);
    free(ranks);
    free(metrics);
    free(mark);
    if (finished) return err_set(err, "%s contains a finished run: choose another folder for this run", dir);
    if (joined || file_mkdirs(dir, err) < 0) return joined ? 0 : -1;
    DIR *d = opendir(dir);
    bool foreign = false;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        foreign |= e->d_name[0] != '.' && strcmp(e->d_name, RANK_FOLDER_NAME) != 0;
    if (d) closedir(d);
    char *again = file_join(dir, RANK_FOLDER_NAME);
    foreign &= !file_is_dir(again); /* another rank may have created ranks/ since */
    free(again);
    return foreign ? err_set(err, "%s is not empty: choose another folder for this run", dir) : 0;
}

static int check_job(const struct rank_folder *f, struct err *err) {
    struct members m = read_members(f->dir);
    int rc = 0;
    for (size_t i = 0; i < m.n && rc == 0; i++)
        if (m.v[i].job && f->launcher.job[0] && strcmp(m.v[i].job, f->launcher.job) != 0)
            rc = err_set(err,
                         "%s contains the ranks of another job (%s; this job is %s): choose another folder",
                         f->dir, m.v[i].job, f->launcher.job);
    free_members(&m);
    return rc;
}

static int create_own_file(struct rank_folder *f, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    describe(f, NULL, NULL, &text);
    int rc = create_exclusively(f->path, text.buf, text.len);
    if (rc < 0 && errno == EEXIST)
        err_set(err, "rank %u has already been recorded in %s: choose another folder for each run",
                f->launcher.rank, f->dir);
    else if (rc < 0)
        err_set(err, "%s: %s", f->path, strerror(errno));
    strbuf_free(&text);
    return rc;
}

/* After a restart by the launcher, the ranks form a new run with its own folder. */
static char *folder_of(const char *dir, const struct launcher *l) {
    return l->restart ? xasprintf("%s/restart-%u", dir, l->restart) : xstrdup(dir);
}

int rank_folder_join(struct rank_folder *f, const char *dir, const struct launcher *l, const char *command,
                     struct err *err) {
    static const char unfinished[] =
        "This run has not finished: ranks of the job are running, or were killed.\n";
    *f = (struct rank_folder){
        .launcher = *l, .dir = folder_of(dir, l), .command = xstrdup(command), .started_ns = clock_wall_ns()
    };
    char *folder = file_join(f->dir, RANK_FOLDER_NAME), *mark = file_join(f->dir, RUN_DIR_MARKER);
    f->path = xasprintf("%s/rank-%05u.json", folder, l->rank);
    int rc = check_folder(f->dir, err);
    if (rc == 0) rc = file_mkdirs(folder, err);
    if (rc == 0) rc = check_job(f, err);
    if (rc == 0) rc = create_own_file(f, err);
    if (rc == 0) f->first = create_exclusively(mark, unfinished, strlen(unfinished)) == 0;
    free(mark);
    free(folder);
    if (rc < 0) rank_folder_free(f);
    return rc;
}

void rank_folder_cancel(struct rank_folder *f) { unlink(f->path); }

static bool all_ended(const struct rank_folder *f) {
    struct members m = read_members(f->dir);
    size_t ended = 0;
    for (size_t i = 0; i < m.n; i++) ended += m.v[i].ended;
    free_members(&m);
    return ended >= f->launcher.world_size;
}

bool rank_folder_leave(struct rank_folder *f, int wait_status, const struct strlist *warnings,
                       struct err *err) {
    struct strbuf text = STRBUF_INIT;
    err->msg[0] = '\0';
    describe(f, &wait_status, warnings, &text);
    bool written = file_write_atomic(f->path, text.buf, text.len, err) == 0;
    strbuf_free(&text);
    if (!written || !all_ended(f)) return false;
    /* two ranks that end at the same time may both find that all others have ended */
    char *claim = xasprintf("%s/%s/reported-by", f->dir, RANK_FOLDER_NAME);
    char who[32];
    snprintf(who, sizeof who, "rank %u\n", f->launcher.rank);
    bool mine = create_exclusively(claim, who, strlen(who)) == 0;
    free(claim);
    return mine;
}

void rank_folder_free(struct rank_folder *f) {
    free(f->dir);
    free(f->path);
    free(f->command);
    *f = (struct rank_folder){ 0 };
}

/* ---- the states of the ranks */

/* Writes a list of ranks as "rank 3" or "ranks 1, 4 to 7". A long list is shortened. */
static void add_list(struct strbuf *out, const uint32_t *ranks, size_t n) {
    size_t start = out->len;
    strbuf_addstr(out, n == 1 ? "rank " : "ranks ");
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && ranks[j] == ranks[j - 1] + 1;) j++;
        if (out->len - start > LISTED_WORDS) {
            strbuf_addf(out, " and %zu more", n - i);
            return;
        }
        strbuf_addf(out, "%s%u", i ? ", " : "", ranks[i]);
        if (j - i > 1) strbuf_addf(out, "%s%u", j - i == 2 ? ", " : " to ", ranks[j - 1]);
    }
}

struct rank_list {
    uint32_t *v;
    size_t n, cap;
};

static void add_warning(struct strlist *out, const struct rank_list *ranks, const char *what) {
    struct strbuf line = STRBUF_INIT;
    if (!ranks->n) return;
    add_list(&line, ranks->v, ranks->n);
    line.buf[0] = 'R';
    strbuf_addstr(&line, what);
    strlist_add(out, "%s", line.buf);
    strbuf_free(&line);
}

static bool is_member(const struct members *m, uint32_t rank) {
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].rank == rank) return true;
    return false;
}

static void add_new(struct strlist *out, const char *text) {
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->v[i], text) == 0) return;
    strlist_add(out, "%s", text);
}

bool rank_folder_warnings(const char *dir, rank_recorded *recorded, const void *ctx, struct strlist *out) {
    struct members m = read_members(dir);
    struct rank_list absent = { 0 }, open = { 0 }, unrecorded = { 0 };
    uint32_t world = 0;
    bool has_files = m.n > 0;
    for (size_t i = 0; i < m.n; i++) {
        if (m.v[i].world_size != LAUNCHER_UNKNOWN) world = MAX(world, m.v[i].world_size);
        if (!m.v[i].ended)
            vec_push(&open, m.v[i].rank);
        else if (!recorded(m.v[i].rank, ctx))
            vec_push(&unrecorded, m.v[i].rank);
        if (m.v[i].ended && m.v[i].end)
            strlist_add(out, "Rank %u on %s ended with %s.", m.v[i].rank, m.v[i].node ? m.v[i].node : "?",
                        m.v[i].end);
        for (size_t k = 0; k < m.v[i].warnings.n; k++) add_new(out, m.v[i].warnings.v[k]);
    }
    for (uint32_t r = 0; r < world && m.n; r++)
        if (!is_member(&m, r)) vec_push(&absent, r);
    add_warning(out, &open, " did not end: still running, or killed together with inferprof.");
    add_warning(
        out, &absent,
        " never started here: figures of the job do not include them. Ranks of nodes with another file "
        "system are joined with 'inferprof merge'.");
    add_warning(out, &unrecorded, " left no trace: the program did not initialise CUDA or NVTX.");
    free(absent.v);
    free(open.v);
    free(unrecorded.v);
    free_members(&m);
    return has_files;
}

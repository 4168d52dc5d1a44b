#include "serve/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/program.h"
#include "base/strlist.h"
#include "base/util.h"
#include "base/vec.h"
#include "history/record.h"
#include "serve/job_request.h"
#include "serve/jobs_internal.h"
#include "serve/server.h"

#define JOBS HISTORY_PRIVATE "/jobs"
#define POLL_NS 200000000
#define KILL_NS 15000000000 /* from cancelling to killing */
#define MAX_ATTEMPTS 2      /* a job restarts once */

struct running {
    int64_t id;
    char *run_id, *device;
    pid_t pid;
    uint64_t asked_ns; /* 0: not asked to stop */
    bool ended;        /* the database may not know it yet */
    int status;        /* of waitpid(), if it ended */
};

struct jobs {
    struct server *s;
    int lock_fd;
    pthread_t thread;
    struct {
        struct running *v;
        size_t n, cap;
    } running; /* used only by `thread` */
    atomic_bool stopping;
};

char *job_log_path(const struct history *h, const char *run_id) {
    return xasprintf("%s/" JOBS "/%s.log", h->root, run_id);
}

static int set_state(struct history *h, int64_t id, const char *state, const char *message) {
    struct db_args args = { 0 };
    struct err err;
    bool ended = strcmp(state, "queued") != 0 && strcmp(state, "running") != 0;
    db_text(&args, state);
    db_text(&args, message);
    if (ended)
        db_int(&args, (int64_t)clock_wall_ns());
    else
        db_text(&args, NULL);
    db_int(&args, id);
    int rc = database_query(h->db, "UPDATE jobs SET state = $1, message = $2, ended_ns = $3 WHERE id = $4",
                            &args, NULL, &err);
    if (rc < 0) log_warn("jobs: %s", err.msg);
    return rc;
}

/* ---- on the jobs thread */

/* The kernel kills the process when the server ends, even with SIGKILL. Otherwise the process would share the
 * device with the process that the next server starts for the same job. */
static pid_t start_process(const struct history *h, const char *run_id, const char *request,
                           struct err *err) {
    char *log = job_log_path(h, run_id), *program = file_self();
    struct strlist words = { 0 };
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC),
        out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    job_command(request, h->root, run_id, &words);
    char **argv = xcalloc(words.n + 2, sizeof *argv);
    argv[0] = program;
    for (size_t i = 0; i < words.n; i++) argv[i + 1] = words.v[i];
    char **env = program_environment((const char *const[]){ "INFERPROF_PROGRESS=lines", NULL });
    pid_t self = getpid(), pid = program && in >= 0 && out >= 0 ? fork() : -1;
    if (pid == 0) program_exec(argv, env, in, out, SIGKILL, self);
    if (pid < 0) err_set(err, "cannot start inferprof profile: %s", strerror(errno));
    if (pid > 0) setpgid(pid, pid);
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    free(argv);
    free(env);
    free(program);
    free(log);
    strlist_free(&words);
    return pid;
}

static bool device_is_busy(const struct jobs *j, const char *device) {
    for (size_t i = 0; i < j->running.n; i++)
        if (strcmp(j->running.v[i].device, device) == 0) return true;
    return false;
}

/* Returns false if the job is not queued any more: a client cancelled it meanwhile. */
static bool mark_started(struct history *h, int64_t id) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err err;
    db_int(&args, (int64_t)clock_wall_ns());
    db_int(&args, id);
    if (database_query(h->db,
                       "UPDATE jobs SET state = 'running', attempts = attempts + 1, started_ns = $1 "
                       "WHERE id = $2 AND state = 'queued'",
                       &args, &r, &err) < 0) {
        log_warn("jobs: %s", err.msg);
        return false;
    }
    bool changed = r.changed > 0;
    db_result_free(&r);
    return changed;
}

static void start_queued(struct jobs *j, struct history *h) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err err;
    db_text(&args, h->store);
    if (database_query(
            h->db,
            "SELECT id, run_id, device, request FROM jobs WHERE store = $1 AND state = 'queued' ORDER BY id "
            "LIMIT 100",
            &args, &r, &err) < 0)
        return;
    for (size_t i = 0; i < r.rows; i++) {
        if (device_is_busy(j, db_cell(&r, i, 2))) continue;
        struct running job = { .id = db_cell_int(&r, i, 0) };
        if (!mark_started(h, job.id)) continue;
        job.pid = start_process(h, db_cell(&r, i, 1), db_cell(&r, i, 3), &err);
        if (job.pid < 0) {
            set_state(h, job.id, "failed", err.msg);
            continue;
        }
        job.run_id = db_take(&r, i, 1);
        job.device = db_take(&r, i, 2);
        log_info("job %s started on %s", job.run_id, job.device);
        vec_push(&j->running, job);
    }
    db_result_free(&r);
}

/* The end of a job as a file: "done", or "failed" and the reason. The database may be away when the job ends.
 * If the server ends before the database is back, the next server reads this file, and does not start the job
 * again. */
static char *end_path(const struct history *h, const char *run_id) {
    return xasprintf("%s/" JOBS "/%s.end", h->root, run_id);
}

static void save_end(const struct history *h, const struct running *job, const char *state,
                     const char *message) {
    struct err err;
    char *path = end_path(h, job->run_id), *text = xasprintf("%s\n%s", state, message);
    if (file_write_atomic(path, text, strlen(text), &err) < 0) log_warn("jobs: %s", err.msg);
    free(text);
    free(path);
}

static void remove_end(const struct history *h, const char *run_id) {
    char *path = end_path(h, run_id);
    unlink(path);
    free(path);
}

/* Returns -1 if the database does not answer: the job stays in the list until it does. */
static int finish_job(struct history *h, const struct running *job) {
    struct strbuf message = STRBUF_INIT;
    bool done = WIFEXITED(job->status) && WEXITSTATUS(job->status) == 0;
    const char *state = done ? "done" : job->asked_ns ? "cancelled" : "failed";
    if (!done) program_add_end(&message, job->status);
    int rc = set_state(h, job->id, state, done ? NULL : message.buf);
    if (rc < 0) {
        save_end(h, job, state, message.buf);
    } else {
        remove_end(h, job->run_id);
        log_info("job %s ended", job->run_id);
    }
    strbuf_free(&message);
    return rc;
}

static bool is_cancelled(struct history *h, int64_t id) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err ignored;
    db_int(&args, id);
    if (database_query(h->db, "SELECT state FROM jobs WHERE id = $1", &args, &r, &ignored) < 0) return false;
    const char *state = db_cell(&r, 0, 0);
    bool cancelled = state && strcmp(state, "cancelling") == 0;
    db_result_free(&r);
    return cancelled;
}

static void check_running(struct jobs *j, struct history *h) {
    for (size_t i = 0; i < j->running.n;) {
        struct running *job = &j->running.v[i];
        if (!job->ended) job->ended = waitpid(job->pid, &job->status, WNOHANG) == job->pid;
        if (job->ended) {
            if (finish_job(h, job) < 0) {
                i++;
                continue;
            }
            free(job->run_id);
            free(job->device);
            j->running.v[i] = j->running.v[--j->running.n];
            continue;
        }
        if (!job->asked_ns && is_cancelled(h, job->id)) {
            job->asked_ns = clock_mono_ns();
            kill(-job->pid, SIGTERM);
        } else if (job->asked_ns && clock_mono_ns() - job->asked_ns > KILL_NS)
            kill(-job->pid, SIGKILL);
        i++;
    }
}

static void *jobs_main(void *context) {
    struct jobs *j = context;
    while (!atomic_load(&j->stopping)) {
        struct err err;
        struct history *h = server_take(j->s, &err);
        if (h) {
            check_running(j, h);
            start_queued(j, h);
            server_give(j->s, h);
        }
        nanosleep(&(struct timespec){ 0, POLL_NS }, NULL);
    }
    return NULL;
}

/* True if the job has ended, and the database knows it now. */
static bool finish_saved(struct history *h, int64_t id, const char *run_id) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    struct run_record record;
    char *path = end_path(h, run_id), *folder = file_join(h->root, run_id);
    const char *state = NULL, *message = NULL;
    if (file_read(path, 65536, &text, &ignored) == 0) {
        char *line_end = strchr(text.buf, '\n');
        if (line_end) *line_end = '\0';
        message = line_end && line_end[1] ? line_end + 1 : NULL;
        state = text.buf;
    } else if (file_is_dir(folder)) { /* the server ended right after the job */
        run_record_read(&record, folder, &ignored);
        if (!record.incomplete) state = "done";
        run_record_free(&record);
    }
    bool finished = state && set_state(h, id, state, message) == 0;
    if (finished) remove_end(h, run_id);
    strbuf_free(&text);
    free(path);
    free(folder);
    return finished;
}

static int finish_all_saved(struct history *h, struct err *err) {
    struct db_args args = { 0 };
    struct db_result r;
    db_text(&args, h->store);
    if (database_query(h->db,
                       "SELECT id, run_id FROM jobs WHERE store = $1 AND state IN ('running', 'cancelling')",
                       &args, &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++)
        if (finish_saved(h, db_cell_int(&r, i, 0), db_cell(&r, i, 1)))
            log_info("job %s had ended", db_cell(&r, i, 1));
    db_result_free(&r);
    return 0;
}

/* Queues the jobs that were running when the server stopped. A job with MAX_ATTEMPTS fails; a job that was
 * being cancelled is cancelled. */
static int requeue(struct history *h, struct err *err) {
    struct db_args args = { 0 };
    db_text(&args, h->store);
    db_int(&args, MAX_ATTEMPTS);
    if (database_query(h->db,
                       "UPDATE jobs SET state = 'failed', message = 'the server ended twice during this job' "
                       "WHERE store = $1 AND state = 'running' AND attempts >= $2",
                       &args, NULL, err) < 0)
        return -1;
    args.n = 1;
    if (database_query(h->db, "UPDATE jobs SET state = 'cancelled' WHERE store = $1 AND state = 'cancelling'",
                       &args, NULL, err) < 0)
        return -1;
    return database_query(h->db, "UPDATE jobs SET state = 'queued' WHERE store = $1 AND state = 'running'",
                          &args, NULL, err);
}

static int take_lock(struct jobs *j, const struct history *h, struct err *err) {
    char *dir = file_join(h->root, JOBS), *path = file_join(dir, "lock");
    int rc = file_mkdirs(dir, err);
    if (rc == 0) {
        j->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (j->lock_fd < 0 || flock(j->lock_fd, LOCK_EX | LOCK_NB) < 0)
            rc = err_set(err, "another server runs the jobs of %s; start this one without --allow-jobs",
                         h->root);
    }
    free(dir);
    free(path);
    return rc;
}

struct jobs *jobs_start(struct server *s, struct err *err) {
    struct jobs *j = xcalloc(1, sizeof *j);
    j->s = s;
    j->lock_fd = -1;
    struct history *h = server_take(s, err);
    int rc = h ? take_lock(j, h, err) : -1;
    if (rc == 0) rc = finish_all_saved(h, err);
    if (rc == 0) rc = requeue(h, err);
    if (h) server_give(s, h);
    if (rc == 0 && pthread_create(&j->thread, NULL, jobs_main, j) == 0) return j;
    if (j->lock_fd >= 0) close(j->lock_fd);
    free(j);
    return NULL;
}

void jobs_stop(struct jobs *jobs) {
    if (!jobs) return;
    atomic_store(&jobs->stopping, true);
    pthread_join(jobs->thread, NULL);
    for (size_t i = 0; i < jobs->running.n; i++) {
        if (!jobs->running.v[i].ended) {
            kill(-jobs->running.v[i].pid, SIGKILL);
            waitpid(jobs->running.v[i].pid, NULL, 0);
        }
        free(jobs->running.v[i].run_id);
        free(jobs->running.v[i].device);
    }
    free(jobs->running.v);
    close(jobs->lock_fd);
    free(jobs);
}

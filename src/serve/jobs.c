#include "serve/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/program.h"
#include "base/strlist.h"
#include "base/util.h"
#include "base/vec.h"
#include "serve/api.h"
#include "serve/job_request.h"
#include "serve/run_json.h"
#include "serve/server.h"

#define JOBS HISTORY_PRIVATE "/jobs"
#define POLL_NS 200000000
#define KILL_NS 15000000000 /* a cancelled job that has not ended after this time is killed */
#define MAX_ATTEMPTS 2      /* a job is restarted once if the server stopped during the job */

struct running {
    int64_t id;
    char *run_id, *device;
    pid_t pid;
    uint64_t asked_ns; /* time at which the job was asked to stop; 0: not asked */
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

static char *job_log_path(const struct history *h, const char *run_id) {
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

/* ---- starting and ending jobs, in the thread */

/* Starts the process of a job. The kernel kills it when the server ends for any reason, also when the server
 * is killed with SIGKILL. Otherwise it would share the device with the process that the next server starts
 * for the same job. */
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
    pid_t self = getpid(), pid = program && in >= 0 && out >= 0 ? fork() : -1;
    if (pid == 0) program_exec(argv, environ, in, out, SIGKILL, self);
    if (pid < 0) err_set(err, "cannot start inferprof profile: %s", strerror(errno));
    if (pid > 0) setpgid(pid, pid);
    if (in >= 0) close(in);
    if (out >= 0) close(out);
    free(argv);
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

static void mark_started(struct history *h, int64_t id) {
    struct db_args args = { 0 };
    struct err err;
    db_int(&args, (int64_t)clock_wall_ns());
    db_int(&args, id);
    if (database_query(
            h->db,
            "UPDATE jobs SET state = 'running', attempts = attempts + 1, started_ns = $1 WHERE id = $2",
            &args, NULL, &err) < 0)
        log_warn("jobs: %s", err.msg);
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
        mark_started(h, job.id);
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

static void finish_job(struct history *h, const struct running *job, int status) {
    struct strbuf message = STRBUF_INIT;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        set_state(h, job->id, "done", NULL);
    else {
        program_add_end(&message, status);
        set_state(h, job->id, job->asked_ns ? "cancelled" : "failed", message.buf);
    }
    log_info("job %s ended", job->run_id);
    strbuf_free(&message);
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
        int status;
        if (waitpid(job->pid, &status, WNOHANG) == job->pid) {
            finish_job(h, job, status);
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

/* Queues the jobs that were running when the server stopped. A job that was already restarted fails; a job
 * that was being cancelled is cancelled. */
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
        kill(-jobs->running.v[i].pid, SIGKILL);
        waitpid(jobs->running.v[i].pid, NULL, 0);
        free(jobs->running.v[i].run_id);
        free(jobs->running.v[i].device);
    }
    free(jobs->running.v);
    close(jobs->lock_fd);
    free(jobs);
}

/* ---- handlers */

static bool jobs_allowed(struct request *q) {
    const struct server *s = http_user(q);
    if (s->jobs) return true;
    http_problem(q, 403, "this server does not run jobs; start it with --allow-jobs");
    return false;
}

#define JOB_COLUMNS "run_id, state, device, request, message, attempts, created_ns, started_ns, ended_ns"

static void write_job(struct jsonw *j, const struct history *h, const struct db_result *r, size_t row) {
    struct strbuf dir = STRBUF_INIT;
    struct err ignored;
    jsonw_object(j);
    jsonw_kstr(j, "run_id", db_cell(r, row, 0));
    jsonw_kstr(j, "status", db_cell(r, row, 1));
    strbuf_addf(&dir, "%s/%s", h->root, db_cell(r, row, 0));
    jsonw_kstr(j, "artifacts_dir", dir.buf);
    strbuf_free(&dir);
    jsonw_kstr(j, "device", db_cell(r, row, 2));
    jsonw_kstr(j, "message", db_cell(r, row, 4));
    jsonw_ku64(j, "attempts", (uint64_t)db_cell_int(r, row, 5));
    run_json_time(j, "created", db_cell_int(r, row, 6));
    run_json_time(j, "started", db_cell_int(r, row, 7));
    run_json_time(j, "ended", db_cell_int(r, row, 8));
    jsonw_kobject(j, "request");
    json_t *request = jsonr_load_text(db_cell(r, row, 3), strlen(db_cell(r, row, 3)), "request", &ignored);
    job_write_request(j, request);
    json_decref(request);
    jsonw_end(j);
    jsonw_end(j);
}

static int find_job(struct history *h, const char *run_id, struct db_result *r, struct err *err) {
    struct db_args args = { 0 };
    db_text(&args, run_id);
    db_text(&args, h->store);
    return database_query(h->db, "SELECT " JOB_COLUMNS " FROM jobs WHERE run_id = $1 AND store = $2", &args,
                          r, err);
}

static void answer_job(struct request *q, struct history *h, const char *run_id, unsigned status) {
    struct db_result r;
    struct err err;
    struct jsonw j;
    if (find_job(h, run_id, &r, &err) < 0) {
        request_database_failed(q, &err);
        return;
    }
    if (r.rows == 0)
        http_problem(q, 404, "no job '%s'", run_id);
    else {
        http_json(q, status, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        write_job(&j, h, &r, 0);
        jsonw_finish(&j);
        q->no_store = true;
    }
    db_result_free(&r);
}

static int insert_job(struct history *h, const char *run_id, const char *device, const char *request,
                      struct err *err) {
    struct db_args args = { 0 };
    db_text(&args, run_id);
    db_text(&args, h->store);
    db_text(&args, device);
    db_text(&args, request);
    db_int(&args, (int64_t)clock_wall_ns());
    return database_query(
        h->db,
        "INSERT INTO jobs (run_id, store, state, device, request, attempts, created_ns) VALUES "
        "($1, $2, 'queued', $3, $4, 0, $5)",
        &args, NULL, err);
}

static void queue_job(struct request *q, struct history *h, const json_t *root) {
    struct err err;
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    const char *device = jsonr_text(root, "device");
    char *run_id = job_new_id();
    if (insert_job(h, run_id, device ? device : "auto", text, &err) < 0)
        request_database_failed(q, &err);
    else {
        answer_job(q, h, run_id, 202);
        char *location = xasprintf("/api/v1/profiles/%s", run_id);
        http_add_header(q, "Location", location);
        free(location);
    }
    free(run_id);
    free(text);
}

void api_post_profile(struct request *q) {
    struct err err;
    const struct server *s = http_user(q);
    if (!jobs_allowed(q)) return;
    json_t *root = jsonr_load_text(q->body.buf, q->body.len, "body", &err);
    if (!root)
        http_problem(q, 400, "%s", err.msg);
    else if (job_check(root, s->o.job_roots, s->o.njob_roots, &err) < 0)
        http_problem(q, 422, "%s", err.msg);
    else {
        struct history *h = request_history(q);
        if (h) queue_job(q, h, root);
        if (h) request_done(q, h);
    }
    json_decref(root);
}

void api_list_profiles(struct request *q) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err err;
    struct jsonw j;
    struct history *h = request_history(q);
    if (!h) return;
    db_text(&args, h->store);
    if (database_query(h->db, "SELECT " JOB_COLUMNS " FROM jobs WHERE store = $1 ORDER BY id DESC LIMIT 200",
                       &args, &r, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_karray(&j, "profiles");
        for (size_t i = 0; i < r.rows; i++) write_job(&j, h, &r, i);
        jsonw_end(&j);
        jsonw_end(&j);
        jsonw_finish(&j);
        q->no_store = true;
        db_result_free(&r);
    }
    request_done(q, h);
}

void api_get_profile(struct request *q) {
    struct history *h = request_history(q);
    if (!h) return;
    answer_job(q, h, q->arguments[0], 200);
    request_done(q, h);
}

void api_profile_artifacts(struct request *q) {
    struct db_result r;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (find_job(h, q->arguments[0], &r, &err) < 0)
        request_database_failed(q, &err);
    else if (r.rows == 0)
        http_problem(q, 404, "no job '%s'", q->arguments[0]);
    else {
        char *dir = file_join(h->root, db_cell(&r, 0, 0));
        api_answer_artifacts(q, db_cell(&r, 0, 0), dir);
        q->no_store = true;
        free(dir);
    }
    db_result_free(&r);
    request_done(q, h);
}

/* A queued job is cancelled at once. A running job is asked to stop and can write its report; it is killed
 * after KILL_NS. */
void api_cancel_profile(struct request *q) {
    struct db_args args = { 0 };
    struct err err;
    if (!jobs_allowed(q)) return;
    struct history *h = request_history(q);
    if (!h) return;
    db_text(&args, q->arguments[0]);
    db_text(&args, h->store);
    if (database_query(
            h->db,
            "UPDATE jobs SET state = CASE state WHEN 'queued' THEN 'cancelled' ELSE 'cancelling' END "
            "WHERE run_id = $1 AND store = $2 AND state IN ('queued', 'running')",
            &args, NULL, &err) < 0)
        request_database_failed(q, &err);
    else
        answer_job(q, h, q->arguments[0], 202);
    request_done(q, h);
}

/* ---- events */

struct events {
    struct server *s;
    char *run_id;
    char last[24]; /* the state that was sent last */
    long position; /* offset in the log */
};

static void free_events(void *context) {
    struct events *e = context;
    free(e->run_id);
    free(e);
}

static bool state_has_ended(const char *state) {
    return strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
}

/* Sends the new complete lines of the log. A line may also end with a carriage return (progress display); of
 * several such lines that are read together, only the first is sent. */
static void add_log(struct events *e, const struct history *h, struct strbuf *out) {
    char *path = job_log_path(h, e->run_id), line[2048];
    FILE *f = fopen(path, "re");
    if (f && fseek(f, e->position, SEEK_SET) == 0)
        while (out->len < 65536 && fgets(line, sizeof line, f)) {
            size_t n = strcspn(line, "\r\n");
            if (!line[n] && strlen(line) + 1 < sizeof line) break; /* not complete yet */
            strbuf_addstr(out, "event: log\ndata: ");
            strbuf_add_printable(out, line, n);
            strbuf_addstr(out, "\n\n");
            e->position = ftell(f);
        }
    if (f) fclose(f);
    free(path);
}

static void add_state(struct events *e, const struct db_result *r, struct strbuf *out) {
    struct jsonw j;
    strbuf_addstr(out, "event: status\ndata: ");
    jsonw_start(&j, out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "run_id", e->run_id);
    jsonw_kstr(&j, "status", db_cell(r, 0, 1));
    jsonw_kstr(&j, "message", db_cell(r, 0, 4));
    jsonw_end(&j);
    jsonw_finish(&j);
    strbuf_addstr(out, "\n\n");
    snprintf(e->last, sizeof e->last, "%s", db_cell(r, 0, 1));
}

static bool more_events(void *context, struct strbuf *out) {
    struct events *e = context;
    struct db_result r;
    struct err err;
    struct history *h = server_take(e->s, &err);
    if (!h) return false;
    bool more = false;
    if (find_job(h, e->run_id, &r, &err) == 0) {
        if (r.rows) {
            add_log(e, h, out);
            if (strcmp(e->last, db_cell(&r, 0, 1)) != 0) add_state(e, &r, out);
            more = !state_has_ended(db_cell(&r, 0, 1));
        }
        db_result_free(&r);
    }
    server_give(e->s, h);
    return more;
}

void api_profile_events(struct request *q) {
    struct history *h = request_history(q);
    if (!h) return;
    answer_job(q, h, q->arguments[0], 200);
    request_done(q, h);
    if (q->status != 200) return;
    struct events *e = xcalloc(1, sizeof *e);
    e->s = http_user(q);
    e->run_id = xstrdup(q->arguments[0]);
    q->stream = xcalloc(1, sizeof *q->stream);
    *q->stream = (struct http_stream){ more_events, free_events, e };
    q->type = "text/event-stream";
    q->no_store = true;
}

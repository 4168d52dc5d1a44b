/* The writer under stress: killed, disk full, out of memory, forked, used by many threads. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "unit/test.h"

static char *path_in(const char *dir, const char *name) { return file_join(dir, name); }

static void put_kernels(struct trace_writer *w, uint64_t first, uint64_t n) {
    for (uint64_t i = first; i < first + n; i++) {
        struct trace_kernel k = {
            .start_ns = 1000 + i * 10, .end_ns = 1005 + i * 10, .correlation = i, .grid_x = (uint32_t)i
        };
        trace_writer_kernel(w, &k, 1);
    }
}

/* Counts the kernel records of a file, which must be those of put_kernels, in ascending order. */
static uint64_t count_kernels(const struct trace_reader *r, uint64_t *last) {
    struct trace_batch b = { 0 };
    struct err err;
    uint64_t n = 0;
    *last = 0;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        for (size_t k = 0; b.kind == TRACE_KERNEL && k < b.n; k++) {
            CHECK(n == 0 || b.kernel[k].correlation > *last);
            *last = b.kernel[k].correlation;
            CHECK_INT(b.kernel[k].start_ns, 1000 + *last * 10);
            CHECK_INT(b.kernel[k].grid_x, (uint32_t)*last);
            n++;
        }
    }
    trace_batch_free(&b);
    return n;
}

TEST(trace_survives_kill_9_with_everything_flushed_before_it) {
    char *dir = test_tmpdir(), *path = path_in(dir, "killed.ipt");
    struct err err;
    int pipe_fd[2];
    CHECK_INT(pipe(pipe_fd), 0);
    pid_t child = fork();
    if (child == 0) {
        struct trace_writer *w = trace_writer_open(path, NULL, &err);
        for (uint64_t done = 0; w; done += 5000) {
            put_kernels(w, done, 5000);
            uint64_t flushed = trace_writer_flush(w, 10000) ? done + 5000 : 0;
            if (write(pipe_fd[1], &flushed, sizeof flushed) != sizeof flushed) break;
        }
        _exit(1);
    }
    close(pipe_fd[1]);
    uint64_t flushed = 0;
    while (flushed < 50000) CHECK_INT(read(pipe_fd[0], &flushed, sizeof flushed), sizeof flushed);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pipe_fd[0]);
    struct trace_reader *r = trace_reader_open(path, &err);
    uint64_t last, n = count_kernels(r, &last);
    CHECK(n >= flushed);
    CHECK_INT(last, n - 1);
    CHECK(!trace_reader_summary(r)->finished);
    trace_reader_close(r);
    free(path);
    free(dir);
}

/* Runs in a child whose files may not exceed `limit`: a simulated full disk. */
static int write_on_small_disk(const char *path, rlim_t limit, uint64_t n) {
    struct rlimit rl = { limit, limit };
    struct err err;
    signal(SIGXFSZ, SIG_DFL); /* would kill the child if it were delivered */
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    if (!w || setrlimit(RLIMIT_FSIZE, &rl) < 0) return 2;
    put_kernels(w, 0, n);
    return trace_writer_close(w, &err) == -1 && strstr(err.msg, "trace incomplete: ") ? 0 : 3;
}

/* Neither the header nor the end mark needs to fit: the host process continues. */
TEST(trace_writer_never_lets_a_size_limit_kill_its_process) {
    char *dir = test_tmpdir(), name[32];
    for (rlim_t limit = 0; limit < 3000; limit += 100) {
        int status;
        snprintf(name, sizeof name, "limit%u.ipt", (unsigned)limit);
        char *path = path_in(dir, name);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit rl = { limit, limit };
            struct err err;
            signal(SIGXFSZ, SIG_DFL);
            setrlimit(RLIMIT_FSIZE, &rl);
            struct trace_writer *w = trace_writer_open(path, NULL, &err);
            put_kernels(w, 0, 100);
            trace_writer_close(w, &err);
            _exit(7);
        }
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status));
        CHECK_INT(WEXITSTATUS(status), 7);
        free(path);
    }
    free(dir);
}

TEST(trace_on_a_full_disk_keeps_what_fits_and_counts_the_rest) {
    char *dir = test_tmpdir(), *path = path_in(dir, "full.ipt");
    struct err err;
    const uint64_t n = 200000;
    int status;
    pid_t child = fork();
    if (child == 0) _exit(write_on_small_disk(path, 200000, n));
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK_INT(WEXITSTATUS(status), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    const struct trace_summary *s = trace_reader_summary(r);
    uint64_t last, kept = count_kernels(r, &last);
    CHECK(kept > 0 && kept < n);
    CHECK_INT(kept + s->lost[TRACE_KERNEL][TRACE_LOST_DISK] + s->lost[TRACE_KERNEL][TRACE_LOST_MEMORY], n);
    CHECK(s->lost[TRACE_KERNEL][TRACE_LOST_DISK] > 0);
    CHECK_INT(s->damaged_places, 0);
    trace_reader_close(r);
    free(path);
    free(dir);
}

TEST(trace_stops_at_its_size_limit_and_still_closes) {
    char *dir = test_tmpdir(), *path = path_in(dir, "limited.ipt");
    struct err err;
    struct trace_writer *w =
        trace_writer_open(path, &(struct trace_writer_options){ .max_file_bytes = 100000 }, &err);
    put_kernels(w, 0, 100000);
    CHECK_INT(trace_writer_close(w, &err), -1);
    struct trace_reader *r = trace_reader_open(path, &err);
    const struct trace_summary *s = trace_reader_summary(r);
    uint64_t last, kept = count_kernels(r, &last);
    CHECK(s->finished);
    CHECK(s->file_bytes <= 100000);
    CHECK_INT(kept + s->lost[TRACE_KERNEL][TRACE_LOST_DISK] + s->lost[TRACE_KERNEL][TRACE_LOST_MEMORY],
              100000);
    trace_reader_close(r);
    free(path);
    free(dir);
}

TEST(trace_counts_records_dropped_for_lack_of_memory) {
    char *dir = test_tmpdir(), *path = path_in(dir, "small.ipt");
    struct err err;
    const size_t n = 400000; /* 35 MB of records into 4 MB of memory */
    struct trace_kernel *many = calloc(n, sizeof *many);
    for (size_t i = 0; i < n; i++)
        many[i] = (struct trace_kernel){
            .start_ns = 1000 + i * 10, .end_ns = 2000, .correlation = i, .grid_x = (uint32_t)i
        };
    struct trace_writer *w =
        trace_writer_open(path, &(struct trace_writer_options){ .memory_bytes = 1 }, &err);
    size_t kept = trace_writer_kernel(w, many, n);
    struct trace_writer_stats stats;
    trace_writer_stats(w, &stats);
    CHECK_INT(kept + stats.lost[TRACE_KERNEL][TRACE_LOST_MEMORY], n);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    uint64_t last;
    CHECK_INT(count_kernels(r, &last), kept);
    CHECK_INT(trace_reader_summary(r)->lost[TRACE_KERNEL][TRACE_LOST_MEMORY], n - kept);
    trace_reader_close(r);
    free(many);
    free(path);
    free(dir);
}

#define THREADS 16
#define PER_THREAD 20000

struct job {
    struct trace_writer *w;
    uint64_t id;
    uint64_t kept;
};

static void *write_from_thread(void *arg) {
    struct job *j = arg;
    char name[32];
    for (uint64_t i = 0; i < PER_THREAD; i++) {
        snprintf(name, sizeof name, "kernel %u", (unsigned)(i % 50));
        struct trace_kernel k = { .start_ns = i,
                                  .end_ns = i + 1,
                                  .correlation = j->id << 32 | i,
                                  .name = trace_writer_str(j->w, name) };
        j->kept += trace_writer_kernel(j->w, &k, 1);
    }
    return NULL;
}

TEST(trace_keeps_the_order_of_each_of_16_threads) {
    char *dir = test_tmpdir(), *path = path_in(dir, "threads.ipt");
    struct err err;
    /* flushes all the time, so that partly filled blocks are written while full ones wait */
    struct trace_writer *w = trace_writer_open(path, &(struct trace_writer_options){ .flush_ms = 1 }, &err);
    struct job jobs[THREADS];
    pthread_t threads[THREADS];
    for (uint64_t t = 0; t < THREADS; t++) {
        jobs[t] = (struct job){ w, t, 0 };
        pthread_create(&threads[t], NULL, write_from_thread, &jobs[t]);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    struct trace_batch b = { 0 };
    uint64_t seen[THREADS] = { 0 }, next[THREADS] = { 0 };
    char name[32];
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        for (size_t k = 0; b.kind == TRACE_KERNEL && k < b.n; k++) {
            uint64_t t = b.kernel[k].correlation >> 32, at = b.kernel[k].correlation & UINT32_MAX;
            CHECK(at >= next[t]);
            next[t] = at + 1;
            seen[t]++;
            snprintf(name, sizeof name, "kernel %u", (unsigned)(at % 50));
            CHECK_STR(trace_reader_string(r, b.kernel[k].name, NULL), name);
        }
    }
    for (int t = 0; t < THREADS; t++) CHECK_INT(seen[t], jobs[t].kept);
    trace_batch_free(&b);
    trace_reader_close(r);
    free(path);
    free(dir);
}

TEST(trace_of_a_forked_child_is_written_to_its_own_file) {
#ifdef __SANITIZE_THREAD__
    SKIP("the thread sanitizer cannot start threads in a forked child");
#endif
    char *dir = test_tmpdir(), *mine = path_in(dir, "parent.ipt"), *its = path_in(dir, "child.ipt");
    struct err err;
    int status;
    uint64_t last;
    struct trace_writer *w = trace_writer_open(mine, NULL, &err);
    put_kernels(w, 0, 100);
    pid_t child = fork();
    if (child == 0) {
        trace_writer_abandon(w);
        struct trace_writer *own = trace_writer_open(its, NULL, &err);
        put_kernels(own, 0, 7);
        _exit(own && trace_writer_close(own, &err) == 0 ? 0 : 1);
    }
    put_kernels(w, 100, 100);
    waitpid(child, &status, 0);
    CHECK_INT(status, 0);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(mine, &err);
    CHECK_INT(count_kernels(r, &last), 200);
    trace_reader_close(r);
    r = trace_reader_open(its, &err);
    CHECK_INT(count_kernels(r, &last), 7);
    trace_reader_close(r);
    free(mine);
    free(its);
    free(dir);
}

TEST(trace_writers_in_one_folder_are_independent) {
    char *dir = test_tmpdir(), *a = path_in(dir, "a.ipt"), *b = path_in(dir, "b.ipt");
    struct err err;
    uint64_t last;
    struct trace_writer *wa = trace_writer_open(a, NULL, &err), *wb = trace_writer_open(b, NULL, &err);
    CHECK(wa && wb);
    CHECK(trace_writer_open(a, NULL, &err) == NULL); /* a trace is never overwritten */
    CHECK(strstr(err.msg, "File exists") != NULL);
    for (uint64_t i = 0; i < 1000; i++) {
        put_kernels(wa, i, 1);
        put_kernels(wb, i * 2, 2);
    }
    CHECK_INT(trace_writer_close(wa, &err), 0);
    CHECK_INT(trace_writer_close(wb, &err), 0);
    struct trace_reader *r = trace_reader_open(a, &err);
    CHECK_INT(count_kernels(r, &last), 1000);
    trace_reader_close(r);
    r = trace_reader_open(b, &err);
    CHECK_INT(count_kernels(r, &last), 2000);
    trace_reader_close(r);
    free(a);
    free(b);
    free(dir);
}

TEST(trace_writer_open_reports_the_reason_of_a_failure) {
    struct err err;
    CHECK(trace_writer_open("/nonexistent/folder/t.ipt", NULL, &err) == NULL);
    CHECK_STR(err.msg, "/nonexistent/folder/t.ipt: No such file or directory");
}

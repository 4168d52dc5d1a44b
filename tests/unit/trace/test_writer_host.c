/* The writer inside a program that does not cooperate: it closes or replaces the writer's descriptor, or
 * one of its threads stops forever while appending. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/private_fds.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "unit/test.h"

#define SECOND_NS 1000000000u

static void put_kernels(struct trace_writer *w, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        struct trace_kernel k = { .start_ns = 1000 + i, .end_ns = 2000 + i, .correlation = i };
        trace_writer_kernel(w, &k, 1);
    }
}

static uint64_t kernels_in(const struct trace_reader *r) {
    uint64_t n = 0;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        const struct trace_chunk *c = trace_reader_chunk(r, i);
        n += c->kind == TRACE_KERNEL ? c->count : 0;
    }
    return n;
}

/* Returns the descriptor of this process that refers to the file; -1: none. */
static int fd_of(const char *path) {
    struct stat want, s;
    int found = -1;
    if (stat(path, &want) != 0) return -1;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        int fd = atoi(e->d_name);
        if (fd != dirfd(d) && fstat(fd, &s) == 0 && s.st_dev == want.st_dev && s.st_ino == want.st_ino)
            found = fd;
    }
    closedir(d);
    return found;
}

static void check_bystander(const char *path) {
    char text[16] = "";
    int fd = open(path, O_RDONLY);
    CHECK_INT(read(fd, text, sizeof text - 1), 5);
    CHECK_STR(text, "mine\n");
    close(fd);
}

/* Replaces the trace's descriptor by a file of the program, and writes to it. */
static int replace_fd(const char *path, int fd) {
    int other = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    CHECK_INT(write(other, "mine\n", 5), 5);
    CHECK_INT(dup2(other, fd), fd);
    close(other);
    return fd;
}

TEST(trace_writer_leaves_a_file_alone_that_took_its_descriptor) {
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt"), *other = file_join(dir, "other");
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    put_kernels(w, 10);
    CHECK(trace_writer_flush(w, 10000));
    int fd = replace_fd(other, fd_of(path));
    put_kernels(w, 20);
    CHECK_INT(trace_writer_close(w, &err), 0);
    CHECK(fcntl(fd, F_GETFD) >= 0); /* not closed either */
    close(fd);
    check_bystander(other);
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK_INT(kernels_in(r), 30); /* opened again by its path */
    CHECK(trace_reader_summary(r)->finished);
    trace_reader_close(r);
    free(dir);
    free(path);
    free(other);
}

TEST(trace_writer_stops_when_neither_descriptor_nor_path_is_its_file) {
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt"), *other = file_join(dir, "other"),
         *moved = file_join(dir, "moved.ipt");
    struct err err;
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    put_kernels(w, 10);
    CHECK(trace_writer_flush(w, 10000));
    int fd = replace_fd(other, fd_of(path));
    CHECK_INT(rename(path, moved), 0);
    CHECK_INT(link(other, path), 0); /* another file at the path */
    put_kernels(w, 20);
    CHECK_INT(trace_writer_close(w, &err), -1);
    CHECK_STR(err.msg, "trace incomplete: Bad file descriptor; 20 records lost");
    close(fd);
    check_bystander(other);
    struct trace_reader *r = trace_reader_open(moved, &err);
    CHECK_INT(kernels_in(r), 10);
    trace_reader_close(r);
    free(dir);
    free(path);
    free(other);
    free(moved);
}

static void *open_privately(void *path) {
    struct err err;
    bool alone = private_fds();
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    return alone ? w : NULL;
}

/* Needs Linux 5.9, which every machine that runs the tests has. */
TEST(trace_writer_of_a_private_thread_has_no_descriptor_in_the_program) {
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt");
    struct err err;
    pthread_t thread;
    void *w;
    pthread_create(&thread, NULL, open_privately, path);
    pthread_join(thread, &w);
    CHECK(w != NULL);
    CHECK_INT(fd_of(path), -1);
    put_kernels(w, 10);
    CHECK_INT(trace_writer_close(w, &err), 0);
    struct trace_reader *r = trace_reader_open(path, &err);
    CHECK_INT(kernels_in(r), 10);
    trace_reader_close(r);
    free(dir);
    free(path);
}

/* ---- a thread that stops forever while appending, as by exit() in a signal handler */

static struct {
    struct trace_writer *w;
    atomic_ulong done; /* records appended */
    atomic_bool stopped;
} victim;

static void stop_for_good(int number) {
    (void)number;
    atomic_store(&victim.stopped, true);
    for (;;) pause();
}

static void *append_for_ever(void *arg) {
    char name[32];
    (void)arg;
    for (unsigned long i = 0;; i++) {
        snprintf(name, sizeof name, "kernel %lu", i % 1000);
        struct trace_kernel k = { .start_ns = i, .end_ns = i + 1, .name = trace_writer_str(victim.w, name) };
        if (trace_writer_kernel(victim.w, &k, 1)) atomic_fetch_add(&victim.done, 1);
    }
    return NULL;
}

static int end_beside_a_stopped_thread(const char *path) {
    struct err err;
    pthread_t thread;
    struct sigaction act = { .sa_handler = stop_for_good };
    sigaction(SIGUSR1, &act, NULL);
    victim.w = trace_writer_open(path, &(struct trace_writer_options){ .flush_ms = 1 }, &err);
    pthread_create(&thread, NULL, append_for_ever, NULL);
    usleep(20000);
    pthread_kill(thread, SIGUSR1);
    while (!atomic_load(&victim.stopped)) usleep(100);
    uint64_t start = clock_mono_ns();
    trace_writer_limit_locks(victim.w, start + SECOND_NS / 20);
    bool ended = trace_writer_end(victim.w, start + 20u * SECOND_NS);
    struct trace_writer_stats s;
    trace_writer_stats(victim.w, &s);
    uint64_t lost = s.lost[TRACE_KERNEL][TRACE_LOST_MEMORY], all = s.records + lost;
    /* the last record may have been taken without its thread having counted it */
    bool counted = all == atomic_load(&victim.done) || all == atomic_load(&victim.done) + 1;
    return ended && counted ? 0 : 1;
}

TEST(trace_writer_ends_and_counts_when_a_thread_was_stopped_inside_it) {
    char *dir = test_tmpdir(), name[32];
    for (int i = 0; i < 12; i++) { /* mostly with a lock held, sometimes without */
        int status;
        snprintf(name, sizeof name, "%d.ipt", i);
        char *path = file_join(dir, name);
        pid_t child = fork();
        if (child == 0) _exit(end_beside_a_stopped_thread(path));
        waitpid(child, &status, 0);
        CHECK_INT(status, 0);
        struct err err;
        struct trace_reader *r = trace_reader_open(path, &err);
        CHECK(trace_reader_summary(r)->finished);
        trace_reader_close(r);
        free(path);
    }
    free(dir);
}

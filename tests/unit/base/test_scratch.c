/* An interrupted program deletes the files registered with scratch_add. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/scratch.h"
#include "unit/test.h"

/* Runs `body` in a child and kills it with this signal. Returns the signal that terminated it; 0: none. */
static int killed_by(int sig, void (*body)(const char *dir), const char *dir) {
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        body(dir);
        raise(sig);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int terminated(void (*body)(const char *dir), const char *dir) {
    return killed_by(SIGTERM, body, dir);
}

static void write_partial_file(const char *dir) {
    struct file_atomic f;
    struct err err;
    char *path = file_join(dir, "result");
    if (file_atomic_open(&f, path, &err) == 0) {
        fputs("half", f.out);
        fflush(f.out);
    }
}

/* A signal at any time during the creation of files must not leave one behind. */
static void make_files_until_killed(const char *dir) {
    char *path = file_join(dir, "result");
    pid_t self = getpid();
    if (fork() == 0) {
        usleep((useconds_t)(getpid() % 7) * 1000 + 500);
        kill(self, SIGTERM);
        _exit(0);
    }
    for (;;) {
        struct file_atomic f;
        struct err err;
        if (file_atomic_open(&f, path, &err) < 0) break;
        file_atomic_abort(&f);
    }
}

static void write_folder(const char *dir) {
    char *sub = file_join(dir, "sub"), *a = file_join(sub, "a"), *kept = file_join(dir, "kept");
    struct err err;
    file_mkdirs(sub, &err);
    scratch_add(sub);
    scratch_add(a);
    int slot = scratch_add(kept);
    file_write_atomic(a, "x", 1, &err);
    file_write_atomic(kept, "x", 1, &err);
    scratch_forget(slot);
}

static char *new_folder(void) {
    const char *tmp = getenv("TMPDIR");
    char *dir = xasprintf("%s/scratch-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) die("mkdtemp");
    return dir;
}

TEST(partial_file_is_deleted_on_every_signal_that_ends_programs) {
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGXCPU };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char *dir = new_folder();
        CHECK_INT(killed_by(signals[i], write_partial_file, dir), signals[i]);
        CHECK_INT(rmdir(dir), 0); /* empty: neither result nor temporary */
        free(dir);
    }
}

TEST(scratch_removes_files_then_folders_and_keeps_forgotten_paths) {
    char *dir = new_folder(), *sub = file_join(dir, "sub"), *kept = file_join(dir, "kept");
    CHECK_INT(terminated(write_folder, dir), SIGTERM);
    CHECK(!file_exists(sub));
    CHECK_INT(unlink(kept), 0);
    CHECK_INT(rmdir(dir), 0);
    free(dir);
    free(sub);
    free(kept);
}

TEST(no_temporary_file_is_left_by_a_signal_at_any_moment) {
    for (int i = 0; i < 20; i++) {
        char *dir = new_folder();
        CHECK_INT(terminated(make_files_until_killed, dir), SIGTERM);
        CHECK_INT(rmdir(dir), 0);
        free(dir);
    }
}

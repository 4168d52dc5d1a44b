/* Runs every TEST() linked into this binary; an argument filters by pattern ("*cut*"). */
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/vec.h"
#include "unit/test.h"

static struct {
    struct CMUnitTest *v;
    size_t n, cap;
} tests;
static struct {
    char **v;
    size_t n, cap;
} folders;
static pid_t main_pid;

void test_register(const char *name, CMUnitTestFunction run) {
    vec_push(&tests, ((struct CMUnitTest){ .name = name, .test_func = run }));
}

int test_near(double got, double want, double eps, const char *what) {
    int ok = fabs(got - want) <= eps || (isnan(got) && isnan(want));
    if (!ok) fprintf(stderr, "%s: got %.17g, want %.17g within %g\n", what, got, want, eps);
    return ok;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st;
    (void)type;
    (void)at;
    remove(path);
    return 0;
}

static void remove_folders(void) {
    if (getpid() != main_pid) return; /* forked child of a test */
    for (size_t i = 0; i < folders.n; i++) {
        nftw(folders.v[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(folders.v[i]);
    }
    free(folders.v);
    free(tests.v);
}

char *test_tmpdir(void) {
    const char *base = getenv("TMPDIR");
    char *dir = xasprintf("%s/inferprof-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(dir)) die("cannot create a folder under %s", base ? base : "/tmp");
    vec_push(&folders, xstrdup(dir));
    return dir;
}

/* A background job of a shell ignores SIGINT, and nohup ignores SIGHUP. Tests send these signals. */
static void default_signals(void) {
    static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL);
}

int main(int argc, char **argv) {
    main_pid = getpid();
    default_signals();
    atexit(remove_folders);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("unit", tests.v, tests.n, NULL, NULL);
}

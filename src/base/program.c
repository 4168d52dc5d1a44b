#include "base/program.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/vec.h"

static bool is_executable_file(const char *file) { return access(file, X_OK) == 0 && !file_is_dir(file); }

char *program_find(const char *name) {
    if (!*name) return NULL;
    if (strchr(name, '/')) return is_executable_file(name) ? xstrdup(name) : NULL;
    const char *path = getenv("PATH");
    char usual[256] = "";
    if (!path && confstr(_CS_PATH, usual, sizeof usual) < sizeof usual) path = usual;
    for (const char *p = path ? path : "";; p++) {
        size_t n = strcspn(p, ":");
        char *file = xasprintf("%.*s%s%s", (int)n, p, n ? "/" : "./", name); /* empty entry: current folder */
        if (is_executable_file(file)) return file;
        free(file);
        p += n;
        if (!*p) return NULL;
    }
}

static bool same_name(const char *a, const char *b) {
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n) == 0 && b[n] == '=';
}

static bool is_named(const char *const *set, const char *entry) {
    for (; set && *set; set++)
        if (same_name(*set, entry)) return true;
    return false;
}

char **program_environment(const char *const *set) {
    struct {
        char **v;
        size_t n, cap;
    } env = { 0 };
    for (char **e = environ; e && *e; e++)
        if (!is_named(set, *e)) vec_push(&env, *e);
    for (const char *const *s = set; s && *s; s++)
        if (!is_named(s + 1, *s)) vec_push(&env, (char *)*s);
    vec_push(&env, NULL);
    return env.v;
}

_Noreturn void program_exec(char *const *argv, char *const *env, int in, int log, int at_end, pid_t parent) {
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, at_end);
    if (getppid() != parent) _exit(127); /* parent ended before prctl() */
    for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(in, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execve(argv[0], argv, env);
    _exit(127);
}

static struct {
    bool known;
    struct sigaction pipe, child;
} inherited;

void program_signals_init(void) {
    struct sigaction ignore = { .sa_handler = SIG_IGN }, usual = { .sa_handler = SIG_DFL };
    inherited.known = sigaction(SIGPIPE, &ignore, &inherited.pipe) == 0 &&
                      sigaction(SIGCHLD, &usual, &inherited.child) == 0;
}

void program_signals_restore(void) {
    if (!inherited.known) return;
    sigaction(SIGPIPE, &inherited.pipe, NULL);
    sigaction(SIGCHLD, &inherited.child, NULL);
}

void program_add_end(struct strbuf *out, int wait_status) {
    if (WIFSIGNALED(wait_status))
        strbuf_addf(out, "signal %d (%s)", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    else
        strbuf_addf(out, "exit status %d", WEXITSTATUS(wait_status));
}

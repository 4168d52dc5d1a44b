/* `.nsys-rep` is NVIDIA's own format: their program turns it into SQLite. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/die.h"
#include "import/nsys.h"

extern char **environ;

static int run_export(const char *path, const char *database, struct err *err) {
    char *const argv[] = {
        (char *)"nsys", (char *)"export",   (char *)"--type", (char *)"sqlite", (char *)"--force-overwrite",
        (char *)"true", (char *)"--output", (char *)database, (char *)path,     NULL
    };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, 2, 1); /* its talk belongs on stderr */
    int rc = posix_spawnp(&pid, "nsys", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc)
        return err_set(
            err,
            "%s: reading it takes nsys, which cannot be started (%s); install Nsight Systems, or run "
            "`nsys export --type sqlite` where it is and import the result",
            path, strerror(rc));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return err_set(
            err,
            "%s: reading it takes nsys, which is not installed; run `nsys export --type sqlite` where it is "
            "and import the result",
            path);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return err_set(err, "%s: nsys export failed; its words are above", path);
    return 0;
}

char *nsys_export_report(const char *path, struct err *err) {
    const char *dir = getenv("TMPDIR");
    char *database = xasprintf("%s/inferprof-nsys-%ld.sqlite", dir && *dir ? dir : "/tmp", (long)getpid());
    if (run_export(path, database, err) == 0) return database;
    unlink(database);
    free(database);
    return NULL;
}

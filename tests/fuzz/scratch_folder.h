/* A folder of this process for targets that need files, in memory if possible:
 *     const char *dir = scratch_folder();       -- created by the first call
 *     scratch_clear(dir);                       -- removes everything in it
 * It is removed at exit. After a crash it stays, until another target finds that its process has ended. */
#ifndef TESTS_FUZZ_SCRATCH_FOLDER_H
#define TESTS_FUZZ_SCRATCH_FOLDER_H

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH_NAME "inferprof-fuzz-"

static char scratch_path[64];

static inline void scratch_clear(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[600];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= sizeof path) abort();
        if (unlink(path) == 0) continue;
        scratch_clear(path);
        rmdir(path);
    }
    if (d) closedir(d);
}

static inline void scratch_remove(void) {
    scratch_clear(scratch_path);
    rmdir(scratch_path);
}

static inline void scratch_remove_old(const char *parent) {
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300];
        if (strncmp(e->d_name, SCRATCH_NAME, strlen(SCRATCH_NAME)) != 0) continue;
        int pid = atoi(e->d_name + strlen(SCRATCH_NAME));
        if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
        snprintf(path, sizeof path, "%s/%s", parent, e->d_name);
        scratch_clear(path);
        rmdir(path);
    }
    if (d) closedir(d);
}

static inline const char *scratch_folder(void) {
    struct stat st;
    if (*scratch_path) return scratch_path;
    const char *parent = stat("/dev/shm", &st) == 0 && S_ISDIR(st.st_mode) ? "/dev/shm" : "/tmp";
    scratch_remove_old(parent);
    snprintf(scratch_path, sizeof scratch_path, "%s/" SCRATCH_NAME "%d", parent, (int)getpid());
    if (mkdir(scratch_path, 0700) < 0) abort();
    atexit(scratch_remove);
    return scratch_path;
}

#endif

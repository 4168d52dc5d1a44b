#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/random.h"
#include "base/scratch.h"
#include "base/util.h"

#define TEMPORARY_NAMES 100 /* random names to try */

int file_pipe_wait_ms = 10000;

static bool wait_for_data(int fd) {
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int rc;
    do rc = poll(&p, 1, file_pipe_wait_ms);
    while (rc < 0 && errno == EINTR);
    return rc != 0;
}

/* file_read() rejects large regular files before reading. The check here is for pipes. */
static int read_fd(int fd, const char *path, size_t max_bytes, struct strbuf *out, struct err *err) {
    char block[65536];
    for (size_t total = 0;;) {
        ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) { /* a pipe that is empty, and has a writer */
            if (wait_for_data(fd)) continue;
            return err_set(err, "%s: nothing was written to this pipe for %d s", path,
                           file_pipe_wait_ms / 1000);
        }
        if (n < 0) return err_set(err, "%s: %s", path, strerror(errno));
        if (n == 0) return 0;
        total += (size_t)n;
        if (total > max_bytes) return err_set(err, "%s: larger than the limit of %zu bytes", path, max_bytes);
        strbuf_add(out, block, (size_t)n);
    }
}

/* Without O_NONBLOCK, open() waits for the writer of a named pipe. */
static int open_without_waiting(const char *path) { return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

int file_open_regular(const char *path, struct err *err) {
    struct stat st;
    int fd = open_without_waiting(path);
    if (fd < 0 || fstat(fd, &st) < 0)
        err_set(err, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set(err, "%s: is a folder, expected a file", path);
    else if (!S_ISREG(st.st_mode))
        err_set(err, "%s: a pipe or device, expected a regular file; write the data to a file first", path);
    else
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int file_read(const char *path, size_t max_bytes, struct strbuf *out, struct err *err) {
    int rc = -1, fd = open_without_waiting(path);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        err_set(err, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set(err, "%s: is a folder, expected a file", path);
    else if (S_ISREG(st.st_mode) && (size_t)st.st_size > max_bytes)
        err_set(err, "%s: %zu bytes, the limit is %zu", path, (size_t)st.st_size, max_bytes);
    else
        rc = read_fd(fd, path, max_bytes, out, err);
    if (fd >= 0) close(fd);
    return rc;
}

int file_may_replace(const char *path, struct err *err) {
    struct stat st;
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return 0; /* rename() fails for folders */
    return err_set(err, "%s: a device or pipe, expected the name of a file to write", path);
}

/* Returns a descriptor for a file, 0 for a folder. The umask applies to files. */
static int create_new(const char *path, bool folder) {
    return folder ? mkdir(path, 0700) : open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int make_temporary(const char *prefix, bool folder, char **path, int *scratch) {
    for (int i = 0; i < TEMPORARY_NAMES; i++) {
        uint64_t random = random_u64();
        *path = xasprintf("%s%08" PRIx32, prefix, (uint32_t)(random ^ random >> 32));
        /* A signal between the creation and a later scratch_add() would leave the file behind. Therefore the
         * path is registered first. The check prevents deleting another program's file with this name. */
        bool taken = file_exists(*path);
        *scratch = taken ? -1 : scratch_add(*path);
        int made = taken ? -1 : create_new(*path, folder), why = taken ? EEXIST : errno;
        if (made >= 0) return made;
        scratch_forget(*scratch);
        *scratch = -1;
        free(*path);
        *path = NULL;
        errno = why;
        if (why != EEXIST) break;
    }
    return -1;
}

int file_make_temporary(const char *path, char **temporary, int *scratch) {
    char *prefix = xasprintf("%s.tmp.", path);
    int fd = make_temporary(prefix, false, temporary, scratch);
    free(prefix);
    return fd;
}

int file_make_temporary_dir(const char *prefix, char **dir, int *scratch) {
    const char *tmp = getenv("TMPDIR");
    char *path = xasprintf("%s/%s-", tmp && *tmp ? tmp : "/tmp", prefix);
    int rc = make_temporary(path, true, dir, scratch);
    free(path);
    return rc;
}

static void file_atomic_free(struct file_atomic *f) {
    scratch_forget(f->scratch);
    free(f->path);
    free(f->temporary);
    *f = (struct file_atomic){ 0 };
}

int file_atomic_open(struct file_atomic *f, const char *path, struct err *err) {
    *f = (struct file_atomic){ 0 };
    if (file_may_replace(path, err) < 0) return -1;
    *f = (struct file_atomic){ .path = xstrdup(path) };
    int fd = file_make_temporary(path, &f->temporary, &f->scratch);
    if (fd >= 0 && (f->out = fdopen(fd, "w"))) return 0;
    err_set(err, "%s: %s", path, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(f->temporary);
    }
    file_atomic_free(f);
    return -1;
}

int file_atomic_commit(struct file_atomic *f, struct err *err) {
    int failed = ferror(f->out);
    failed |= fclose(f->out);
    if (failed && errno == 0) errno = EIO;
    if (failed || rename(f->temporary, f->path) < 0) {
        err_set(err, "%s: %s", f->path, strerror(errno));
        unlink(f->temporary);
        failed = 1;
    }
    file_atomic_free(f);
    return failed ? -1 : 0;
}

void file_atomic_abort(struct file_atomic *f) {
    if (!f->out) return;
    fclose(f->out);
    unlink(f->temporary);
    file_atomic_free(f);
}

int file_write_atomic(const char *path, const void *data, size_t n, struct err *err) {
    struct file_atomic f;
    if (file_atomic_open(&f, path, err) < 0) return -1;
    errno = 0;
    fwrite(data, 1, n, f.out);
    return file_atomic_commit(&f, err);
}

int file_mkdirs(const char *path, struct err *err) {
    char *copy = xstrdup(path);
    int rc = 0;
    for (char *p = copy + 1; rc == 0; p++) {
        char c = *p;
        if (c != '/' && c != '\0') continue;
        *p = '\0';
        if (mkdir(copy, 0777) < 0 && !(errno == EEXIST && file_is_dir(copy)))
            rc = err_set(err, "%s: %s", copy, strerror(errno == EEXIST ? ENOTDIR : errno));
        *p = c;
        if (c == '\0') break;
    }
    free(copy);
    return rc;
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

bool file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *file_join(const char *dir, const char *name) {
    size_t n = strlen(dir);
    return xasprintf("%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
}

const char *file_basename(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool file_has_ending(const char *path, const char *ending) {
    return file_stem_bytes(path, ending) < strlen(path);
}

size_t file_stem_bytes(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0 ? n - m : n;
}

char *file_self(void) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    return n > 0 && n < (ssize_t)sizeof path ? xstrndup(path, (size_t)n) : NULL;
}

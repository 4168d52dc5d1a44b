#include "serve/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/util.h"
#include "base/vec.h"
#include "history/query.h"
#include "run/saved_metrics.h"
#include "serve/tar.h"

#define KEEP_S 86400
#define UNFINISHED_MOST 1000 /* files */
#define UPLOADS HISTORY_PRIVATE "/uploads"

struct upload {
    char *part;   /* the file with the stream */
    char *folder; /* unpacked stream */
    char digest[65];
    bool keep; /* do not delete `part` */
    int fd;
    uint64_t received, total;
};

bool upload_digest_valid(const char *digest) {
    return strlen(digest) == 64 && strspn(digest, "0123456789abcdef") == 64;
}

static int fail_io(enum upload_error *why, struct err *err, const char *path) {
    *why = errno == ENOSPC || errno == EDQUOT ? UPLOAD_FULL : UPLOAD_FAILED;
    return err_set(err, "%s: %s", file_basename(path), strerror(errno));
}

static char *upload_path(const struct history *h, const char *name, const char *ending) {
    return xasprintf("%s/" UPLOADS "/%s%s", h->root, name, ending);
}

uint64_t upload_stored(const struct history *h, const char *digest) {
    struct stat st;
    char *path = upload_path(h, digest, ".part");
    uint64_t bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    free(path);
    return bytes;
}

static int open_part(struct upload *u, uint64_t offset, enum upload_error *why, struct err *err) {
    struct stat st;
    u->fd = open(u->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (u->fd < 0) return fail_io(why, err, u->part);
    if (flock(u->fd, LOCK_EX | LOCK_NB) < 0) {
        *why = UPLOAD_BUSY;
        return err_set(err, "another client sends this run; try again later");
    }
    if (fstat(u->fd, &st) < 0 || st.st_nlink == 0) { /* another client finished the upload */
        *why = UPLOAD_BUSY;
        return err_set(err, "the upload was just finished by another client; try again");
    }
    if (offset > (uint64_t)st.st_size) {
        *why = UPLOAD_OFFSET;
        return err_set(err, "%llu bytes are stored; continue there", (unsigned long long)st.st_size);
    }
    if (ftruncate(u->fd, (off_t)offset) < 0 || lseek(u->fd, (off_t)offset, SEEK_SET) < 0)
        return fail_io(why, err, u->part);
    u->received = offset;
    return 0;
}

struct upload *upload_open(const struct history *h, const char *digest, uint64_t offset, uint64_t total,
                           enum upload_error *why, struct err *err) {
    struct upload *u = xcalloc(1, sizeof *u);
    char name[80], *dir = file_join(h->root, UPLOADS);
    *why = UPLOAD_FAILED;
    if (digest)
        snprintf(name, sizeof name, "%s", digest);
    else
        snprintf(name, sizeof name, "incoming-%016" PRIx64, random_u64());
    *u = (struct upload){ .part = upload_path(h, name, ".part"),
                          .folder = upload_path(h, name, ".new"),
                          .keep = digest != NULL,
                          .fd = -1,
                          .total = total };
    if (digest) snprintf(u->digest, sizeof u->digest, "%s", digest);
    int rc = file_mkdirs(dir, err);
    if (rc == 0) rc = open_part(u, offset, why, err);
    free(dir);
    if (rc == 0) return u;
    upload_close(u);
    return NULL;
}

int upload_add(struct upload *u, const void *data, size_t n, enum upload_error *why, struct err *err) {
    const char *p = data;
    if (u->total && u->received + n > u->total) {
        *why = UPLOAD_REJECTED;
        return err_set(err, "the body is longer than announced");
    }
    while (n > 0) {
        ssize_t w = write(u->fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) {
            fail_io(why, err, u->part);
            if (*why == UPLOAD_FULL) unlink(u->part); /* frees the space */
            return -1;
        }
        p += w;
        n -= (size_t)w;
        u->received += (uint64_t)w;
    }
    return 0;
}

uint64_t upload_received(const struct upload *u) { return u->received; }
bool upload_is_complete(const struct upload *u) { return u->total && u->received == u->total; }

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st;
    (void)type;
    (void)at;
    remove(path);
    return 0;
}

static void remove_folder(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

/* Called before the client gets its answer, so that nothing is left afterwards. */
static void discard_part(struct upload *u) {
    u->keep = false;
    unlink(u->part);
}

void upload_close(struct upload *u) {
    if (!u) return;
    if (!u->keep && u->fd >= 0) unlink(u->part);
    if (u->fd >= 0) close(u->fd);
    free(u->part);
    free(u->folder);
    free(u);
}

/* ---- unpacking */

struct unpack {
    const char *folder;
    char *path; /* path of the open file */
    int fd;
    enum upload_error *why;
};

static int unpack_file(void *context, const char *path, uint64_t bytes, struct err *err) {
    (void)bytes;
    struct unpack *p = context;
    p->path = file_join(p->folder, path);
    char *dir = xstrndup(p->path, (size_t)(strrchr(p->path, '/') - p->path));
    int rc = file_mkdirs(dir, err);
    int code = errno;
    free(dir);
    errno = code;
    /* the folder of the server is not in the messages for the client */
    if (rc < 0 && (code == ENOTDIR || code == EEXIST))
        return err_set(err, "%s: a folder of the path is a file in the upload", path);
    if (rc < 0) return fail_io(p->why, err, p->path);
    p->fd = open(p->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (p->fd >= 0) return 0;
    if (errno == EEXIST || errno == EISDIR || errno == ENOTDIR) {
        *p->why = UPLOAD_REJECTED;
        return err_set(err, "%s is twice in the upload", path);
    }
    return fail_io(p->why, err, p->path);
}

static int unpack_data(void *context, const void *data, size_t n, struct err *err) {
    struct unpack *p = context;
    const char *at = data;
    while (n > 0) {
        ssize_t w = write(p->fd, at, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return fail_io(p->why, err, p->path);
        at += w;
        n -= (size_t)w;
    }
    return 0;
}

static int unpack_end(void *context, struct err *err) {
    struct unpack *p = context;
    int rc = fsync(p->fd) == 0 ? 0 : fail_io(p->why, err, p->path);
    close(p->fd);
    p->fd = -1;
    free(p->path);
    p->path = NULL;
    return rc;
}

/* Unpacks the stored stream and computes its digest. */
static int unpack_part(struct upload *u, struct tar_reader *r, char digest[65], enum upload_error *why,
                       struct err *err) {
    struct sha256 s;
    size_t cap = 1 << 20;
    char *buffer = xmalloc(cap);
    ssize_t n = 0;
    int rc = 0;
    sha256_start(&s);
    for (off_t at = 0; rc == 0 && (n = pread(u->fd, buffer, cap, at)) > 0; at += n) {
        sha256_add(&s, buffer, (size_t)n);
        rc = tar_reader_feed(r, buffer, (size_t)n, err);
    }
    if (rc == 0 && n < 0) rc = fail_io(why, err, u->part);
    sha256_hex(&s, digest);
    free(buffer);
    return rc == 0 ? tar_reader_finish(r, err) : rc;
}

static int sync_folder(const char *path, enum upload_error *why, struct err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : fail_io(why, err, path);
    if (fd >= 0) close(fd);
    return rc;
}

static int sync_entry(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st;
    (void)at;
    struct err ignored;
    enum upload_error why;
    return type == FTW_DP ? sync_folder(path, &why, &ignored) : 0;
}

/* The client must not learn the path of the folder. */
static void hide_folder(struct err *err, const char *folder) {
    size_t n = strlen(folder);
    char *at = strstr(err->msg, folder);
    if (!at) return;
    n += at[n] == '/';
    memmove(at, at + n, strlen(at + n) + 1);
}

/* Checks metrics.json, writes the digest as the last file, and syncs the folders to the disk. The files are
 * already synced. */
static int seal(struct upload *u, const char *digest, enum upload_error *why, struct err *err) {
    char *metrics = file_join(u->folder, "metrics.json"), *mark = file_join(u->folder, RECORD_UPLOAD);
    struct saved_metrics *m = saved_metrics_load_untrusted(metrics, NULL, err);
    int rc = m ? 0 : -1;
    if (rc < 0) {
        *why = UPLOAD_REJECTED;
        hide_folder(err, u->folder);
    }
    saved_metrics_close(m);
    malloc_trim(0); /* a document of 8 MiB needs up to 50 MB */
    if (rc == 0 && file_write_atomic(mark, digest, 64, err) < 0) {
        *why = errno == ENOSPC || errno == EDQUOT ? UPLOAD_FULL : UPLOAD_FAILED;
        hide_folder(err, u->folder);
        rc = -1;
    }
    if (rc == 0 && nftw(u->folder, sync_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        *why = UPLOAD_FAILED;
        rc = err_set(err, "writing to the disk failed: %s", strerror(errno));
    }
    free(metrics);
    free(mark);
    return rc;
}

/* True if this folder of the root is a stored upload with this digest. */
static bool folder_has_digest(const struct history *h, const char *name, const char *digest) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *path = xasprintf("%s/%s/" RECORD_UPLOAD, h->root, name);
    bool same = file_read(path, 4096, &text, &ignored) == 0 && strcmp(text.buf, digest) == 0;
    strbuf_free(&text);
    free(path);
    return same;
}

/* Returns the name of a new folder: the one that the rename gave. NULL: errno. Caller frees. */
static char *rename_to_free(const struct upload *u, const struct history *h, char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *to = file_join(h->root, names[i]);
        int rc = renameat2(AT_FDCWD, u->folder, AT_FDCWD, to, RENAME_NOREPLACE);
        free(to);
        if (rc == 0) return xstrdup(names[i]);
        if (errno != EEXIST) return NULL;
    }
    return NULL;
}

/* Gives the unpacked folder the name of the stream's top folder. If this name is taken, appends the start of
 * the digest, or the whole digest. The database may not have a folder yet that was stored before: it is
 * still being indexed, or a server ended between the rename and the indexing. Then *name is that folder, and
 * the result is 0, not 1. The caller frees *name. */
static int publish(const struct upload *u, const struct history *h, const char *top, const char *digest,
                   char **name, enum upload_error *why, struct err *err) {
    char *names[] = { xstrdup(top), xasprintf("%s-%.8s", top, digest), xasprintf("%s-%s", top, digest) };
    int rc = 1;
    *name = NULL;
    for (size_t i = 0; !*name && i < COUNTOF(names); i++)
        if (folder_has_digest(h, names[i], digest)) {
            *name = xstrdup(names[i]);
            rc = 0;
        }
    if (!*name && !(*name = rename_to_free(u, h, names, COUNTOF(names)))) rc = fail_io(why, err, u->folder);
    for (size_t i = 0; i < COUNTOF(names); i++) free(names[i]);
    if (rc == 1 && sync_folder(h->root, why, err) < 0) rc = -1;
    return rc;
}

/* Two uploads of one run may end at the same time, in two threads or in two servers on one folder. The
 * search for the digest, the rename and the indexing are one step under this lock. */
static int lock_store(const struct history *h) {
    char *path = file_join(h->root, HISTORY_PRIVATE "/publish-lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    free(path);
    while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR) continue;
    return fd;
}

/* Returns 1, 0 or -1, like history_find_digest(). */
static int find_stored(struct history *h, const char *digest, char **name, struct err *err) {
    struct history_run run = { 0 };
    int found = history_find_digest(h, digest, &run, err);
    if (found == 1) *name = xstrdup(run.name);
    history_run_free(&run);
    return found;
}

/* Unpacks the stream into u->folder. `r` keeps the name of its top folder. */
static int unpack(struct upload *u, struct tar_reader *r, char digest[65], enum upload_error *why,
                  struct err *err) {
    struct unpack p = { .folder = u->folder, .fd = -1, .why = why };
    struct tar_sink sink = { unpack_file, unpack_data, unpack_end, &p };
    *why = UPLOAD_REJECTED; /* replaced if a write fails */
    remove_folder(u->folder);
    tar_reader_init(r, &sink);
    int rc = unpack_part(u, r, digest, why, err);
    if (p.fd >= 0) close(p.fd);
    free(p.path);
    if (rc == 0 && u->digest[0] && strcmp(u->digest, digest) != 0)
        rc = err_set(err, "the digest of the received bytes is %s; send the run again", digest);
    return rc == 0 ? seal(u, digest, why, err) : rc;
}

/* Returns 1 for a new run, 0 if the same content was stored before, -1 on failure. */
static int publish_and_index(struct upload *u, struct history *h, const char *top, const char *digest,
                             char **name, enum upload_error *why, struct err *err) {
    char *folder = NULL;
    int found = find_stored(h, digest, name, err), rc = found < 0 ? -1 : 0;
    *why = UPLOAD_FAILED;
    if (found == 0) {
        rc = publish(u, h, top, digest, &folder, why, err);
        if (rc >= 0 && history_index_folder(h, folder, name, err) < 0) rc = -1;
    }
    free(folder);
    return rc;
}

static int unpack_and_publish(struct upload *u, struct history *h, char **name, enum upload_error *why,
                              struct err *err) {
    char digest[65];
    struct tar_reader r;
    int rc = unpack(u, &r, digest, why, err);
    if (rc == 0) {
        int lock = lock_store(h);
        rc = publish_and_index(u, h, r.top, digest, name, why, err);
        if (lock >= 0) close(lock);
    }
    tar_reader_free(&r);
    remove_folder(u->folder); /* nothing is there after the rename */
    return rc;
}

int upload_store(struct upload *u, struct history *h, char **name, enum upload_error *why, struct err *err) {
    *name = NULL;
    *why = UPLOAD_FAILED;
    int found = u->digest[0] ? find_stored(h, u->digest, name, err) : 0;
    if (found < 0) return -1;
    int rc = found ? 0 : unpack_and_publish(u, h, name, why, err);
    if (rc >= 0 || *why != UPLOAD_FAILED) discard_part(u);
    return rc;
}

struct unfinished {
    char *path;
    int64_t mtime_s;
    uint64_t bytes;
};

static int by_age(const void *a, const void *b) {
    const struct unfinished *x = a, *y = b;
    return (x->mtime_s > y->mtime_s) - (x->mtime_s < y->mtime_s);
}

/* Returns false if a client is sending this upload. */
static bool remove_idle(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool idle = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(path) == 0;
    if (fd >= 0) close(fd);
    return idle;
}

bool upload_make_room(const struct history *h, uint64_t bytes) {
    struct {
        struct unfinished *v;
        size_t n, cap;
    } list = { 0 };
    char *dir = file_join(h->root, UPLOADS);
    DIR *d = opendir(dir);
    uint64_t total = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!file_has_ending(e->d_name, ".part") ||
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        struct unfinished u = { file_join(dir, e->d_name), st.st_mtim.tv_sec, (uint64_t)st.st_size };
        vec_push(&list, u);
        total += u.bytes;
    }
    if (d) closedir(d);
    if (list.n) qsort(list.v, list.n, sizeof *list.v, by_age);
    size_t left = list.n;
    for (size_t i = 0; i < list.n; i++) {
        if ((total > bytes || left > UNFINISHED_MOST) && remove_idle(list.v[i].path)) {
            total -= list.v[i].bytes;
            left--;
        }
        free(list.v[i].path);
    }
    free(list.v);
    free(dir);
    return total <= bytes;
}

void upload_clean(const struct history *h) {
    char *dir = file_join(h->root, UPLOADS);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
        if (time(NULL) - st.st_mtim.tv_sec < KEEP_S) continue;
        char *path = file_join(dir, e->d_name);
        remove_folder(path);
        free(path);
    }
    if (d) closedir(d);
    free(dir);
}

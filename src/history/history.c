#include "history/history.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/scratch.h"
#include "history/schema.h"

#define STORE_FILE "store-id"

static bool valid_store(const char *text) { return strspn(text, "0123456789abcdef") == 32; }

static char *read_store(const char *path) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *store = NULL;
    if (file_read(path, 4096, &text, &ignored) == 0 && valid_store(text.buf)) store = xstrndup(text.buf, 32);
    strbuf_free(&text);
    return store;
}

/* Creates the file with the identity of the root folder. link() does not replace a file: if two processes do
 * this at once, the first one wins. */
static int create_store(const char *path, struct err *err) {
    unsigned char bytes[16];
    char text[34];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_set(err, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    char *temporary;
    int scratch, fd = file_make_temporary(path, &temporary, &scratch);
    bool written = fd >= 0 && write(fd, text, 32) == 32;
    if (fd >= 0) written = close(fd) == 0 && written;
    bool linked = written && (link(temporary, path) == 0 || errno == EEXIST);
    int rc = linked ? 0 : err_set(err, "%s: %s", path, strerror(errno));
    if (fd >= 0) unlink(temporary);
    scratch_forget(scratch);
    free(temporary);
    return rc;
}

static int open_store(struct history *h, struct err *err) {
    char *dir = file_join(h->root, HISTORY_PRIVATE), *path = file_join(dir, STORE_FILE);
    int rc = 0;
    if (!(h->store = read_store(path))) {
        rc = file_mkdirs(dir, err);
        if (rc == 0) rc = create_store(path, err);
        if (rc == 0 && !(h->store = read_store(path)))
            rc = err_set(err, "%s: damaged; delete it to start a new index", path);
    }
    free(dir);
    free(path);
    return rc;
}

struct history *history_open(const char *root, const char *url, struct err *err) {
    char real[PATH_MAX];
    if (!file_is_dir(root)) {
        err_set(err, "%s: no such folder; name the folder with the runs (default: runs)", root);
        return NULL;
    }
    if (!realpath(root, real)) {
        err_set(err, "%s: %s", root, strerror(errno));
        return NULL;
    }
    struct history *h = xcalloc(1, sizeof *h);
    h->root = xstrdup(real);
    if (open_store(h, err) == 0) {
        h->url = url ? xstrdup(url) : xasprintf("%s/" HISTORY_PRIVATE "/index.sqlite", real);
        if ((h->db = database_open(h->url, err)) && schema_prepare(h->db, err) == 0) return h;
    }
    history_close(h);
    return NULL;
}

void history_close(struct history *h) {
    if (!h) return;
    database_close(h->db);
    free(h->root);
    free(h->store);
    free(h->url);
    free(h);
}

int64_t history_revision(struct history *h, struct err *err) {
    struct db_result r;
    if (database_query(h->db, "SELECT value FROM revision", NULL, &r, err) < 0) return -1;
    int64_t value = db_cell_int(&r, 0, 0);
    db_result_free(&r);
    return value;
}

int history_bump_revision(struct history *h, struct err *err) {
    return database_query(h->db, "UPDATE revision SET value = value + 1", NULL, NULL, err);
}

int history_begin(struct history *h, struct err *err) {
    if (database_begin(h->db, err) < 0) return -1;
    if (!database_is_postgres(h->db)) return 0; /* SQLite has one writer */
    int rc = database_query(h->db, "SELECT value FROM revision FOR UPDATE", NULL, NULL, err);
    if (rc < 0) database_rollback(h->db);
    return rc;
}

char *history_folder(const struct history *h, const char *path) {
    return *path ? file_join(h->root, path) : xstrdup(h->root);
}

#include "conf/store.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"

#define MAX_FILE_BYTES (1u << 20)
#define SUFFIX ".yaml"
#define MAX_BUILTIN 128

const struct conf_builtin *conf_builtin_files(size_t *n) {
    static struct conf_builtin files[MAX_BUILTIN];
    size_t used = 0;
    for (size_t i = 0; i < embed_files_n && used < MAX_BUILTIN; i++) {
        const struct embed_file *f = &embed_files[i];
        if (strncmp(f->path, "conf/", 5) != 0) continue;
        files[used++] = (struct conf_builtin){ f->path + 5, (const char *)f->data, embed_bytes(f) };
    }
    *n = used;
    return files;
}

/* Returns true if the name cannot refer to files outside the folders. Names come from the command line and
 * from files. */
static bool sane(const char *name) {
    return name[0] && name[0] != '/' && name[0] != '.' && !strstr(name, "..") && strlen(name) < 200;
}

int conf_store_read(const struct conf_store *s, const char *name, struct strbuf *text, struct strbuf *origin,
                    struct err *err) {
    if (!sane(name)) return 0;
    for (size_t i = 0; i < s->ndirs; i++) {
        char *path = xasprintf("%s/%s" SUFFIX, s->dirs[i], name);
        bool there = file_exists(path);
        int rc = there ? file_read(path, MAX_FILE_BYTES, text, err) : 0;
        if (there) strbuf_addstr(origin, path);
        free(path);
        if (there) return rc < 0 ? -1 : 1;
    }
    size_t n = strlen(name);
    for (size_t i = 0; i < s->nbuiltin; i++) {
        const struct conf_builtin *b = &s->builtin[i];
        if (strncmp(b->path, name, n) != 0 || strcmp(b->path + n, SUFFIX) != 0) continue;
        strbuf_add(text, b->text, b->bytes);
        strbuf_addf(origin, "built-in conf/%s", b->path);
        return 1;
    }
    return 0;
}

struct names {
    char **v;
    size_t n, cap;
};

/* Adds "x" for the file "x.yaml"; ignores other files. */
static void add_name(struct names *names, const char *file) {
    size_t n = strlen(file), tail = strlen(SUFFIX);
    if (n <= tail || strcmp(file + n - tail, SUFFIX) != 0 || strchr(file, '/') || file[0] == '.') return;
    vec_push(names, xstrndup(file, n - tail));
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void collect_names(const struct conf_store *s, const char *group, struct names *names) {
    size_t n = strlen(group);
    for (size_t i = 0; sane(group) && i < s->ndirs; i++) {
        char *path = file_join(s->dirs[i], group);
        DIR *d = opendir(path);
        for (const struct dirent *e; d && (e = readdir(d));) add_name(names, e->d_name);
        if (d) closedir(d);
        free(path);
    }
    for (size_t i = 0; i < s->nbuiltin; i++)
        if (strncmp(s->builtin[i].path, group, n) == 0 && s->builtin[i].path[n] == '/')
            add_name(names, s->builtin[i].path + n + 1);
    if (names->n) qsort(names->v, names->n, sizeof names->v[0], by_name);
}

void conf_store_choices(const struct conf_store *s, const char *group,
                        void (*each)(void *ctx, const char *choice), void *ctx) {
    struct names names = { 0 };
    collect_names(s, group, &names);
    for (size_t i = 0; i < names.n; i++) {
        if (i == 0 || strcmp(names.v[i], names.v[i - 1]) != 0) each(ctx, names.v[i]);
    }
    for (size_t i = 0; i < names.n; i++) free(names.v[i]);
    free(names.v);
}

static void count_name(void *ctx, const char *choice) {
    (void)choice;
    ++*(size_t *)ctx;
}

bool conf_store_is_group(const struct conf_store *s, const char *group) {
    size_t n = 0;
    conf_store_choices(s, group, count_name, &n);
    return n > 0;
}

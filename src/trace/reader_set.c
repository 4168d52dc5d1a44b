#include "trace/reader_set.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

struct trace_set {
    pthread_mutex_t lock; /* protects the fields below */
    struct {
        char *path;
        struct trace_reader *reader;
    } v[TRACE_SET_MAX];
    size_t n;
};

struct trace_set *trace_set_new(void) {
    struct trace_set *set = xcalloc(1, sizeof *set);
    pthread_mutex_init(&set->lock, NULL);
    return set;
}

void trace_set_free(struct trace_set *set) {
    if (!set) return;
    for (size_t i = 0; i < set->n; i++) {
        trace_reader_close(set->v[i].reader);
        free(set->v[i].path);
    }
    pthread_mutex_destroy(&set->lock);
    free(set);
}

static struct trace_reader *find_reader(struct trace_set *set, const char *path) {
    struct trace_reader *found = NULL;
    pthread_mutex_lock(&set->lock);
    for (size_t i = 0; i < set->n && !found; i++)
        if (strcmp(set->v[i].path, path) == 0) found = set->v[i].reader;
    pthread_mutex_unlock(&set->lock);
    return found;
}

/* Does not add a reader if the set is full, or if another thread has added one for the same path. */
static void add_reader(struct trace_set *set, const char *path, struct trace_reader *r) {
    bool known = false;
    pthread_mutex_lock(&set->lock);
    for (size_t i = 0; i < set->n && !known; i++) known = strcmp(set->v[i].path, path) == 0;
    if (!known && set->n < TRACE_SET_MAX) {
        set->v[set->n].path = xstrdup(path);
        set->v[set->n++].reader = r;
    }
    pthread_mutex_unlock(&set->lock);
}

struct trace_reader *trace_set_take(struct trace_set *set, const char *path, struct err *err) {
    struct trace_reader *r = set ? find_reader(set, path) : NULL;
    if (r) return r;
    r = trace_reader_open(path, err);
    if (r && set) add_reader(set, path, r);
    return r;
}

void trace_set_give(struct trace_set *set, struct trace_reader *r) {
    bool kept = false;
    if (set) {
        pthread_mutex_lock(&set->lock);
        for (size_t i = 0; i < set->n && !kept; i++) kept = set->v[i].reader == r;
        pthread_mutex_unlock(&set->lock);
    }
    if (!kept) trace_reader_close(r);
}

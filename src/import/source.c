#include "import/source.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"

#define BLOCK_BYTES (1u << 20)
#define BLOCKS 4

struct source {
    int fd;
    bool gzip;
    const char *problem;
    char head[2]; /* bytes read for format detection */
    size_t head_n, head_at;

    /* gzip: ring of decompressed blocks */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    uint64_t made, used; /* blocks filled and consumed */
    size_t used_bytes;   /* of the current block */
    bool done, stop;
    const char *thread_problem;
};

static size_t read_some(struct source *s, char *buf, size_t cap) {
    if (s->head_at < s->head_n) {
        size_t n = MIN(cap, s->head_n - s->head_at);
        memcpy(buf, s->head + s->head_at, n);
        s->head_at += n;
        return n;
    }
    ssize_t n;
    do n = read(s->fd, buf, cap);
    while (n < 0 && errno == EINTR);
    if (n < 0) s->problem = "the file cannot be read completely";
    return n > 0 ? (size_t)n : 0;
}

/* Waits for a free block. NULL: the source is being closed. */
static char *take_free(struct source *s) {
    pthread_mutex_lock(&s->lock);
    while (s->made - s->used == BLOCKS && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
    char *block = s->stop ? NULL : s->blocks[s->made % BLOCKS];
    pthread_mutex_unlock(&s->lock);
    return block;
}

static void give_full(struct source *s, size_t n) {
    pthread_mutex_lock(&s->lock);
    s->sizes[s->made++ % BLOCKS] = n;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Decompresses until the block is full. Returns false at the end of the data; sets *problem if the data is
 * damaged. A file may have several gzip members. */
static bool fill_block(struct source *s, z_stream *z, char *in, const char **problem) {
    while (z->avail_out) {
        if (!z->avail_in) {
            z->avail_in = (uInt)read_some(s, in, BLOCK_BYTES);
            z->next_in = (Bytef *)in;
        }
        bool end = !z->avail_in; /* even then, zlib may have bytes that did not fit into the last block */
        int rc = inflate(z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) {
            inflateReset(z); /* also resets total_in */
        } else if (rc == Z_BUF_ERROR && end) {
            if (z->total_in) *problem = "the gzip data ends early";
            return false;
        } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
            if (z->total_in > 2 || z->total_out) /* padding after the last member is ignored */
                *problem = "the gzip data is damaged";
            return false;
        }
    }
    return true;
}

static void *inflate_thread(void *arg) {
    struct source *s = arg;
    z_stream z = { 0 };
    char *in = malloc(BLOCK_BYTES), *block;
    const char *problem = in && inflateInit2(&z, 15 + 16) == Z_OK ? NULL : "out of memory for decompression";
    bool go_on = problem == NULL;
    while (go_on && (block = take_free(s))) {
        z.next_out = (Bytef *)block;
        z.avail_out = BLOCK_BYTES;
        go_on = fill_block(s, &z, in, &problem);
        if (z.avail_out < BLOCK_BYTES) give_full(s, BLOCK_BYTES - z.avail_out);
    }
    inflateEnd(&z);
    free(in);
    pthread_mutex_lock(&s->lock);
    s->done = true;
    s->thread_problem = problem;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static int start_inflating(struct source *s, const char *path, struct err *err) {
    for (int i = 0; i < BLOCKS; i++) s->blocks[i] = xmalloc(BLOCK_BYTES);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int rc = pthread_create(&s->thread, NULL, inflate_thread, s);
    if (rc == 0) return 0;
    s->gzip = false;
    for (int i = 0; i < BLOCKS; i++) free(s->blocks[i]);
    return err_set(err, "%s: cannot start the decompression thread: %s", path, strerror(rc));
}

struct source *source_open(const char *path, struct err *err) {
    struct source *s = xcalloc(1, sizeof *s);
    if (file_is_dir(path)) {
        err_set(err, "%s: is a folder; give the files in it", path);
        s->fd = -1;
    } else {
        s->fd = file_open_regular(path, err);
    }
    if (s->fd < 0) goto failed;
    ssize_t n = read(s->fd, s->head, sizeof s->head);
    s->head_n = n > 0 ? (size_t)n : 0;
    s->gzip = n == 2 && s->head[0] == '\x1f' && s->head[1] == '\x8b';
    if (s->gzip && start_inflating(s, path, err) < 0) goto failed;
    return s;
failed:
    if (s->fd >= 0) close(s->fd);
    free(s);
    return NULL;
}

void source_close(struct source *s) {
    if (!s) return;
    if (s->gzip) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->changed);
        for (int i = 0; i < BLOCKS; i++) free(s->blocks[i]);
    }
    close(s->fd);
    free(s);
}

static size_t read_inflated(struct source *s, char *buf, size_t cap) {
    pthread_mutex_lock(&s->lock);
    while (s->made == s->used && !s->done) pthread_cond_wait(&s->changed, &s->lock);
    bool none = s->made == s->used;
    if (none && s->thread_problem) s->problem = s->thread_problem;
    pthread_mutex_unlock(&s->lock);
    if (none) return 0;
    size_t slot = s->used % BLOCKS, n = MIN(cap, s->sizes[slot] - s->used_bytes);
    memcpy(buf, s->blocks[slot] + s->used_bytes, n);
    s->used_bytes += n;
    if (s->used_bytes == s->sizes[slot]) {
        pthread_mutex_lock(&s->lock);
        s->used++;
        s->used_bytes = 0;
        pthread_cond_signal(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return n;
}

size_t source_read(void *source, char *buf, size_t cap) {
    struct source *s = source;
    return s->gzip ? read_inflated(s, buf, cap) : read_some(s, buf, cap);
}

const char *source_problem(const struct source *s) { return s->problem; }
bool source_is_gzip(const struct source *s) { return s->gzip; }

#include "collect/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/hash.h"
#include "base/own_thread.h"
#include "base/private_fds.h"
#include "base/util.h"
#include "base/words.h"
#include "collect/host.h"
#include "collect/mapped_file.h"
#include "collect/model_head.h"
#include "collect/output.h"

#define MS UINT64_C(1000000)
#define INTERVAL_LEAST (10 * MS)
#define INTERVAL_MOST (2000 * MS)
#define INTERVAL_PART 50 /* interval: time since start / this */
#define MAPS_EVERY 5     /* scans per memory-map scan */
#define COST_PART 50     /* pause >= scan time * this */
#define FILES_MAX 256    /* per process, including rejected files */
#define TOTAL_BYTES_MAX ((size_t)4 << 20)
#define CONFIG_BYTES_MAX ((size_t)256 << 10)
#define PART_BYTES 45000     /* per record; 60,000 characters in base64 */
#define DESCRIPTORS_MAX 4096 /* per scan */
#define ARGUMENT_BYTES 32768
#define FOLDER_FILES_MAX 1024
#define SNAPSHOTS_MAX 16
#define SMALLEST_FILE 32

static struct {
    atomic_bool running, stop, done;
    struct event wake, ended;
} scanner;

/* State of the scan thread. */
struct scan {
    uint64_t seen[FILES_MAX]; /* hashes of paths */
    unsigned nseen;
    unsigned files; /* number of the next file */
    size_t total_bytes;
    uint8_t *head; /* [MODEL_HEAD_BYTES] */
};

/* ---- names */

/* Model caches name a file by the hash of its content: "sha256-1a2b...", or the digits alone. */
static bool is_hash_name(const char *name, size_t n) {
    static const char prefix[] = "sha256-";
    if (n > sizeof prefix - 1 && memcmp(name, prefix, sizeof prefix - 1) == 0) {
        name += sizeof prefix - 1;
        n -= sizeof prefix - 1;
    }
    size_t digits = strspn(name, "0123456789abcdef");
    return digits >= 32 && digits == n;
}

/* Files with other names are not opened, because that could have side effects, for example on leases. */
static bool may_hold_weights(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    return words_end_with(name, n, ".gguf") || words_end_with(name, n, ".safetensors") ||
           is_hash_name(name, n);
}

/* Returns false if the path is known or the list is full. */
static bool note_path(struct scan *s, const char *path) {
    uint64_t hash = hash_bytes(path, strlen(path));
    for (unsigned i = 0; i < s->nseen; i++)
        if (s->seen[i] == hash) return false;
    if (s->nseen == FILES_MAX) return false;
    s->seen[s->nseen++] = hash;
    return true;
}

/* ---- records */

static void put_part(struct trace_writer *w, struct trace_model_file *r, const uint8_t *data, size_t n,
                     bool binary) {
    static char text[PART_BYTES / 3 * 4]; /* scan thread only */
    r->text = !n       ? 0
              : binary ? trace_writer_string(w, text, base64_encode(data, n, text))
                       : trace_writer_string(w, (const char *)data, n);
    trace_writer_model_file(w, r, 1);
}

static void put_file(struct scan *s, const char *path, const char *format, uint64_t file_bytes,
                     uint32_t flags, size_t bytes, bool binary) {
    struct trace_writer *w = output_take();
    if (!w) return;
    struct trace_model_file r = { .time_ns = clock_wall_ns(),
                                  .file_bytes = file_bytes,
                                  .file = s->files++,
                                  .flags = flags,
                                  .path = trace_writer_str(w, path),
                                  .format = trace_writer_str(w, format) };
    if (bytes > TOTAL_BYTES_MAX - s->total_bytes) {
        bytes = 0;
        r.flags |= TRACE_MODEL_INCOMPLETE;
    }
    s->total_bytes += bytes;
    r.text_bytes = bytes;
    for (size_t at = 0; at < bytes || r.part == 0; at += PART_BYTES, r.part++)
        put_part(w, &r, s->head + at, bytes > at ? MIN(bytes - at, PART_BYTES) : 0, binary);
    output_give();
}

/* ---- files */

static int open_regular(const char *path, uint64_t *bytes) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -1;
    }
    *bytes = (uint64_t)st.st_size;
    return fd;
}

static bool record_config(struct scan *s, const char *path) {
    uint64_t bytes;
    int fd = open_regular(path, &bytes);
    if (fd < 0) return false;
    if (note_path(s, path) && bytes <= CONFIG_BYTES_MAX) {
        ssize_t n = pread(fd, s->head, CONFIG_BYTES_MAX, 0);
        if (n > 0) put_file(s, path, "config.json", (uint64_t)n, 0, (size_t)n, false);
    }
    close(fd);
    return true;
}

/* Hugging Face's cache stores weights in NAME/blobs/HASH and configs in NAME/snapshots/REVISION. */
static void record_cached_config(struct scan *s, const char *model_folder) {
    char path[PATH_MAX + 300];
    snprintf(path, sizeof path, "%s/snapshots", model_folder);
    DIR *d = opendir(path);
    if (!d) return;
    struct dirent *e;
    for (unsigned i = 0; i < SNAPSHOTS_MAX && (e = readdir(d)) != NULL; i++) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/snapshots/%.255s/config.json", model_folder, e->d_name);
        if (record_config(s, path)) break;
    }
    closedir(d);
}

static void record_config_of(struct scan *s, const char *weights) {
    char folder[PATH_MAX], path[PATH_MAX + 20];
    size_t n = strlen(weights);
    while (n && weights[n - 1] != '/') n--;
    if (!n || n >= sizeof folder) return;
    memcpy(folder, weights, n - 1);
    folder[n - 1] = '\0';
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (record_config(s, path) || !words_end_with(folder, n - 1, "/blobs")) return;
    folder[n - 1 - strlen("/blobs")] = '\0';
    record_cached_config(s, folder);
}

static void record_source(struct scan *s, const struct model_source *source, const char *path,
                          uint64_t file_bytes, uint32_t flags) {
    struct model_head h = model_head_read(source, s->head);
    if (h.format == MODEL_UNKNOWN) return;
    put_file(s, path, h.format == MODEL_GGUF ? "gguf" : "safetensors", file_bytes,
             flags | (h.incomplete ? TRACE_MODEL_INCOMPLETE : 0), h.bytes, h.format == MODEL_GGUF);
    if (h.format == MODEL_SAFETENSORS) record_config_of(s, path);
}

/* `link` is opened; `name` is the path that is recorded. */
static bool record_file(struct scan *s, const char *link, const char *name, uint32_t flags) {
    struct model_source source = { 0 };
    source.fd = open_regular(link, &source.size);
    if (source.fd < 0) return false;
    if (source.size >= SMALLEST_FILE) record_source(s, &source, name, source.size, flags);
    close(source.fd);
    return true;
}

/* ---- arguments */

static void scan_folder(struct scan *s, const char *folder) {
    char path[PATH_MAX + 300], resolved[PATH_MAX];
    DIR *d = opendir(folder);
    if (!d) return;
    struct dirent *e;
    for (unsigned i = 0; i < FOLDER_FILES_MAX && (e = readdir(d)) != NULL; i++) {
        snprintf(path, sizeof path, "%s/%.255s", folder, e->d_name);
        if (may_hold_weights(path) && realpath(path, resolved) && note_path(s, resolved))
            record_file(s, path, path, TRACE_MODEL_ARGUMENT);
    }
    closedir(d);
}

static void scan_argument(struct scan *s, const char *word) {
    struct stat st;
    char resolved[PATH_MAX];
    const char *equals = strchr(word, '=');
    if (equals && word[0] == '-') word = equals + 1;
    if (!*word || strlen(word) >= PATH_MAX || stat(word, &st) != 0 || !realpath(word, resolved)) return;
    if (S_ISREG(st.st_mode) && may_hold_weights(word) && note_path(s, resolved))
        record_file(s, resolved, resolved, TRACE_MODEL_ARGUMENT);
    else if (S_ISDIR(st.st_mode) && strchr(word, '/'))
        scan_folder(s, resolved);
}

static void scan_arguments(struct scan *s) {
    static char text[ARGUMENT_BYTES]; /* scan thread only */
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (const char *p = text; p < text + n; p += strlen(p) + 1) scan_argument(s, p);
}

/* ---- descriptors and memory map */

static void scan_descriptors(struct scan *s) {
    char link[40], path[PATH_MAX];
    DIR *d = opendir("/proc/self/fd"); /* the program's descriptors */
    if (!d) return;
    struct dirent *e;
    for (unsigned i = 0; i < DESCRIPTORS_MAX && (e = readdir(d)) != NULL; i++) {
        if (e->d_name[0] == '.') continue;
        snprintf(link, sizeof link, "/proc/self/fd/%.16s", e->d_name);
        ssize_t n = readlink(link, path, sizeof path - 1);
        if (n <= 0) continue;
        path[n] = '\0';
        bool deleted = words_end_with(path, (size_t)n, " (deleted)");
        if (deleted) path[n - (ssize_t)strlen(" (deleted)")] = '\0';
        if (!may_hold_weights(path) || !note_path(s, path)) continue;
        record_file(s, link, path, TRACE_MODEL_OPEN | (deleted ? TRACE_MODEL_DELETED : 0));
    }
    closedir(d);
}

/* Records a deleted file that is still mapped. /proc/self/mem is used because reading it does not fault if
 * the program unmaps the file meanwhile. */
static void record_mapping(struct scan *s, const char *path, uint64_t from, uint64_t to) {
    struct model_source source = { .base = from, .size = to - from };
    source.fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (source.fd < 0) return;
    record_source(s, &source, path, source.size, TRACE_MODEL_MAPPED | TRACE_MODEL_DELETED);
    close(source.fd);
}

static void scan_mapping(struct scan *s, char *line) {
    struct mapped_file m;
    if (!mapped_file_parse(line, &m) || !may_hold_weights(m.path)) return;
    if (!m.deleted) {
        if (note_path(s, m.path)) record_file(s, m.path, m.path, TRACE_MODEL_MAPPED);
    } else if (m.file_offset == 0 && m.to > m.from && note_path(s, m.path)) {
        record_mapping(s, m.path, m.from, m.to);
    }
}

static void scan_map(struct scan *s) {
    static char text[32768]; /* scan thread only */
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    for (ssize_t n; fd >= 0 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)n;
        text[have] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            scan_mapping(s, line);
        }
        have = (size_t)(text + have - line);
        memmove(text, line, have);
        if (have == sizeof text - 1) have = 0; /* no line end: discard */
    }
    if (fd >= 0) close(fd);
}

/* ---- the thread */

static uint64_t interval_ns(uint64_t since_start_ns, uint64_t scan_ns) {
    uint64_t usual = MIN(MAX(since_start_ns / INTERVAL_PART, INTERVAL_LEAST), INTERVAL_MOST);
    return MAX(usual, scan_ns * COST_PART);
}

static void scan_until_stopped(struct scan *s) {
    uint64_t start = clock_mono_ns();
    for (unsigned i = 0; !atomic_load(&scanner.stop) && host_is_our_process(); i++) {
        unsigned seen = event_count(&scanner.wake);
        uint64_t before = clock_mono_ns();
        if (i == 0) scan_arguments(s);
        scan_descriptors(s);
        if (i % MAPS_EVERY == 0) scan_map(s);
        uint64_t now = clock_mono_ns();
        if (!atomic_load(&scanner.stop))
            event_wait(&scanner.wake, seen, now + interval_ns(now - start, now - before));
    }
}

static void *scanner_main(void *arg) {
    (void)arg;
    own_thread_name("inferprof-files");
    /* If the thread shared the program's descriptor table, closing a file would release the program's locks
     * on it. */
    if (private_fds()) {
        static struct scan s; /* one thread per process */
        void *head = mmap(NULL, MODEL_HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(&s, 0, sizeof s);
        s.head = head;
        if (head != MAP_FAILED) {
            scan_until_stopped(&s);
            munmap(head, MODEL_HEAD_BYTES);
        }
    }
    atomic_store(&scanner.done, true);
    event_set(&scanner.ended);
    own_thread_ends();
    return NULL;
}

void model_files_start(void) {
    pthread_t thread;
    if (atomic_exchange(&scanner.running, true)) return;
    if (own_thread_start(&thread, OWN_THREAD_STACK, scanner_main, NULL) == 0)
        pthread_detach(thread);
    else
        atomic_store(&scanner.running, false);
}

void model_files_stop(uint64_t until_ns) {
    if (!atomic_load(&scanner.running)) return;
    atomic_store(&scanner.stop, true);
    event_set(&scanner.wake);
    for (;;) {
        unsigned seen = event_count(&scanner.ended);
        if (atomic_load(&scanner.done) || clock_mono_ns() >= until_ns) return;
        event_wait(&scanner.ended, seen, until_ns);
    }
}

void model_files_after_fork(void) {
    atomic_store(&scanner.running, false);
    atomic_store(&scanner.stop, false);
    atomic_store(&scanner.done, false);
    event_reset(&scanner.wake);
    event_reset(&scanner.ended);
}

/* Answers of an untrusted server to `inferprof push`, which sends a small run through a stand-in for libcurl.
 * The input is text: answers as
 *     202
 *     {"received":512}
 * separated by lines "---". Status 0: no answer. What is sent must be the rest of the stream, and the name of
 * the run must be fit for a terminal. */
#include <fcntl.h>
#include <unistd.h>

#include "serve/push.c"

#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"

enum { ANSWERS = 12, PIECE = 700 };

static char folder[MEMORY_FOLDER], path[64];
static struct fake {
    const char *at, *end; /* answers that are left */
    size_t (*write)(char *, size_t, size_t, void *);
    size_t (*read)(char *, size_t, size_t, void *);
    void *write_data, *read_data;
    long long upload_bytes;
    char *error;
    bool upload;
    long status;
    unsigned long long from, to, total; /* of Content-Range */
} fake;
static char stream[4096];             /* what the run is sent as */
static size_t stream_bytes, received; /* received: as the last answer says */

/* ---- libcurl */

static CURL *fake_init(void) { return (CURL *)&fake; }
static void fake_cleanup(CURL *easy) { (void)easy; }

static void fake_reset(CURL *easy) {
    (void)easy;
    fake = (struct fake){ .at = fake.at, .end = fake.end };
}

static CURLcode fake_set(CURL *easy, CURLoption option, ...) {
    va_list ap;
    (void)easy;
    va_start(ap, option);
    switch ((int)option) {
    case CURLOPT_WRITEFUNCTION: fake.write = va_arg(ap, __typeof__(fake.write)); break;
    case CURLOPT_WRITEDATA: fake.write_data = va_arg(ap, void *); break;
    case CURLOPT_READFUNCTION: fake.read = va_arg(ap, __typeof__(fake.read)); break;
    case CURLOPT_READDATA: fake.read_data = va_arg(ap, void *); break;
    case CURLOPT_INFILESIZE_LARGE: fake.upload_bytes = va_arg(ap, curl_off_t); break;
    case CURLOPT_UPLOAD: fake.upload = va_arg(ap, long) != 0; break;
    case CURLOPT_ERRORBUFFER: fake.error = va_arg(ap, char *); break;
    default: break;
    }
    va_end(ap);
    return CURLE_OK;
}

/* Takes the body of the request. It must be the part of the stream that the server does not have. */
static void take_body(void) {
    char piece[PIECE];
    size_t at = (size_t)fake.from;
    if (fake.from != received || fake.total != stream_bytes || fake.to != stream_bytes - 1 ||
        fake.upload_bytes != (long long)(stream_bytes - received))
        abort();
    for (size_t n; (n = fake.read(piece, 1, sizeof piece, fake.read_data)) > 0; at += n)
        if (n > sizeof piece || n > stream_bytes - at || memcmp(piece, stream + at, n) != 0) abort();
    if (at != stream_bytes) abort();
}

/* The bytes that the server has, if the answer is about an upload that can go on. */
static size_t received_by(long status, const char *body, size_t n) {
    struct push_answer a = push_answer_parse(body, n);
    double bytes = a.received;
    push_answer_free(&a);
    return status == 202 && bytes > 0 && bytes < (double)stream_bytes ? (size_t)bytes : 0;
}

static CURLcode fake_perform(CURL *easy) {
    (void)easy;
    const char *line = fake.at, *end = memmem(line, (size_t)(fake.end - line), "\n---\n", 5);
    char data[64];
    if (fake.upload) take_body();
    fake.at = end ? end + 5 : fake.end;
    if (!end) end = fake.end;
    const char *body = memchr(line, '\n', (size_t)(end - line));
    body = body ? body + 1 : end;
    const char *all = body;
    snprintf(data, sizeof data, "%.*s", (int)(body - line), line);
    fake.status = strtol(data, NULL, 10);
    if (fake.status < 100 || fake.status > 999) {
        snprintf(fake.error, CURL_ERROR_SIZE, "%.*s", (int)(end - body), body);
        return CURLE_COULDNT_CONNECT;
    }
    for (size_t n; body < end; body += n) {
        n = MIN(sizeof data, (size_t)(end - body));
        memcpy(data, body, n);
        if (fake.write(data, 1, n, fake.write_data) != n) return CURLE_WRITE_ERROR;
    }
    received = received_by(fake.status, all, (size_t)(end - all));
    return CURLE_OK;
}

static CURLcode fake_info(CURL *easy, CURLINFO info, ...) {
    va_list ap;
    (void)easy;
    (void)info;
    va_start(ap, info);
    *va_arg(ap, long *) = fake.status;
    va_end(ap);
    return CURLE_OK;
}

static struct curl_slist *fake_append(struct curl_slist *list, const char *text) {
    if (strpbrk(text, "\r\n")) abort(); /* another header begins */
    sscanf(text, "Content-Range: bytes %llu-%llu/%llu", &fake.from, &fake.to, &fake.total);
    return list;
}

static void fake_free_list(struct curl_slist *list) { (void)list; }

/* ---- the run */

static void remove_folder(void) {
    remove(path);
    remove(folder);
}

static void read_stream(void) {
    struct err err;
    struct tar_writer *w = tar_writer_open(folder, "run", &err);
    int64_t n;
    if (!w || tar_writer_bytes(w) > sizeof stream) abort();
    while ((n = tar_writer_read(w, stream_bytes, stream + stream_bytes, sizeof stream, &err)) > 0)
        stream_bytes += (size_t)n;
    if (stream_bytes != tar_writer_bytes(w)) abort();
    tar_writer_close(w);
}

static void prepare(void) {
    static char data[1500];
    memset(data, 'x', sizeof data);
    memory_folder_make(folder);
    snprintf(path, sizeof path, "%s/metrics.json", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, sizeof data) != (ssize_t)sizeof data) abort();
    close(fd);
    atexit(remove_folder);
    read_stream();
    curl = (__typeof__(curl)){ .init = fake_init,
                               .set = (__typeof__(curl.set))fake_set,
                               .perform = fake_perform,
                               .info = (__typeof__(curl.info))fake_info,
                               .reset = fake_reset,
                               .cleanup = fake_cleanup,
                               .append = fake_append,
                               .free_list = fake_free_list };
}

static void check_name(const char *name) {
    struct strbuf shown = STRBUF_INIT;
    strbuf_add_printable(&shown, name, strlen(name));
    if (!*name || strcmp(shown.buf, name) != 0) abort();
    strbuf_free(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err = { "" };
    struct push p = { .easy = fake_init(), .url = (char *)"http://host", .answer = STRBUF_INIT };
    if (!*path) prepare();
    struct sending s = { .writer = tar_writer_open(folder, "run", &err) };
    if (!s.writer) abort();
    fake = (struct fake){ .at = (const char *)data, .end = (const char *)data + size };
    int rc = 0;
    for (int i = 0; rc == 0 && i < ANSWERS; i++) {
        struct push_result result = { 0 };
        err.msg[0] = '\0';
        rc = try_once(&p, &s, "/path", &result, &err);
        if (rc == 1 && result.bytes > tar_writer_bytes(s.writer)) abort();
        if (rc == 1) check_name(result.name);
        if (rc != 1 && !err.msg[0]) abort();
        free(result.name);
    }
    tar_writer_close(s.writer);
    strbuf_free(&p.answer);
    return 0;
}

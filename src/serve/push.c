#include "serve/push.h"

#include <curl/curl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/shared_library.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "serve/push_answer.h"
#include "serve/tar.h"

#define TRIES 6
#define ANSWER_MAX (1u << 20)

static struct {
    __typeof__(curl_easy_init) *init;
    __typeof__(curl_easy_setopt) *set;
    __typeof__(curl_easy_perform) *perform;
    __typeof__(curl_easy_getinfo) *info;
    __typeof__(curl_easy_reset) *reset;
    __typeof__(curl_easy_cleanup) *cleanup;
    __typeof__(curl_slist_append) *append;
    __typeof__(curl_slist_free_all) *free_list;
} curl;

static const struct library_function functions[] = {
    { "curl_easy_init", &curl.init },       { "curl_easy_setopt", &curl.set },
    { "curl_easy_perform", &curl.perform }, { "curl_easy_getinfo", &curl.info },
    { "curl_easy_reset", &curl.reset },     { "curl_easy_cleanup", &curl.cleanup },
    { "curl_slist_append", &curl.append },  { "curl_slist_free_all", &curl.free_list },
};

struct push {
    CURL *easy;
    char *url; /* without final slash */
    char *authorization;
    char error[CURL_ERROR_SIZE];
    struct strbuf answer;
};

/* The stream of one run. */
struct sending {
    struct tar_writer *writer;
    uint64_t position;
    struct err err;
    bool failed;
};

struct push *push_open(const char *url, const char *token, struct err *err) {
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        err_set(err, "'%s' is not a URL: expected http://HOST:PORT or https://HOST", url);
        return NULL;
    }
    if (library_load("libcurl-gnutls.so.4", "libcurl3-gnutls", functions, COUNTOF(functions), err) < 0 &&
        library_load("libcurl.so.4", "libcurl4", functions, COUNTOF(functions), err) < 0)
        return NULL;
    struct push *p = xcalloc(1, sizeof *p);
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/') n--;
    p->url = xstrndup(url, n);
    p->answer = (struct strbuf)STRBUF_INIT;
    if (token) p->authorization = xasprintf("Authorization: Bearer %s", token);
    if ((p->easy = curl.init())) return p;
    err_set(err, "libcurl cannot start");
    push_close(p);
    return NULL;
}

void push_close(struct push *p) {
    if (!p) return;
    if (p->easy) curl.cleanup(p->easy);
    free(p->url);
    free(p->authorization);
    strbuf_free(&p->answer);
    free(p);
}

static size_t take_answer(char *data, size_t size, size_t n, void *context) {
    struct push *p = context;
    if (p->answer.len + size * n > ANSWER_MAX) return 0;
    strbuf_add(&p->answer, data, size * n);
    return size * n;
}

static size_t give_stream(char *out, size_t size, size_t n, void *context) {
    struct sending *s = context;
    int64_t got = tar_writer_read(s->writer, s->position, out, size * n, &s->err);
    if (got < 0 || interrupt_signal()) {
        s->failed = true;
        return CURL_READFUNC_ABORT;
    }
    s->position += (uint64_t)got;
    progress_update(s->position);
    return (size_t)got;
}

/* Sends one request; with `s`, the rest of a stream of `total` bytes. Returns the HTTP status. 0: no answer;
 * p->error contains the reason. */
static long request(struct push *p, const char *path, struct sending *s, uint64_t total) {
    char *url = xasprintf("%s%s", p->url, path);
    struct curl_slist *headers = p->authorization ? curl.append(NULL, p->authorization) : NULL;
    long status = 0;
    curl.reset(p->easy);
    strbuf_reset(&p->answer);
    p->error[0] = '\0';
    curl.set(p->easy, CURLOPT_URL, url);
    curl.set(p->easy, CURLOPT_ERRORBUFFER, p->error);
    curl.set(p->easy, CURLOPT_NOSIGNAL, 1L);
    curl.set(p->easy, CURLOPT_CONNECTTIMEOUT, 10L);
    curl.set(p->easy, CURLOPT_LOW_SPEED_LIMIT, 1L); /* less than 1 byte/s for a minute */
    curl.set(p->easy, CURLOPT_LOW_SPEED_TIME, 60L);
    curl.set(p->easy, CURLOPT_WRITEFUNCTION, take_answer);
    curl.set(p->easy, CURLOPT_WRITEDATA, p);
    if (s) {
        char range[128];
        snprintf(range, sizeof range, "Content-Range: bytes %llu-%llu/%llu", (unsigned long long)s->position,
                 (unsigned long long)total - 1, (unsigned long long)total);
        headers = curl.append(headers, range);
        headers = curl.append(headers, "Content-Type: application/x-tar");
        curl.set(p->easy, CURLOPT_UPLOAD, 1L);
        curl.set(p->easy, CURLOPT_READFUNCTION, give_stream);
        curl.set(p->easy, CURLOPT_READDATA, s);
        curl.set(p->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)(total - s->position));
    }
    curl.set(p->easy, CURLOPT_HTTPHEADER, headers);
    if (curl.perform(p->easy) == CURLE_OK) curl.info(p->easy, CURLINFO_RESPONSE_CODE, &status);
    curl.free_list(headers);
    free(url);
    return status;
}

/* Sets err to the message of the answer or of libcurl. Returns -1. */
static int answer_failed(const struct push *p, long status, struct err *err) {
    struct push_answer a = push_answer_parse(p->answer.buf, p->answer.len);
    if (status == 0)
        err_set(err, "%s: %s", p->url, p->error[0] ? p->error : "no answer");
    else
        err_set(err, "%s answered %ld: %s", p->url, status, a.detail ? a.detail : "no reason given");
    push_answer_free(&a);
    return -1;
}

static void take_result(const struct push *p, struct push_result *result, bool existed, uint64_t bytes) {
    struct push_answer a = push_answer_parse(p->answer.buf, p->answer.len);
    *result = (struct push_result){ xstrdup(a.run ? a.run : "?"), existed, existed ? 0 : bytes };
    push_answer_free(&a);
}

static uint64_t received_bytes(const struct push *p, uint64_t total) {
    struct push_answer a = push_answer_parse(p->answer.buf, p->answer.len);
    double n = a.received;
    push_answer_free(&a);
    return n > 0 && n < (double)total ? (uint64_t)n : 0;
}

/* Asks how many bytes the server has stored, and sends the rest. Returns 1 if the run is stored, 0 if another
 * attempt may succeed, -1 if not. */
static int try_once(struct push *p, struct sending *s, const char *path, struct push_result *result,
                    struct err *err) {
    uint64_t total = tar_writer_bytes(s->writer);
    long status = request(p, path, NULL, 0);
    if (status == 200) {
        take_result(p, result, true, 0);
        return 1;
    }
    if (status != 202 && status != 404) {
        answer_failed(p, status, err);
        return status == 0 || status == 503 || status == 429 ? 0 : -1;
    }
    s->position = status == 202 ? received_bytes(p, total) : 0;
    status = request(p, path, s, total);
    if (s->failed) {
        *err = s->err;
        if (interrupt_signal()) err_set(err, "interrupted; the same command continues the upload");
        return -1;
    }
    if (status == 200 || status == 201) {
        take_result(p, result, status == 200, total);
        return 1;
    }
    answer_failed(p, status, err);
    return status == 0 || status == 503 || status == 409 || status == 429 ? 0 : -1;
}

static int send_with_retries(struct push *p, struct sending *s, const char *digest,
                             struct push_result *result, struct err *err) {
    char *path = xasprintf("/api/v1/uploads/%s", digest);
    int rc = 0;
    progress_start("sending", "bytes", tar_writer_bytes(s->writer));
    for (unsigned i = 0; rc == 0 && i < TRIES; i++) {
        if (i) {
            log_debug("%s; trying again", err->msg);
            nanosleep(&(struct timespec){ (time_t)(1u << (i - 1)) / 2, (1u << (i - 1)) % 2 * 500000000L },
                      NULL);
        }
        rc = try_once(p, s, path, result, err);
    }
    progress_finish();
    free(path);
    return rc == 1 ? 0 : -1;
}

int push_run(struct push *p, const char *dir, struct push_result *result, struct err *err) {
    char real[PATH_MAX], digest[65];
    char *metrics = file_join(dir, "metrics.json");
    bool is_run = file_exists(metrics) && realpath(dir, real);
    free(metrics);
    if (!is_run)
        return err_set(err, "%s: not a run folder with metrics.json; 'inferprof report' writes it", dir);
    struct sending s = { .writer = tar_writer_open(real, file_basename(real), err) };
    int rc = s.writer ? tar_writer_digest(s.writer, digest, err) : -1;
    if (rc == 0) rc = send_with_retries(p, &s, digest, result, err);
    tar_writer_close(s.writer);
    return rc;
}

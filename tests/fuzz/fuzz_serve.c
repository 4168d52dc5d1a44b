/* Requests to the server, from a client that is not trusted, on a small store with a SQLite database. The
 * input is text:
 *     PUT /api/v1/uploads/DIGEST?name=value
 *     Content-Range: bytes 0-99/512
 *
 *     body
 * Up to six requests are separated by lines "---". A body sent with a request for the events of a job is the
 * log of the job; one sent with "RUN /run-a" is the metrics.json of this run, which somebody uploaded. With
 * the header Authorization or Cookie, the server has tokens, one for each role: "t-read", "t-write" and
 * "t-run". A request must not make the server fail, must not get a file outside of the store, and needs the
 * role of its route; errors do not contain the path of the store, and pages show the text of clients without
 * its markup. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/jsonr.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/vec.h"
#include "fuzz/fake_microhttpd.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "history/history.h"
#include "serve/http_internal.h"
#include "serve/job_request.h"
#include "serve/server.h"

#define JOB "20260102-030405-job-1a2b3c"
#define LOG ".inferprof/jobs/" JOB ".log"
enum { REQUESTS = 6, UPLOAD_BYTES = 1 << 18 };

static char root[MEMORY_FOLDER];
static struct server *server;
static struct token tokens[3];

/* ---- the store */

/* The path of a file of the store, whose folders are created. */
static const char *store_path(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
    return path;
}

static void write_file(const char *name, const void *data, size_t size) {
    int fd = open(store_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    close(fd);
}

static void write_link(const char *name, const char *target) {
    if (symlink(target, store_path(name)) < 0) abort();
}

static void write_text(const char *name, const char *text) { write_file(name, text, strlen(text)); }

static void write_run(const char *name, int day, const char *model, double ms) {
    char path[80], text[2000];
    snprintf(path, sizeof path, "%s/metrics.json", name);
    snprintf(
        text, sizeof text,
        "{\"schema\":\"inferprof-metrics\",\"schema_version\":1,\"run\":{\"title\":\"a "
        "run\",\"model\":\"%s\","
        "\"engine\":\"native\",\"started_unix_ns\":176%d170000000000000,\"repeats\":3,"
        "\"inferprof_version\":\"0.%d.0\"},\"device\":{\"name\":\"NVIDIA H200\",\"peak_flop_per_s\":9.89e14},"
        "\"model\":{\"mfu\":0.01,\"mbu\":null},\"verdict\":\"slow\",\"stages\":[{\"name\":\"prefill\","
        "\"time_ms\":%g,\"repeats_ms\":[%g,%g,41.1]},{\"name\":\"decode\",\"parent\":null,\"time_ms\":%g,"
        "\"tokens\":100,\"distance\":3.2}],\"figures\":[{\"key\":\"time_per_token\",\"name\":\"Time\","
        "\"unit\":\"ms\",\"repeats\":[%g,%g,2],\"stats\":{\"n\":3,\"median\":%g,\"mean\":%g}}],"
        "\"findings\":[{\"rule\":\"gap\",\"stage\":\"decode\",\"title\":\"Gaps\",\"saving_ms\":2}],"
        "\"kernels\":[{\"short_name\":\"gemv\",\"category\":\"GEMV\",\"owned_ns\":1000,\"calls\":10}],"
        "\"environment\":[{\"group\":\"System\",\"key\":\"host\",\"value\":\"box\"}]}",
        model, day, day, ms, ms, ms + 1, ms * 2, ms, ms, ms, ms);
    write_text(path, text);
}

static void write_store(void) {
    write_run("run-a", 1, "llama", 40);
    write_run("run-b", 2, "llama", 41);
    write_run("run-c", 3, "\\\"><fuzz>%27", 60);
    write_text("run-a/.tags", "nightly\nx\n");
    write_text("run-a/report.html", "<html></html>");
    write_text("run-a/notes/a.csv", "a,b\n");
    write_link("run-a/link", "/etc/passwd");
    write_link("run-a/above", "/etc");
    write_text("run-b/INCOMPLETE", "");
    write_text(LOG, "");
}

static void index_store(void) {
    struct err err;
    struct history_counts counts;
    struct db_args args = { 0 };
    struct history *h = history_open(root, NULL, &err);
    if (!h || history_refresh(h, HISTORY_ALL, &counts, &err) < 0) abort();
    strlist_free(&counts.warnings);
    db_text(&args, h->store);
    if (database_query(
            h->db,
            "INSERT INTO jobs (run_id, store, state, device, request, attempts, created_ns) VALUES "
            "('" JOB "', $1, 'running', 'cpu', '{\"repeats\":3}', 1, 5)",
            &args, NULL, &err) < 0)
        abort();
    history_close(h);
}

/* The files of the store, which are written again after a request that changes them. */
static struct {
    struct kept_file {
        char *name;
        struct strbuf data; /* of a link: its target */
        struct timespec times[2];
        bool link;
    } * v;
    size_t n, cap;
} kept;

static int keep_file(const char *path, const struct stat *st, int type, struct FTW *at) {
    struct kept_file f = { .data = STRBUF_INIT,
                           .times = { st->st_mtim, st->st_mtim },
                           .link = type == FTW_SL };
    char buffer[4096];
    ssize_t n;
    (void)at;
    if (type == FTW_D) return 0;
    if (f.link) {
        if ((n = readlink(path, buffer, sizeof buffer)) < 0) abort();
        strbuf_add(&f.data, buffer, (size_t)n);
    } else {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && (n = read(fd, buffer, sizeof buffer)) > 0) strbuf_add(&f.data, buffer, (size_t)n);
        close(fd);
    }
    f.name = strdup(path + strlen(root) + 1);
    vec_push(&kept, f);
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st;
    (void)type;
    return at->level ? remove(path) : 0;
}

static void remove_root(void) {
    nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    rmdir(root);
}

static void restore_store(void) {
    for (size_t i = 0; i < server->idle.n; i++) history_close(server->idle.v[i]);
    server->idle.n = 0;
    nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < kept.n; i++) {
        const struct kept_file *f = &kept.v[i];
        if (f->link)
            write_link(f->name, f->data.buf);
        else
            write_file(f->name, f->data.buf, f->data.len);
        utimensat(AT_FDCWD, store_path(f->name), f->times, AT_SYMLINK_NOFOLLOW);
    }
}

/* ---- the server */

static void make_tokens(void) {
    static const enum http_role roles[] = { HTTP_READ, HTTP_WRITE, HTTP_RUN };
    for (size_t i = 0; i < COUNTOF(tokens); i++) {
        struct sha256 s;
        char text[16];
        snprintf(text, sizeof text, "t-%s", role_name(roles[i]));
        tokens[i].role = roles[i];
        sha256_start(&s);
        sha256_add(&s, text, strlen(text));
        sha256_hex(&s, tokens[i].hash);
    }
}

/* Without the thread that indexes the store every few seconds, and without the one that runs jobs. */
static void start_server(void) {
    static const char *const job_roots[] = { "/nowhere", "/dev/" };
    static int no_jobs;
    struct err err;
    struct server_options o = { .root = root,
                                .address = "127.0.0.1",
                                .max_upload_bytes = UPLOAD_BYTES,
                                .threads = 2,
                                .connections = 16,
                                .job_roots = job_roots,
                                .njob_roots = COUNTOF(job_roots),
                                .version = "fuzz" };
    if (!(server = server_start(&o, &err))) abort();
    atomic_store(&server->stopping, true);
    pthread_join(server->refresher, NULL);
    server->refreshing = false;
    atomic_store(&server->stopping, false);
    server->jobs = (struct jobs *)&no_jobs;
}

static void prepare(void) {
    memory_folder_make(root);
    atexit(remove_root);
    log_set_level(LOG_ERROR);
    make_tokens();
    write_store();
    index_store();
    nftw(root, keep_file, 8, FTW_PHYS);
    start_server();
    restore_store();
}

/* ---- checks of an answer */

static const char *header_of(const struct http_exchange *x, const char *name) {
    const char *at = strstr(x->headers.buf, name);
    return at ? at + strlen(name) : "";
}

/* Server-sent events: lines "event: NAME" and "data: TEXT". */
static void check_events(const struct strbuf *body) {
    for (size_t i = 0; i < body->len; i++) {
        const char *line = body->buf + i;
        size_t n = strcspn(line, "\n");
        if (n && strncmp(line, "event: ", 7) != 0 && strncmp(line, "data: ", 6) != 0) abort();
        for (size_t k = 0; k < n; k++)
            if ((unsigned char)line[k] < ' ') abort();
        i += n;
    }
}

static void check_answer(const struct http_exchange *x, const char *path) {
    const char *type = header_of(x, "Content-Type: ");
    bool packed = *header_of(x, "Content-Encoding: ");
    if (x->status < 200 || x->status > 599 || x->status == 500 || x->status == 503) abort();
    if (x->status >= 400 && strstr(x->body.buf, root)) abort();
    if (strncmp(type, "text/event-stream", 17) == 0) check_events(&x->body);
    if (x->of_file && strncmp(x->file, root, strlen(root)) != 0) abort();
    if (!x->of_file && !packed && strncmp(type, "text/html", 9) == 0 &&
        (strstr(x->body.buf, "<fuzz") || strstr(x->body.buf, "\"fuzz=")))
        abort();
    if (!x->of_file && !packed && x->body.len && strstr(type, "json") &&
        strcmp(path, "/api/v1/openapi.json")) {
        struct err err;
        json_t *json = jsonr_load_text(x->body.buf, x->body.len, "answer", &err);
        if (!json) abort();
        json_decref(json);
    }
}

/* The command of an accepted job: no word of it is an option of the client. */
static void check_job(const struct http_exchange *x) {
    struct err err;
    struct strlist words = { 0 };
    json_t *job = jsonr_load_text(x->body.buf, x->body.len, "answer", &err);
    char *request = json_dumps(json_object_get(job, "request"), JSON_COMPACT);
    if (!request) abort();
    job_command(request, root, "run", &words);
    for (size_t i = 0; i < words.n; i++)
        if (words.v[i][0] == '-' && strcmp(words.v[i], "--model-path") && strcmp(words.v[i], "--input-dir"))
            abort();
    free(request);
    json_decref(job);
    strlist_free(&words);
}

static bool is_public(const char *path) {
    static const char *const paths[] = { "/", "/login", "/api/v1/health", "/api/v1/openapi.json" };
    for (size_t i = 0; i < COUNTOF(paths); i++)
        if (strcmp(path, paths[i]) == 0) return true;
    return strncmp(path, "/assets/", 8) == 0;
}

/* The role that a request with success needs at least. */
static enum http_role needed_role(const struct http_exchange *x, const char *path) {
    if (is_public(path)) return HTTP_NOBODY;
    if (strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0) return HTTP_READ;
    return strncmp(path, "/api/v1/profiles", 16) == 0 ? HTTP_RUN : HTTP_WRITE;
}

static void check_role(struct http_exchange *x, const char *path) {
    const char *header = fake_lookup(&x->connection, MHD_HEADER_KIND, "Authorization"),
               *token = fake_lookup(&x->connection, MHD_COOKIE_KIND, "inferprof_token");
    enum http_role role = HTTP_NOBODY;
    if (header && strncasecmp(header, "Bearer ", 7) == 0) token = header + 7;
    for (enum http_role r = HTTP_READ; token && r <= HTTP_RUN; r++)
        if (strncmp(token, "t-", 2) == 0 && strcmp(token + 2, role_name(r)) == 0) role = r;
    if (x->status && x->status < 300 && role < needed_role(x, path)) abort();
}

/* ---- requests */

static bool has_line(const char *text, const char *name) {
    for (const char *p = text; p; p = (p = strchr(p, '\n')) ? p + 1 : NULL)
        if (strncasecmp(p, name, strlen(name)) == 0) return true;
    return false;
}

/* Adds the headers that every client sends, if they are missing. */
static void add_headers_of_clients(struct strbuf *lines, size_t bytes) {
    if (!has_line(lines->buf, "host:")) strbuf_addstr(lines, "\nHost: localhost:8080\n");
    if (!has_line(lines->buf, "content-length:") && !has_line(lines->buf, "transfer-encoding:"))
        strbuf_addf(lines, "\nContent-Length: %zu\n", bytes);
}

static void use_tokens(bool used) {
    server->tokens = (struct token_list){ tokens, used ? COUNTOF(tokens) : 0, COUNTOF(tokens) };
    server->tokens_at_ns = clock_mono_ns();
}

/* Returns true if the request may have changed the store. */
static bool send_request(const char *method, char *url, const char *headers, const char *data, size_t bytes) {
    struct strbuf lines = STRBUF_INIT;
    strbuf_addstr(&lines, headers);
    add_headers_of_clients(&lines, bytes);
    bool has_tokens = has_line(lines.buf, "authorization:") || has_line(lines.buf, "cookie:");
    struct http_exchange x = { .method = method,
                               .url = url,
                               .header_lines = lines.buf,
                               .data = data,
                               .bytes = bytes,
                               .piece = bytes % 3 ? 0 : 700,
                               .headers = STRBUF_INIT,
                               .body = STRBUF_INIT };
    use_tokens(has_tokens);
    if (strstr(url, "/events")) write_file(LOG, data, bytes);
    http_exchange_run(&x);
    if (x.status) check_answer(&x, url);
    if (x.status == 202 && strcmp(method, "POST") == 0 && strcmp(url, "/api/v1/profiles") == 0) check_job(&x);
    if (has_tokens) check_role(&x, url);
    http_exchange_free(&x);
    strbuf_free(&lines);
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

static void change_run(const char *name, const char *metrics, size_t bytes) {
    char path[64];
    struct err err;
    struct history *h = server_take(server, &err);
    if (!h) abort();
    snprintf(path, sizeof path, "%s/metrics.json", name);
    write_file(path, metrics, bytes);
    history_index_folder(h, name, NULL, &err);
    server_give(server, h);
}

/* Returns true if the request may have changed the store. */
static bool run_request(const char *data, size_t size) {
    const char *end = memmem(data, size, "\n\n", 2), *body = end ? end + 2 : data + size;
    bool changed = false;
    struct strbuf head = STRBUF_INIT;
    strbuf_add(&head, data, end ? (size_t)(end - data) : size);
    strbuf_addch(&head, '\n');
    char *headers = strchr(head.buf, '\n'), *url = strchr(head.buf, ' ');
    if (headers) *headers++ = '\0';
    if (headers && url && url > head.buf && url[1] == '/') {
        size_t bytes = size - (size_t)(body - data);
        *url++ = '\0';
        changed = true;
        if (strcmp(head.buf, "RUN") != 0)
            changed = send_request(head.buf, url, headers, body, bytes);
        else if (strcmp(url, "/run-a") == 0 || strcmp(url, "/run-b") == 0)
            change_run(url + 1, body, bytes);
    }
    strbuf_free(&head);
    return changed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *at = (const char *)data, *end = at + size;
    bool changed = false;
    if (!server) prepare();
    if (memmem(data, size, root, strlen(root))) return 0; /* an error may repeat it */
    http_cache_close(server->http->cache);
    server->http->cache = http_cache_open(1 << 20);
    for (int i = 0; i < REQUESTS && at < end; i++) {
        const char *next = memmem(at, (size_t)(end - at), "\n---\n", 5);
        changed |= run_request(at, (size_t)((next ? next : end) - at));
        at = next ? next + 5 : end;
    }
    if (changed) restore_store();
    return 0;
}

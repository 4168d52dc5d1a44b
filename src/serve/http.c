#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "base/util.h"
#include "serve/http_internal.h"

#define CACHE_BYTES (48u << 20)
#define TICK_NS 250000000 /* poll interval of streams */

/* ---- arguments and headers */

const char *http_query(const struct request *q, const char *name) {
    return mhd.lookup(q->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_header(const struct request *q, const char *name) {
    return mhd.lookup(q->connection, MHD_HEADER_KIND, name);
}

const char *http_cookie(const struct request *q, const char *name) {
    return mhd.lookup(q->connection, MHD_COOKIE_KIND, name);
}

struct collect_values {
    const char *name, **v;
    size_t n, cap;
};

static enum MHD_Result collect_value(void *context, enum MHD_ValueKind kind, const char *key,
                                     const char *value) {
    (void)kind;
    struct collect_values *c = context;
    if (strcmp(key, c->name) == 0 && value && c->n < c->cap) c->v[c->n++] = value;
    return MHD_YES;
}

size_t http_query_all(const struct request *q, const char *name, const char **v, size_t cap) {
    struct collect_values c = { name, v, 0, cap };
    mhd.values(q->connection, MHD_GET_ARGUMENT_KIND, collect_value, &c);
    return c.n;
}

void *http_user(const struct request *q) { return q->http->o.user; }
uint16_t http_port(const struct http *http) { return http->port; }

/* ---- routing */

/* Matches "/a/{b}" with "/a/x". Modifies the path: the arguments point into it. */
static bool match_path(const char *pattern, char *path, const char **arguments) {
    size_t n = 0;
    while (*pattern == '/' && *path == '/') {
        pattern++;
        *path++ = '\0';
        size_t p = strcspn(pattern, "/"), s = strcspn(path, "/");
        if (pattern[0] == '{') {
            if (s == 0) return false;
            arguments[n++] = path;
        } else if (p != s || strncmp(pattern, path, p) != 0)
            return false;
        pattern += p;
        path += s;
    }
    return *pattern == '\0' && *path == '\0';
}

/* NULL: not found. *allowed: the methods of other routes with this path. */
static const struct http_route *find_route(struct request *q, struct strbuf *allowed) {
    const struct http_options *o = &q->http->o;
    const char *method = strcmp(q->method, "HEAD") == 0 ? "GET" : q->method;
    for (size_t i = 0; i < o->nroutes; i++) {
        char *copy = xstrdup(q->path);
        const char *arguments[HTTP_SEGMENTS] = { 0 };
        bool matches = match_path(o->routes[i].path, copy, arguments);
        if (matches && strcmp(o->routes[i].method, method) == 0) {
            for (size_t k = 0; k < HTTP_SEGMENTS && arguments[k]; k++)
                q->arguments[k] = xstrdup(arguments[k]);
            free(copy);
            return &o->routes[i];
        }
        if (matches) strbuf_addf(allowed, "%s%s", allowed->len ? ", " : "", o->routes[i].method);
        free(copy);
    }
    return NULL;
}

static enum MHD_Result check_text(void *context, enum MHD_ValueKind kind, const char *key,
                                  const char *value) {
    (void)kind;
    bool *valid = context;
    *valid = *valid && utf8_valid(key, strlen(key)) && (!value || utf8_valid(value, strlen(value)));
    return MHD_YES;
}

struct query_check {
    struct request *q;
    const char *names;
};

static bool is_listed(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; n && (p = strstr(p, name)) != NULL; p += n)
        if ((p == names || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0') && !strchr(name, ' ')) return true;
    return false;
}

static enum MHD_Result check_name(void *context, enum MHD_ValueKind kind, const char *key,
                                  const char *value) {
    (void)kind;
    (void)value;
    struct query_check *c = context;
    if (is_listed(c->names, key)) return MHD_YES;
    http_problem(c->q, 400, "unknown parameter '%s'; use %s", key, c->names);
    return MHD_NO;
}

static void check_query(struct request *q) {
    struct query_check check = { q, q->route->query };
    if (check.names) mhd.values(q->connection, MHD_GET_ARGUMENT_KIND, check_name, &check);
}

static const char *client_address(const struct request *q, char *out, size_t cap) {
    const union MHD_ConnectionInfo *info =
        mhd.connection_info(q->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    snprintf(out, cap, "unknown");
    if (!info || !info->client_addr) return out;
    const struct sockaddr *a = info->client_addr;
    socklen_t n = a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    getnameinfo(a, n, out, (socklen_t)cap, NULL, 0, NI_NUMERICHOST);
    return out;
}

static bool within_rate(struct request *q) {
    struct http *http = q->http;
    char address[64];
    if (http->o.requests_per_s <= 0) return true;
    client_address(q, address, sizeof address);
    pthread_mutex_lock(&http->lock);
    bool within = http_rate_take(&http->rate, address, clock_mono_ns(), http->o.requests_per_s);
    pthread_mutex_unlock(&http->lock);
    if (!within) atomic_fetch_add(&http->refused, 1);
    return within;
}

/* Makes the checks that do not need the body. Fills the response if one fails. */
static void check_request(struct request *q) {
    struct strbuf allowed = STRBUF_INIT;
    bool valid = utf8_valid(q->path, strlen(q->path));
    mhd.values(q->connection, MHD_GET_ARGUMENT_KIND, check_text, &valid);
    if (!valid) strbuf_reset((http_problem(q, 400, "the URL is not UTF-8, or contains %%00"), &allowed));
    if (!q->status) q->route = find_route(q, &allowed);
    if (!q->status && !within_rate(q)) {
        http_add_header(q, "Retry-After", "1");
        http_problem(q, 429, "this client sends too many requests; wait a second");
    } else if (!q->status && !q->route && allowed.len) {
        http_add_header(q, "Allow", allowed.buf);
        http_problem(q, 405, "%s is not possible here; use %s", q->method, allowed.buf);
    } else if (!q->status && !q->route)
        http_problem(q, 404, "no such page: %s", q->path);
    if (!q->status) q->http->o.authorize(q);
    if (!q->status) check_query(q);
    strbuf_free(&allowed);
}

/* ---- cached answers */

/* With its length: two requests with different arguments must not have the same key. */
static void add_key_text(struct strbuf *out, const char *text) {
    strbuf_addf(out, "%zu:%s", strlen(text), text);
}

static enum MHD_Result add_key(void *context, enum MHD_ValueKind kind, const char *key, const char *value) {
    (void)kind;
    struct strbuf *out = context;
    add_key_text(out, key);
    add_key_text(out, value ? value : "");
    return MHD_YES;
}

static void cache_key(const struct request *q, struct strbuf *key) {
    add_key_text(key, q->path);
    mhd.values(q->connection, MHD_GET_ARGUMENT_KIND, add_key, key);
}

/* If-None-Match may list several tags. */
static bool tag_matches(const struct request *q) {
    const char *wanted = http_header(q, "If-None-Match");
    return wanted && q->etag[0] && (strstr(wanted, q->etag) || strcmp(wanted, "*") == 0);
}

static void answer_cached(struct request *q) {
    struct http *http = q->http;
    struct strbuf key = STRBUF_INIT;
    int64_t revision = http->o.revision(http->o.user);
    cache_key(q, &key);
    if (revision >= 0)
        snprintf(q->etag, sizeof q->etag, "W/\"%s-%llx-%llx\"", http->o.version, (unsigned long long)revision,
                 (unsigned long long)hash_bytes(key.buf, key.len));
    if (tag_matches(q))
        q->status = 304;
    else if (revision >= 0 && http_cache_get(http->cache, key.buf, revision, &q->out, &q->type))
        q->status = 200;
    else {
        q->route->handle(q);
        if (q->status == 200 && revision >= 0 && q->fd < 0 && !q->no_store)
            http_cache_put(http->cache, key.buf, revision, q->out.buf, q->out.len, q->type);
        if (q->status != 200 || q->no_store) q->etag[0] = '\0';
    }
    strbuf_free(&key);
}

static void answer(struct request *q) {
    if (q->route->cached)
        answer_cached(q);
    else
        q->route->handle(q);
    if (q->status == 200 && !q->etag[0] && !q->no_store && q->fd < 0 && !q->stream && q->route->tagged)
        snprintf(q->etag, sizeof q->etag, "W/\"%llx-%zx\"",
                 (unsigned long long)hash_bytes(q->out.buf, q->out.len), q->out.len);
    if (!q->route->cached && q->status == 200 && tag_matches(q)) {
        if (q->fd >= 0) close(q->fd);
        q->fd = -1;
        strbuf_reset(&q->out);
        q->status = 304;
    }
    if (!q->status) http_problem(q, 500, "the handler gave no answer");
}

/* ---- callbacks of libmicrohttpd */

static struct request *new_request(struct http *http, struct MHD_Connection *connection, const char *url,
                                   const char *method) {
    struct request *q = xcalloc(1, sizeof *q);
    *q = (struct request){ .http = http,
                           .connection = connection,
                           .path = xstrdup(url),
                           .started_ns = clock_mono_ns(),
                           .body = STRBUF_INIT,
                           .out = STRBUF_INIT,
                           .headers = STRBUF_INIT,
                           .fd = -1 };
    q->method = xstrdup(method);
    const union MHD_ConnectionInfo *info =
        mhd.connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    q->limits = info ? info->socket_context : NULL;
    return q;
}

static void check_length(struct request *q) {
    const char *length = http_header(q, "Content-Length");
    if (q->route->body == HTTP_SMALL_BODY && length && strtoull(length, NULL, 10) > HTTP_SMALL_BODY_BYTES)
        http_problem(q, 413, "the body has more than %u bytes", HTTP_SMALL_BODY_BYTES);
}

void http_limit(struct request *q, uint64_t start_ns, uint64_t bytes) {
    if (q->limits) http_connection_limit(&q->http->connections, q->limits, start_ns, HTTP_GRACE_S, bytes);
}

static void receive(struct request *q, const char *data, size_t n) {
    q->received += n;
    http_limit(q, q->started_ns, q->received);
    if (q->status) return; /* the error follows the body */
    if (q->route->body == HTTP_STREAM_BODY)
        q->route->receive(q, data, n);
    else if (q->body.len + n > HTTP_SMALL_BODY_BYTES)
        http_problem(q, 413, "the body has more than %u bytes", HTTP_SMALL_BODY_BYTES);
    else if (q->route->body == HTTP_SMALL_BODY)
        strbuf_add(&q->body, data, n);
}

static void free_context(struct request *q) {
    if (q->free_context) q->free_context(q->context);
    q->free_context = NULL;
}

/* The client may send its next request as soon as it has the answer, so locks of the handler end before. */
static enum MHD_Result send_answer(struct request *q) {
    free_context(q);
    return http_send(q);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *bytes,
                                  void **state) {
    (void)version;
    struct request *q = *state;
    if (!q) {
        *state = q = new_request(context, connection, url, method);
        mhd.set_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, q->http->o.timeout_s);
        http_limit(q, q->started_ns, 0);
        check_request(q);
        if (!q->status) check_length(q);
        if (!q->status && q->route->begin) q->route->begin(q);
        return q->status ? send_answer(q) : MHD_YES; /* closes the connection */
    }
    if (*bytes) {
        receive(q, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    if (q->limits) http_connection_no_limit(&q->http->connections, q->limits);
    if (!q->status) answer(q);
    return send_answer(q);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code) {
    struct http *http = context;
    const union MHD_ConnectionInfo *info = mhd.connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && info)
        *state = http_connection_add(&http->connections, info->connect_fd);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED && *state) {
        http_connection_remove(&http->connections, *state);
        *state = NULL;
    }
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code) {
    (void)context;
    (void)connection;
    (void)code;
    struct request *q = *state;
    if (!q) return;
    /* time until the next request of this connection */
    if (q->limits) http_connection_limit(&q->http->connections, q->limits, clock_mono_ns(), HTTP_GRACE_S, 0);
    free_context(q);
    if (q->fd >= 0) close(q->fd);
    for (size_t i = 0; i < HTTP_SEGMENTS; i++) free((char *)q->arguments[i]);
    free((char *)q->method);
    free(q->path);
    strbuf_free(&q->body);
    strbuf_free(&q->out);
    strbuf_free(&q->headers);
    free(q);
    *state = NULL;
}

/* ---- start and stop */

static void *ticker_main(void *context) {
    struct http *http = context;
    while (!atomic_load(&http->stopping)) {
        nanosleep(&(struct timespec){ 0, TICK_NS }, NULL);
        http_resume_all(http);
        http_connections_check(&http->connections, clock_mono_ns());
    }
    return NULL;
}

static int resolve(const char *address, uint16_t port, struct addrinfo **out, struct err *err) {
    char service[8];
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(address, service, &hints, out);
    if (rc == 0) return 0;
    return err_set(err, "%s: %s", address, gai_strerror(rc));
}

/* %00 would end the text, and the rest of a path or filter would be ignored. %FF is no UTF-8, so that
 * check_request() refuses the URL. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text) {
    (void)context;
    (void)connection;
    for (char *p = text; (p = strstr(p, "%00")) != NULL;) memcpy(p, "%FF", 3);
    return mhd.unescape(text);
}

static struct MHD_Daemon *start_daemon(struct http *http, const struct addrinfo *a) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    if (a->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    return mhd.start(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR, a->ai_addr, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape, NULL, MHD_OPTION_THREAD_POOL_SIZE, http->o.threads, MHD_OPTION_CONNECTION_LIMIT,
        http->o.connections, MHD_OPTION_CONNECTION_TIMEOUT, HTTP_HEADER_S, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        http->o.connections_per_client, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536,
        MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
}

static int listen_on(struct http *http, struct err *err) {
    struct addrinfo *a = NULL;
    if (resolve(http->o.address, http->o.port, &a, err) < 0) return -1;
    errno = 0;
    http->daemon = start_daemon(http, a);
    int code = errno;
    freeaddrinfo(a);
    if (!http->daemon)
        return err_set(err, "cannot listen on %s port %u: %s", http->o.address, http->o.port,
                       code ? strerror(code) : "libmicrohttpd failed");
    const union MHD_DaemonInfo *info = mhd.info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    http->port = info ? info->port : http->o.port;
    return 0;
}

struct http *http_start(const struct http_options *options, struct err *err) {
    if (mhd_load(err) < 0) return NULL;
    struct http *http = xcalloc(1, sizeof *http);
    http->o = *options;
    http->cache = http_cache_open(CACHE_BYTES);
    http->counters = xcalloc(options->nroutes + 1, sizeof *http->counters);
    pthread_mutex_init(&http->lock, NULL);
    http_connections_init(&http->connections);
    if (listen_on(http, err) == 0 && pthread_create(&http->ticker, NULL, ticker_main, http) == 0) return http;
    if (http->daemon) mhd.stop(http->daemon);
    http_cache_close(http->cache);
    free(http->counters);
    free(http);
    return NULL;
}

void http_stop(struct http *http) {
    if (!http) return;
    atomic_store(&http->stopping, true);
    pthread_join(http->ticker, NULL);
    http_resume_all(http);
    mhd.stop(http->daemon);
    http_cache_close(http->cache);
    pthread_mutex_destroy(&http->lock);
    free(http->waiting.v);
    free(http->counters);
    free(http);
}

void http_metrics(const struct http *http, struct strbuf *out) {
    static const struct {
        const char *name, *help;
        size_t offset;
        double scale;
    } rows[] = {
        { "inferprof_http_requests_total", "Requests by route.", offsetof(struct counter, requests), 1 },
        { "inferprof_http_errors_total", "Requests with a status of 400 or more.",
          offsetof(struct counter, errors), 1 },
        { "inferprof_http_seconds_total", "Time spent on requests, with their bodies.",
          offsetof(struct counter, microseconds), 1e-6 },
    };
    for (size_t r = 0; r < COUNTOF(rows); r++) {
        strbuf_addf(out, "# HELP %s %s\n# TYPE %s counter\n", rows[r].name, rows[r].help, rows[r].name);
        for (size_t i = 0; i <= http->o.nroutes; i++) {
            const char *counter = (const char *)&http->counters[i] + rows[r].offset;
            unsigned long v = atomic_load((const atomic_ulong *)(const void *)counter);
            strbuf_addf(out, "%s{method=\"%s\",route=\"%s\"} %.6g\n", rows[r].name,
                        i < http->o.nroutes ? http->o.routes[i].method : "",
                        i < http->o.nroutes ? http->o.routes[i].path : "other", (double)v * rows[r].scale);
        }
    }
    strbuf_addf(out,
                "# HELP inferprof_http_refused_total Requests over the rate limit.\n"
                "# TYPE inferprof_http_refused_total counter\ninferprof_http_refused_total %lu\n",
                atomic_load(&http->refused));
}

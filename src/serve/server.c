#include "serve/server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/log.h"
#include "base/vec.h"
#include "serve/jobs.h"
#include "serve/pages.h"
#include "serve/upload.h"

#define REFRESH_S 5
#define RECHECK_RUNS 5000 /* runs per refresh whose metrics.json is looked at */
#define CLEAN_S 600
#define RATE 100             /* default of requests_per_s on other addresses than loopback */
#define TOKENS_NS 2000000000 /* maximum age of the token list */

struct history *server_take(struct server *s, struct err *err) {
    struct history *h = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->idle.n) h = s->idle.v[--s->idle.n];
    pthread_mutex_unlock(&s->lock);
    return h ? h : history_open(s->o.root, s->o.database, err);
}

void server_give(struct server *s, struct history *h) {
    pthread_mutex_lock(&s->lock);
    vec_push(&s->idle, h);
    pthread_mutex_unlock(&s->lock);
}

void request_failed(struct request *q, unsigned status, const struct err *err) {
    struct strbuf path = STRBUF_INIT;
    strbuf_add_printable(&path, q->path, strlen(q->path));
    log_warn("%s %s: %s", q->method, path.buf, err->msg);
    strbuf_free(&path);
    http_problem(q, status, "the server failed; its log has the reason");
}

void request_database_failed(struct request *q, const struct err *err) {
    log_warn("database: %s", err->msg);
    http_problem(q, 503, "the database does not answer; try again later");
    http_add_header(q, "Retry-After", "5");
}

struct history *request_history(struct request *q) {
    struct err err;
    struct history *h = server_take(http_user(q), &err);
    if (!h) request_database_failed(q, &err);
    return h;
}

void request_done(struct request *q, struct history *h) { server_give(http_user(q), h); }

static int64_t current_revision(void *user) {
    struct server *s = user;
    struct err err;
    struct history *h = server_take(s, &err);
    if (!h) return -1;
    int64_t revision = history_revision(h, &err);
    server_give(s, h);
    return revision;
}

/* ---- access */

static void load_tokens(struct server *s) {
    struct err err;
    struct token_list list;
    uint64_t now_ns = clock_mono_ns();
    pthread_mutex_lock(&s->lock);
    bool fresh = s->tokens_at_ns && now_ns - s->tokens_at_ns < TOKENS_NS;
    pthread_mutex_unlock(&s->lock);
    if (fresh) return;
    struct history *h = server_take(s, &err);
    if (!h) return; /* the old list stays valid */
    if (tokens_load(h->db, &list, &err) == 0) {
        pthread_mutex_lock(&s->lock);
        free(s->tokens.v);
        s->tokens = list;
        s->tokens_at_ns = now_ns;
        pthread_mutex_unlock(&s->lock);
    }
    server_give(s, h);
}

static const char *request_token(const struct request *q) {
    const char *header = http_header(q, "Authorization");
    if (header && strncasecmp(header, "Bearer ", 7) == 0) return header + 7;
    return http_cookie(q, "inferprof_token");
}

/* True for the host names by which programs on this machine reach a server on the loopback address. A web
 * page of another site sends its own host name (DNS rebinding). */
static bool host_is_local(const char *host) {
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':')) return true;
    }
    return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.:") == strlen(host);
}

/* True for our own pages and for clients without an Origin. Other requests must not modify data. */
static bool origin_is_ours(const struct request *q) {
    const char *origin = http_header(q, "Origin"), *host = http_header(q, "Host");
    if (!origin) return true;
    const char *name = strstr(origin, "://");
    return name && host && strcmp(name + 3, host) == 0;
}

static void authorize(struct request *q) {
    struct server *s = http_user(q);
    const char *token = request_token(q), *host = http_header(q, "Host");
    load_tokens(s);
    pthread_mutex_lock(&s->lock);
    bool open = s->tokens.n == 0 && s->loopback;
    q->role = open ? HTTP_RUN : token ? tokens_role(&s->tokens, token) : HTTP_NOBODY;
    pthread_mutex_unlock(&s->lock);
    bool changes = strcmp(q->method, "GET") != 0 && strcmp(q->method, "HEAD") != 0;
    if (!host)
        http_problem(q, 400, "the header Host is needed");
    else if (s->loopback && !host_is_local(host))
        http_problem(q, 403, "this server answers only under the names of this machine");
    else if (changes && !origin_is_ours(q))
        http_problem(q, 403, "requests of other web pages are not accepted");
    else if (q->role < q->route->role && q->role == HTTP_NOBODY) {
        if (q->route->page && strcmp(q->method, "GET") == 0) {
            http_redirect(q, "/login");
        } else {
            http_add_header(q, "WWW-Authenticate", "Bearer");
            http_problem(q, 401, "a token is needed: Authorization: Bearer TOKEN");
        }
    } else if (q->role < q->route->role)
        http_problem(q, 403, "this token has the role %s; %s is needed", role_name(q->role),
                     role_name(q->route->role));
}

/* ---- background work */

static void log_warnings(struct history_counts *counts, bool failed, const struct err *err) {
    if (failed) log_warn("indexing: %s", err->msg);
    for (size_t i = 0; i < counts->warnings.n; i++) log_warn("%s", counts->warnings.v[i]);
    strlist_free(&counts->warnings);
}

/* *position: where history_recheck() goes on */
static void refresh_once(struct server *s, int64_t *position) {
    struct err err;
    struct history_counts counts;
    struct history *h = server_take(s, &err);
    if (!h) {
        log_warn("database: %s", err.msg);
        return;
    }
    bool failed = history_refresh(h, HISTORY_CHANGED, &counts, &err) < 0;
    log_warnings(&counts, failed, &err);
    failed = history_recheck(h, position, RECHECK_RUNS, &counts, &err) < 0;
    log_warnings(&counts, failed, &err);
    server_give(s, h);
}

static void clean_uploads(struct server *s) {
    struct err ignored;
    struct history *h = server_take(s, &ignored);
    if (!h) return;
    upload_clean(h);
    server_give(s, h);
}

static void *refresher_main(void *context) {
    struct server *s = context;
    int64_t position = 0;
    for (unsigned tick = 0; !atomic_load(&s->stopping); tick++) {
        if (tick % (REFRESH_S * 10) == 0) refresh_once(s, &position);
        if (tick % (CLEAN_S * 10) == 0) clean_uploads(s);
        nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    }
    return NULL;
}

static bool is_loopback(const char *address) {
    struct in_addr v4;
    if (inet_pton(AF_INET, address, &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    return strcmp(address, "::1") == 0 || strcmp(address, "localhost") == 0;
}

static int check_access(struct server *s, struct err *err) {
    load_tokens(s);
    if (s->loopback || s->tokens.n) return 0;
    return err_set(err,
                   "listening on %s needs access tokens; create one with 'inferprof serve token add NAME "
                   "--role read|write|run'",
                   s->o.address);
}

static int start_parts(struct server *s, struct err *err) {
    struct history *h = server_take(s, err); /* a database that cannot be used is refused at the start */
    if (!h) return -1;
    server_give(s, h);
    if (check_access(s, err) < 0) return -1;
    if (s->o.allow_jobs && !(s->jobs = jobs_start(s, err))) return -1;
    struct http_options o = { .address = s->o.address,
                              .port = s->o.port,
                              .threads = s->o.threads,
                              .connections = s->o.connections,
                              .connections_per_client = s->loopback ? 0 : s->o.connections / 4,
                              .timeout_s = 30,
                              .requests_per_s = s->o.requests_per_s >= 0 ? s->o.requests_per_s
                                                : s->loopback            ? 0
                                                                         : RATE,
                              .routes = server_routes,
                              .nroutes = server_routes_n,
                              .user = s,
                              .authorize = authorize,
                              .revision = current_revision,
                              .error_page = page_error,
                              .version = s->o.version };
    if (!(s->http = http_start(&o, err))) return -1;
    s->refreshing = pthread_create(&s->refresher, NULL, refresher_main, s) == 0;
    return 0;
}

struct server *server_start(const struct server_options *options, struct err *err) {
    struct server *s = xcalloc(1, sizeof *s);
    s->o = *options;
    s->loopback = is_loopback(options->address);
    pthread_mutex_init(&s->lock, NULL);
    if (start_parts(s, err) == 0) return s;
    server_stop(s);
    return NULL;
}

void server_stop(struct server *s) {
    if (!s) return;
    atomic_store(&s->stopping, true);
    http_stop(s->http);
    jobs_stop(s->jobs);
    if (s->refreshing) pthread_join(s->refresher, NULL);
    for (size_t i = 0; i < s->idle.n; i++) history_close(s->idle.v[i]);
    free(s->idle.v);
    free(s->tokens.v);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

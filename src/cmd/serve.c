/* inferprof serve: a server for the runs of a team, and its access tokens. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/table.h"
#include "base/text.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "serve/server.h"
#include "session/run_dir.h"

struct serve_opts {
    const char *root, *database, *listen, *role;
    uint64_t max_upload, threads, connections;
    double rate;
    bool allow_jobs, force;
    struct opt_list job_roots;
};

/* Parses "127.0.0.1:8080", "[::1]:8080", ":8080" (all IPv4 addresses) or "8080" (127.0.0.1). The caller frees
 * *address. */
static int parse_listen(const char *text, char **address, uint16_t *port, struct err *err) {
    const char *colon = strrchr(text, ':'), *number = colon ? colon + 1 : text;
    char *end;
    unsigned long v = strtoul(number, &end, 10);
    if (*number < '0' || *number > '9' || *end || v > 65535)
        return err_set(err, "--listen: '%s' is not ADDRESS:PORT", text);
    *port = (uint16_t)v;
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']')
        *address = xstrndup(text + 1, n - 2);
    else
        *address = colon ? n ? xstrndup(text, n) : xstrdup("0.0.0.0") : xstrdup("127.0.0.1");
    return 0;
}

static void wait_for_signal(void) {
    struct pollfd p = { .fd = interrupt_fd(), .events = POLLIN };
    while (!interrupt_signal())
        if (poll(&p, 1, 1000) < 0) continue;
}

static int serve_until_signal(const struct server_options *o) {
    struct err err;
    bool v6 = strchr(o->address, ':') != NULL;
    interrupt_watch();
    struct server *s = server_start(o, &err);
    if (!s) {
        interrupt_unwatch();
        return command_fail(&err);
    }
    printf("http://%s%s%s:%u/\n", v6 ? "[" : "", o->address, v6 ? "]" : "", http_port(s->http));
    fflush(stdout);
    if (!s->loopback)
        log_info("this server does not encrypt: put a proxy with TLS in front of it (docs/serve.md)");
    wait_for_signal();
    log_info("stopping");
    server_stop(s);
    interrupt_unwatch();
    return EXIT_DONE;
}

/* A mistyped folder would otherwise look like a server without runs, or refuse every job. */
static void name_missing_folders(const struct serve_opts *so) {
    if (!file_is_dir(so->root)) log_warn("%s: no such folder; it is created", so->root);
    for (size_t i = 0; i < so->job_roots.n; i++)
        if (!file_is_dir(so->job_roots.v[i]))
            log_warn("--job-root %s: no such folder; jobs cannot read models or inputs there",
                     so->job_roots.v[i]);
}

static int run_serve(const void *opts, int argc, char **argv) {
    (void)argc;
    (void)argv;
    const struct serve_opts *so = opts;
    struct server_options o = { .root = so->root,
                                .database = so->database,
                                .max_upload_bytes = so->max_upload,
                                .threads = (unsigned)so->threads,
                                .connections = (unsigned)so->connections,
                                .requests_per_s = so->rate,
                                .allow_jobs = so->allow_jobs,
                                .job_roots = so->job_roots.v,
                                .njob_roots = so->job_roots.n,
                                .version = build_version() };
    struct err err;
    char *address = NULL;
    if (parse_listen(so->listen, &address, &o.port, &err) < 0) return command_usage("serve: %s", err.msg);
    o.address = address;
    name_missing_folders(so);
    int status = file_mkdirs(so->root, &err) < 0 ? command_fail(&err) : serve_until_signal(&o);
    free(address);
    return status;
}

/* ---- tokens */

static bool token_name_valid(const char *name) {
    size_t n = strlen(name);
    return n >= 1 && n <= 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-") == n;
}

static int list_tokens(struct history *h, struct err *err) {
    struct token_list list;
    struct table t;
    struct strbuf out = STRBUF_INIT;
    if (tokens_load(h->db, &list, err) < 0) return -1;
    table_init(&t);
    table_column(&t, "name", TABLE_LEFT);
    table_column(&t, "role", TABLE_LEFT);
    table_column(&t, "created", TABLE_LEFT);
    for (size_t i = 0; i < list.n; i++) {
        table_cell(&t, "%s", list.v[i].name);
        table_cell(&t, "%s", role_name(list.v[i].role));
        table_cell(&t, "%s", text_date((uint64_t)list.v[i].created_ns).s);
    }
    table_text(&t, &out);
    fputs(list.n ? out.buf : "no tokens\n", stdout);
    table_free(&t);
    strbuf_free(&out);
    free(list.v);
    return 0;
}

static bool is_last_token(struct history *h, const char *name) {
    struct token_list list;
    struct err ignored;
    if (tokens_load(h->db, &list, &ignored) < 0) return false;
    bool last = list.n == 1 && strcmp(list.v[0].name, name) == 0;
    free(list.v);
    return last;
}

static int change_token(struct history *h, const struct serve_opts *o, bool add, const char *name,
                        struct err *err) {
    char token[TOKEN_BYTES];
    enum http_role role;
    if (!add) {
        if (!o->force && is_last_token(h, name))
            return err_set(
                err,
                "'%s' is the last token: without a token, a server on the loopback address answers "
                "everybody; use --force to remove it",
                name);
        int removed = tokens_remove(h->db, name, err);
        return removed == 0 ? err_set(err, "no token '%s'", name) : removed < 0 ? -1 : 0;
    }
    role_parse(o->role, &role);
    if (tokens_add(h->db, name, role, token, err) < 0) return -1;
    printf("%s\n", token);
    log_info(
        "this token is shown only once; clients send it as a bearer token, and 'inferprof push' takes it "
        "from the variable INFERPROF_TOKEN");
    return 0;
}

static int run_token(const void *opts, int argc, char **argv) {
    const struct serve_opts *o = opts;
    struct err err;
    bool add = strcmp(argv[0], "add") == 0, list = strcmp(argv[0], "list") == 0;
    if (!add && !list && strcmp(argv[0], "remove") != 0)
        return command_usage("serve token: expected add NAME, list or remove NAME");
    if (argc != (list ? 1 : 2))
        return command_usage("serve token %s: expected %s", argv[0], list ? "no name" : "a name");
    if (!list && !token_name_valid(argv[1]))
        return command_usage("serve token: a name has 1 to 64 letters, digits or ._@-");
    int rc = file_mkdirs(o->root, &err);
    struct history *h = rc == 0 ? history_open(o->root, o->database, &err) : NULL;
    rc = !h ? -1 : list ? list_tokens(h, &err) : change_token(h, o, add, argv[1], &err);
    history_close(h);
    return rc == 0 ? EXIT_DONE : command_fail(&err);
}

#define FIELD_AT(field) offsetof(struct serve_opts, field)
#define STORE_OPTIONS                                                                             \
    { 0, "root", OPT_STR, FIELD_AT(root), "DIR", "folder with the runs; default: runs", NULL }, { \
        0, "database", OPT_STR, FIELD_AT(database), "URL",                                        \
            "postgresql://... or an SQLite file; default: DIR/.inferprof/index.sqlite", NULL      \
    }

static const struct opt serve_options[] = {
    STORE_OPTIONS,
    { 0, "listen", OPT_STR, FIELD_AT(listen), "ADDRESS:PORT",
      "address to listen on; default: 127.0.0.1:8080; port 0: any free port; other addresses than loopback "
      "require tokens",
      NULL },
    { 0, "max-upload", OPT_BYTES, FIELD_AT(max_upload), "SIZE", "largest run that is accepted; default: 2GiB",
      NULL },
    { 0, "threads", OPT_UINT, FIELD_AT(threads), "N", "threads that answer requests; default: 4", "1..64" },
    { 0, "connections", OPT_UINT, FIELD_AT(connections), "N",
      "maximum number of connections at once; default: 256", "8..10000" },
    { 0, "rate", OPT_DOUBLE, FIELD_AT(rate), "N",
      "maximum requests per second and client; 0: no limit; default: 100, on the loopback address no limit",
      "0.." },
    { 0, "allow-jobs", OPT_FLAG, FIELD_AT(allow_jobs), NULL, "accept profiling jobs", NULL },
    { 0, "job-root", OPT_LIST, FIELD_AT(job_roots), "DIR",
      "jobs may read models and inputs in this folder; may be repeated", NULL },
};
static const struct opt token_options[] = {
    STORE_OPTIONS,
    { 0, "role", OPT_CHOICE, FIELD_AT(role), "ROLE",
      "role of the new token; each role includes the roles before it", "read|write|run" },
    { 0, "force", OPT_FLAG, FIELD_AT(force), NULL, "remove also the last token", NULL },
};

static const struct serve_opts defaults = { .root = RUN_DIR_ROOT,
                                            .listen = "127.0.0.1:8080",
                                            .role = "read",
                                            .max_upload = 2ull << 30,
                                            .threads = 4,
                                            .rate = -1,
                                            .connections = 256 };

const struct command cmd_serve = {
    .name = "serve",
    .args = "",
    .summary = "serve the runs of a folder to browsers, and accept runs from other machines",
    .opts = serve_options,
    .nopts = COUNTOF(serve_options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct serve_opts),
    .run = run_serve,
};
const struct command cmd_serve_token = {
    .name = "serve token",
    .args = "add NAME | list | remove NAME",
    .summary = "create, list and remove access tokens of the server",
    .opts = token_options,
    .nopts = COUNTOF(token_options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct serve_opts),
    .min_args = 1,
    .max_args = 2,
    .run = run_token,
};

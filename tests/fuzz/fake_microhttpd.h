/* A stand-in for libmicrohttpd: it passes requests to the server without a connection.
 *     struct server *s = server_start(&options, &err);               -- uses this stand-in
 *     struct http_exchange x = { .method = "GET", .url = url };      -- url: modified
 *     http_exchange_run(&x);
 *     ... x.status, x.headers, x.body ...
 *     http_exchange_free(&x);
 * Include it in one file only: it defines `mhd` and mhd_load(). */
#ifndef TESTS_FUZZ_FAKE_MICROHTTPD_H
#define TESTS_FUZZ_FAKE_MICROHTTPD_H

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/util.h"
#include "serve/http_api.h"

#define EXCHANGE_ITEMS 40    /* headers and arguments; the others are ignored */
#define EXCHANGE_PIECES 1000 /* of a stream; the client leaves after them */

struct MHD_Connection {
    struct exchange_item {
        enum MHD_ValueKind kind;
        const char *name, *value; /* value NULL: an argument without '=' */
    } items[EXCHANGE_ITEMS];
    size_t n;
    struct http_exchange *x;
};
struct MHD_Response {
    struct strbuf headers, body;
    int fd;
    MHD_ContentReaderCallback read;
    MHD_ContentReaderFreeCallback free;
    void *context;
};
struct MHD_Daemon {
    MHD_AccessHandlerCallback handle;
    void *handle_context;
    size_t (*unescape)(void *context, struct MHD_Connection *c, char *text);
    void *unescape_context;
    MHD_RequestCompletedCallback completed;
    void *completed_context;
};

struct http_exchange {
    const char *method;
    char *url, *header_lines; /* "Name: value\n" lines; both are modified */
    const char *data;         /* body of the request */
    size_t bytes, piece;      /* it is sent in pieces of this size; 0: at once */
    /* the answer; status 0: none */
    unsigned status;
    struct strbuf headers, body; /* "Name: value\n" lines */
    bool of_file;                /* the body is a file; `file` is its path */
    char file[512];
    bool suspended;
    struct MHD_Connection connection;
};

static struct MHD_Daemon exchange_daemon;

/* ---- functions of the library */

static struct MHD_Daemon *fake_start(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept,
                                     void *accept_context, MHD_AccessHandlerCallback handle,
                                     void *handle_context, ...) {
    struct MHD_Daemon *d = &exchange_daemon;
    va_list ap;
    (void)flags;
    (void)port;
    (void)accept;
    (void)accept_context;
    *d = (struct MHD_Daemon){ .handle = handle, .handle_context = handle_context };
    va_start(ap, handle_context);
    for (enum MHD_OPTION option; (option = va_arg(ap, enum MHD_OPTION)) != MHD_OPTION_END;) {
        switch (option) {
        case MHD_OPTION_UNESCAPE_CALLBACK:
            d->unescape = va_arg(ap, __typeof__(d->unescape));
            d->unescape_context = va_arg(ap, void *);
            break;
        case MHD_OPTION_NOTIFY_COMPLETED:
            d->completed = va_arg(ap, MHD_RequestCompletedCallback);
            d->completed_context = va_arg(ap, void *);
            break;
        case MHD_OPTION_NOTIFY_CONNECTION:
            va_arg(ap, void *);
            va_arg(ap, void *);
            break;
        case MHD_OPTION_SOCK_ADDR: va_arg(ap, void *); break;
        case MHD_OPTION_CONNECTION_MEMORY_LIMIT: va_arg(ap, size_t); break;
        default: va_arg(ap, unsigned); break;
        }
    }
    va_end(ap);
    return d;
}

static void fake_stop(struct MHD_Daemon *d) { (void)d; }

static const union MHD_DaemonInfo *fake_info(struct MHD_Daemon *d, enum MHD_DaemonInfoType type, ...) {
    (void)d;
    (void)type;
    return NULL;
}

static const char *fake_lookup(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *name) {
    for (size_t i = 0; i < c->n; i++) /* the library ignores the case of all names */
        if (c->items[i].kind == kind && strcasecmp(c->items[i].name, name) == 0) return c->items[i].value;
    return NULL;
}

static int fake_values(struct MHD_Connection *c, enum MHD_ValueKind kind, MHD_KeyValueIterator each,
                       void *context) {
    int n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->items[i].kind != kind) continue;
        n++;
        if (each(context, kind, c->items[i].name, c->items[i].value) == MHD_NO) break;
    }
    return n;
}

static const union MHD_ConnectionInfo *fake_connection_info(struct MHD_Connection *c,
                                                            enum MHD_ConnectionInfoType type, ...) {
    (void)c;
    (void)type;
    return NULL;
}

static enum MHD_Result fake_set_option(struct MHD_Connection *c, enum MHD_CONNECTION_OPTION option, ...) {
    (void)c;
    (void)option;
    return MHD_YES;
}

static struct MHD_Response *new_response(void) {
    struct MHD_Response *r = calloc(1, sizeof *r);
    if (!r) abort();
    *r = (struct MHD_Response){ .headers = STRBUF_INIT, .body = STRBUF_INIT, .fd = -1 };
    return r;
}

static struct MHD_Response *fake_from_buffer(size_t n, void *data, enum MHD_ResponseMemoryMode mode) {
    struct MHD_Response *r = new_response();
    if (mode != MHD_RESPMEM_MUST_COPY) abort();
    strbuf_add(&r->body, data, n);
    return r;
}

static struct MHD_Response *fake_from_fd(uint64_t n, int fd) {
    struct MHD_Response *r = new_response();
    (void)n;
    r->fd = fd;
    return r;
}

static struct MHD_Response *fake_from_callback(uint64_t n, size_t block, MHD_ContentReaderCallback read_more,
                                               void *context, MHD_ContentReaderFreeCallback free_context) {
    struct MHD_Response *r = new_response();
    (void)n;
    (void)block;
    r->read = read_more;
    r->free = free_context;
    r->context = context;
    return r;
}

static enum MHD_Result fake_add_header(struct MHD_Response *r, const char *name, const char *value) {
    if (!*name || strpbrk(name, "\r\n\t :") || strpbrk(value, "\r\n")) abort(); /* another header begins */
    strbuf_addf(&r->headers, "%s: %s\n", name, value);
    return MHD_YES;
}

static void take_stream(struct http_exchange *x, const struct MHD_Response *r) {
    char piece[4096];
    ssize_t n = 0;
    for (int i = 0; i < EXCHANGE_PIECES && !x->suspended; i++) {
        if ((n = r->read(r->context, x->body.len, piece, sizeof piece)) < 0) return;
        if ((size_t)n > sizeof piece) abort();
        strbuf_add(&x->body, piece, (size_t)n);
    }
}

static enum MHD_Result fake_queue(struct MHD_Connection *c, unsigned status, struct MHD_Response *r) {
    struct http_exchange *x = c->x;
    if (x->status) abort(); /* two answers */
    x->status = status;
    strbuf_addstr(&x->headers, r->headers.buf);
    strbuf_add(&x->body, r->body.buf, r->body.len);
    if (r->fd >= 0) {
        char link[40];
        snprintf(link, sizeof link, "/proc/self/fd/%d", r->fd);
        ssize_t n = readlink(link, x->file, sizeof x->file - 1);
        x->of_file = true;
        x->file[n > 0 ? n : 0] = '\0';
    }
    if (r->read) take_stream(x, r);
    return MHD_YES;
}

static void fake_destroy(struct MHD_Response *r) {
    if (r->free) r->free(r->context);
    if (r->fd >= 0) close(r->fd);
    strbuf_free(&r->headers);
    strbuf_free(&r->body);
    free(r);
}

static void fake_suspend(struct MHD_Connection *c) { c->x->suspended = true; }
static void fake_resume(struct MHD_Connection *c) { (void)c; }

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t fake_unescape(char *text) {
    char *to = text;
    for (const char *p = text; *p;) {
        bool code = *p == '%' && hex_value(p[1]) >= 0 && hex_value(p[2]) >= 0;
        *to++ = code ? (char)(hex_value(p[1]) * 16 + hex_value(p[2])) : *p;
        p += code ? 3 : 1;
    }
    *to = '\0';
    return (size_t)(to - text);
}

struct mhd_api mhd;
int mhd_load(struct err *err) {
    (void)err;
    mhd = (struct mhd_api){ .start = fake_start,
                            .stop = fake_stop,
                            .info = fake_info,
                            .lookup = fake_lookup,
                            .values = fake_values,
                            .connection_info = fake_connection_info,
                            .set_option = fake_set_option,
                            .from_buffer = fake_from_buffer,
                            .from_fd = fake_from_fd,
                            .from_callback = fake_from_callback,
                            .add_header = fake_add_header,
                            .queue = fake_queue,
                            .destroy = fake_destroy,
                            .suspend = fake_suspend,
                            .resume = fake_resume,
                            .unescape = fake_unescape };
    return 0;
}

/* ---- requests */

static void add_item(struct MHD_Connection *c, enum MHD_ValueKind kind, const char *name, const char *value) {
    if (c->n < EXCHANGE_ITEMS) c->items[c->n++] = (struct exchange_item){ kind, name, value };
}

static void unescape_part(struct MHD_Connection *c, char *text, bool plus) {
    for (char *p = text; plus && *p; p++)
        if (*p == '+') *p = ' ';
    exchange_daemon.unescape(exchange_daemon.unescape_context, c, text);
}

/* Cuts the arguments off the URL. */
static void add_arguments(struct MHD_Connection *c, char *url) {
    char *rest = strchr(url, '?');
    if (rest) *rest++ = '\0';
    unescape_part(c, url, false);
    for (char *name; rest && (name = strsep(&rest, "&"));) {
        char *value = strchr(name, '=');
        if (value) *value++ = '\0';
        unescape_part(c, name, true);
        if (value) unescape_part(c, value, true);
        if (*name || value) add_item(c, MHD_GET_ARGUMENT_KIND, name, value);
    }
}

static void add_headers(struct MHD_Connection *c, char *lines) {
    for (char *line; lines && (line = strsep(&lines, "\n"));) {
        char *value = strchr(line, ':');
        if (!value || value == line) continue;
        *value++ = '\0';
        value += strspn(value, " \t");
        value[strcspn(value, "\r")] = '\0';
        bool cookie = strcasecmp(line, "Cookie") == 0;
        char *equals = cookie ? strchr(value, '=') : NULL; /* only the first one */
        if (equals) *equals++ = '\0';
        add_item(c, cookie ? MHD_COOKIE_KIND : MHD_HEADER_KIND, cookie ? value : line,
                 cookie ? equals : value);
    }
}

/* A client whose body is shorter than its Content-Length leaves before the answer. */
static void http_exchange_run(struct http_exchange *x) {
    const struct MHD_Daemon *d = &exchange_daemon;
    struct MHD_Connection *c = &x->connection;
    void *state = NULL;
    size_t none = 0;
    c->x = x;
    add_arguments(c, x->url);
    add_headers(c, x->header_lines);
    const char *length = fake_lookup(c, MHD_HEADER_KIND, "Content-Length");
    size_t wanted = length ? strtoull(length, NULL, 10) : x->bytes;
    bool leaves = wanted > x->bytes;
    x->bytes = MIN(wanted, x->bytes);
    enum MHD_Result rc = d->handle(d->handle_context, c, x->url, x->method, "HTTP/1.1", NULL, &none, &state);
    for (size_t at = 0; rc == MHD_YES && !x->status && at < x->bytes;) {
        size_t n = MIN(x->piece ? x->piece : x->bytes, x->bytes - at), left = n;
        rc = d->handle(d->handle_context, c, x->url, x->method, "HTTP/1.1", x->data + at, &left, &state);
        if (left) abort(); /* the handler takes all */
        at += n;
    }
    if (rc == MHD_YES && !x->status && !leaves)
        rc = d->handle(d->handle_context, c, x->url, x->method, "HTTP/1.1", NULL, &none, &state);
    if (rc == MHD_YES && !x->status && !leaves) abort(); /* no answer */
    d->completed(d->completed_context, c, &state,
                 leaves ? MHD_REQUEST_TERMINATED_CLIENT_ABORT : MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

static void http_exchange_free(struct http_exchange *x) {
    strbuf_free(&x->headers);
    strbuf_free(&x->body);
}

#endif

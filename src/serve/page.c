/* The frame of every page, assets, sign-in and errors. */
#include "serve/pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/html.h"
#include "base/util.h"
#include "serve/server.h"

static const struct {
    const char *id, *path, *name;
    bool jobs;
} links[] = {
    { "runs", "/runs", "Runs", false },
    { "trends", "/trends", "Trends", false },
    { "findings", "/findings", "Findings", false },
    { "machines", "/machines", "Machines", false },
    { "jobs", "/jobs", "Jobs", true },
};

void page_url(struct strbuf *out, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (const char *p = text; *p; p++)
        if (strchr(plain, *p))
            strbuf_addch(out, *p);
        else
            strbuf_addf(out, "%%%02X", (unsigned char)*p);
}

void page_run_link(struct strbuf *out, const char *name) {
    strbuf_addstr(out, "/runs/");
    page_url(out, name);
}

static void add_navigation(struct request *q, const char *active) {
    const struct server *s = http_user(q);
    strbuf_addstr(&q->out,
                  "<header class=\"bar\"><div class=\"in\"><a class=\"brand\" href=\"/runs\">inferprof</a>\n"
                  "<nav aria-label=\"Pages\">");
    for (size_t i = 0; i < COUNTOF(links); i++) {
        if (links[i].jobs && !s->jobs) continue;
        bool current = active && strcmp(active, links[i].id) == 0;
        strbuf_addf(&q->out, "<a href=\"%s\"%s>%s</a>\n", links[i].path,
                    current ? " aria-current=\"page\"" : "", links[i].name);
    }
    strbuf_addstr(&q->out, "</nav></div></header>\n");
}

void page_open(struct request *q, const char *title, const char *active) {
    q->status = q->status ? q->status : 200;
    q->type = "text/html; charset=utf-8";
    strbuf_addstr(&q->out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                           "<link rel=\"icon\" href=\"data:,\">\n"
                           "<link rel=\"stylesheet\" href=\"/assets/report.css\">\n"
                           "<link rel=\"stylesheet\" href=\"/assets/serve.css\">\n<title>");
    html_escape(&q->out, title);
    strbuf_addstr(&q->out, " · inferprof</title>\n</head>\n<body>\n");
    add_navigation(q, active);
    strbuf_addstr(&q->out, "<main>\n");
}

void page_close(struct request *q) {
    const struct server *s = http_user(q);
    strbuf_addstr(&q->out, "</main>\n<footer>inferprof ");
    html_escape(&q->out, s->o.version);
    strbuf_addstr(&q->out,
                  " · <a href=\"/api/v1/openapi.json\">API</a> · keys: <kbd>/</kbd> search, <kbd>g</kbd> "
                  "then "
                  "<kbd>r</kbd>, <kbd>t</kbd>, <kbd>f</kbd> or <kbd>m</kbd>: pages</footer>\n"
                  "<script src=\"/assets/serve.js\"></script>\n</body>\n</html>\n");
}

void page_error(struct request *q, unsigned status, const char *title, const char *detail) {
    q->status = status;
    page_open(q, title, NULL);
    strbuf_addf(&q->out, "<section><h1>%s</h1>\n<p class=\"lede\">", title);
    html_escape(&q->out, detail);
    strbuf_addstr(&q->out, "</p>\n<p><a href=\"/runs\">All runs</a></p></section>\n");
    page_close(q);
}

void page_asset(struct request *q) {
    static const struct {
        const char *name, *type;
    } files[] = { { "report.css", "text/css; charset=utf-8" },
                  { "serve.css", "text/css; charset=utf-8" },
                  { "serve.js", "text/javascript; charset=utf-8" } };
    for (size_t i = 0; i < COUNTOF(files); i++) {
        char path[64];
        if (strcmp(files[i].name, q->arguments[0]) != 0) continue;
        snprintf(path, sizeof path, "web/%s", files[i].name);
        const struct embed_file *f = embed_find(path);
        if (!f) break;
        q->status = 200;
        q->type = files[i].type;
        strbuf_add(&q->out, f->data, embed_bytes(f));
        const struct server *s = http_user(q);
        snprintf(q->etag, sizeof q->etag, "W/\"%s-%zu\"", s->o.version, embed_bytes(f));
        return;
    }
    http_problem(q, 404, "no such file");
}

void page_home(struct request *q) { http_redirect(q, "/runs"); }

static void show_login(struct request *q, const char *message) {
    page_open(q, "Sign in", NULL);
    strbuf_addstr(&q->out,
                  "<section class=\"login\"><h1>Sign in</h1>\n<p class=\"lede\">This server needs an access "
                  "token. The person who runs it can create one with <code>inferprof serve token "
                  "add</code>.</p>\n");
    if (message) strbuf_addf(&q->out, "<p class=\"notice\">%s</p>\n", message);
    strbuf_addstr(
        &q->out,
        "<form method=\"post\" action=\"/login\"><label>Token <input type=\"password\" name=\"token\" "
        "autocomplete=\"current-password\" required></label> <button>Sign in</button></form>\n"
        "</section>\n");
    page_close(q);
    q->no_store = true;
}

void page_login(struct request *q) { show_login(q, NULL); }

/* Stores the token in a cookie that scripts cannot read. The form sends "token=ipt_...", which needs no
 * decoding. */
void page_login_post(struct request *q) {
    struct server *s = http_user(q);
    const char *token = strncmp(q->body.buf, "token=", 6) == 0 ? q->body.buf + 6 : "";
    bool shape =
        strspn(token, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(token) && strlen(token) < 100;
    pthread_mutex_lock(&s->lock);
    enum http_role role = shape ? tokens_role(&s->tokens, token) : HTTP_NOBODY;
    pthread_mutex_unlock(&s->lock);
    if (role == HTTP_NOBODY) {
        q->status = 403;
        show_login(q, "This token is not valid.");
        return;
    }
    char cookie[256];
    snprintf(cookie, sizeof cookie, "inferprof_token=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000",
             token);
    http_add_header(q, "Set-Cookie", cookie);
    http_redirect(q, "/runs");
}

/* HTML pages of the server. */
#ifndef SERVE_PAGES_H
#define SERVE_PAGES_H

#include "serve/http.h"

/* page.c */
void page_open(struct request *q, const char *title, const char *active);
void page_close(struct request *q);
void page_error(struct request *q, unsigned status, const char *title, const char *detail);
void page_asset(struct request *q); /* style sheets and scripts */
void page_login(struct request *q);
void page_login_post(struct request *q);
void page_home(struct request *q);
/* Appends "/runs/NAME", encoded for a URL. */
void page_run_link(struct strbuf *out, const char *name);
/* Encodes text for a URL. */
void page_url(struct strbuf *out, const char *text);

void page_runs(struct request *q);
void page_run(struct request *q);
void page_compare(struct request *q);
void page_trends(struct request *q);
/* Answers with the newest change of each series. */
struct history;
struct history_series_list;
void page_changes(struct request *q, struct history *h, const struct history_series_list *series);
void page_findings(struct request *q);
void page_machines(struct request *q);
void page_jobs(struct request *q);

#endif

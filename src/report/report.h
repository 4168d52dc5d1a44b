/* Writes the files of a run folder, and the terminal summary. Computes nothing. Unknown values are dashes, or
 * null in JSON.
 *     struct view v;
 *     view_init(&v, &info);                                  -- once per run
 *     if (report_write_all(dir, &v, &err) < 0) ...
 *     report_terminal(&v, &(struct report_screen){ .width = 100 }, &text);
 *     view_free(&v); */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/err.h"
#include "base/strbuf.h"
#include "report/view.h"

/* Writes the files of docs/report.md into an existing folder. Each file is written completely or not at
 * all. */
int report_write_all(const char *dir, const struct view *v, struct err *err);

int report_write_assumptions(const char *dir, const struct view *v, struct err *err); /* assumptions.md */

/* Screen of report_terminal(). */
struct report_screen {
    size_t width;                          /* columns, at least 40 */
    bool color;                            /* allows escape sequences */
    bool (*is_known)(const char *warning); /* already shown; NULL: none was */
};
/* Returns the number of first warnings of the run that need no further message: they are on the screen, or
 * the user has already seen them. */
size_t report_terminal(const struct view *v, const struct report_screen *screen, struct strbuf *out);
#define REPORT_TERMINAL_WARNINGS 4 /* warnings in the summary */

/* Single documents. */
void report_html(const struct view *v, struct strbuf *out);
void report_markdown(const struct view *v, struct strbuf *out);
void report_summary(const struct view *v, struct strbuf *out); /* stakeholder_summary.md */
void report_metrics_json(const struct view *v, struct strbuf *out);

#endif

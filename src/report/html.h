/* Sections of report.html, and parts that other pages use. A section about data that the run does not have
 * writes nothing. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "base/table.h"
#include "report/charts.h"
#include "report/columns.h"
#include "report/view.h"

void html_verdict(const struct view *v, struct strbuf *out);
void html_figures(const struct view *v, struct strbuf *out);
void html_stages(const struct view *v, struct strbuf *out);
/* Writes the chart in a wide and a narrow form; the style sheet shows one of them. */
void html_chart(const struct view *v,
                bool (*draw)(const struct view *, const struct chart_form *, struct strbuf *),
                struct strbuf *out);
/* Returns true if the view has the data of the chart. */
bool html_has_chart(const struct view *v,
                    bool (*draw)(const struct view *, const struct chart_form *, struct strbuf *));
void html_understood(const struct view *v, struct strbuf *out);
void html_idle(const struct view *v, struct strbuf *out);
void html_kernels(const struct view *v, struct strbuf *out);
void html_operators(const struct view *v, struct strbuf *out);
void html_gemms(const struct view *v, struct strbuf *out);
void html_provenance(const struct view *v, struct strbuf *out);

/* Opens a page up to the line of facts under its title; the caller adds <span> elements and closes it with
 * "</div></header>" and "<main>". */
void html_page_start(const char *title, struct strbuf *out);
void html_page_end(const char *version, struct strbuf *out); /* closes <main> and the page */
void html_section(struct strbuf *out, const char *id, const char *heading,
                  const char *lede); /* opens a section */
/* Names the source of a section, if the page also has times of timed repeats. */
void html_recorded(const struct view *v, struct strbuf *out);
void html_section_end(struct strbuf *out);
/* Writes a sortable table with at most `limit` rows; `what` names the rows. */
void html_columns(struct strbuf *out, const char *what, const struct column_group *groups, size_t ngroups,
                  const struct view *v, struct column_items items, size_t limit);
/* Writes a plain table of rows.h and frees it. */
void html_table(struct strbuf *out, struct table *t);
bool html_has_kernels(const struct view *v);
bool html_has_operators(const struct view *v);

#endif

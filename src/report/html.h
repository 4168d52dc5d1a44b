/* Sections of report.html, and parts for other pages. A section without data writes nothing. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include "base/table.h"
#include "report/charts.h"
#include "report/columns.h"
#include "report/view.h"

void html_verdict(const struct view *v, struct strbuf *out);
void html_figures(const struct view *v, struct strbuf *out);
void html_stages(const struct view *v, struct strbuf *out);
/* Writes a wide and a narrow form. The style sheet shows one of them. */
void html_chart(const struct view *v,
                bool (*draw)(const struct view *, const struct chart_form *, struct strbuf *),
                struct strbuf *out);
/* false: nothing to draw */
bool html_has_chart(const struct view *v,
                    bool (*draw)(const struct view *, const struct chart_form *, struct strbuf *));
void html_understood(const struct view *v, struct strbuf *out);
void html_idle(const struct view *v, struct strbuf *out);
void html_kernels(const struct view *v, struct strbuf *out);
void html_operators(const struct view *v, struct strbuf *out);
void html_gemms(const struct view *v, struct strbuf *out);
void html_provenance(const struct view *v, struct strbuf *out);

/* Opens a page and its line of facts. The caller adds <span> elements, then "</div></header>" and
 * "<main>". */
void html_page_start(const char *title, struct strbuf *out);
void html_page_end(const char *version, struct strbuf *out); /* closes <main> and the page */
void html_section(struct strbuf *out, const char *id, const char *heading,
                  const char *lede); /* opens a section */
/* If the page also has timed repeats: writes that this section is from the recorded run. */
void html_recorded(const struct view *v, struct strbuf *out);
void html_section_end(struct strbuf *out);
/* Writes a sortable table with at most `limit` rows. `what` names the rows. */
void html_columns(struct strbuf *out, const char *what, const struct column_group *groups, size_t ngroups,
                  const struct view *v, struct column_items items, size_t limit);
/* writes and frees the table */
void html_table(struct strbuf *out, struct table *t);
/* The same, with a coloured square before the text of the first column. `class_of` returns its CSS
 * class; NULL: no squares. */
void html_table_colored(struct strbuf *out, struct table *t,
                        struct chart_class (*class_of)(const char *cell));
struct glossary_term;
/* Writes the terms as a list that opens with a click. */
void html_legend(const struct glossary_term *terms, size_t n, struct strbuf *out);
bool html_has_kernels(const struct view *v);
bool html_has_operators(const struct view *v);

#endif

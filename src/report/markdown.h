/* Parts shared by report.md and stakeholder_summary.md. */
#ifndef REPORT_MARKDOWN_H
#define REPORT_MARKDOWN_H

#include "base/table.h"
#include "report/view.h"

void markdown_head(const struct view *v, struct strbuf *out); /* title, main result, facts */
void markdown_caveats(const struct view *v, struct strbuf *out);
void markdown_findings(const struct view *v, size_t limit, struct strbuf *out);
/* Writes "## Heading" and the table, and frees the table. A table without rows gets a row of dashes. */
void markdown_section_always(struct strbuf *out, const char *heading, struct table *t);
void markdown_stages(const struct view *v, const char *heading, struct strbuf *out);

/* Writes the memory bandwidths, and the reasons for ratios beyond their limits. */
void markdown_over(const struct view *v, struct strbuf *out);

#endif

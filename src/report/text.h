/* Numbers and foreign text for readers. A number that is not known prints as an en dash.
 *     strbuf_addf(out, "%s of %s", text_ms(busy).s, text_ms(wall).s);        -- lives to the end of the statement
 * Names, paths and answers come from outside: everything that goes into a document passes one of the
 * escapers, here or in base/html.h. */
#ifndef REPORT_TEXT_H
#define REPORT_TEXT_H

#include <stdint.h>

#include "base/strbuf.h"

struct text {
    char s[40];
};

struct text text_num(double v, int decimals); /* 1,234.50 */
struct text text_ms(double ms);        /* three significant places or more: 0.0123 ms, 12.3 ms, 1,234 ms */
struct text text_ms_number(double ms); /* the same without the unit, for columns */
struct text text_us_number(double ns); /* in microseconds */
struct text text_percent(double fraction); /* 72.4% */
struct text text_times(double ratio);      /* 3.4x */
struct text text_count(uint64_t n);        /* 1,234 */
struct text text_bytes(double bytes);
struct text text_flops(double flops);
struct text text_raw(double v);          /* shortest that reads back; empty when unknown: for CSV */
struct text text_date(uint64_t wall_ns); /* 2026-11-15 02:24 UTC; a dash for 0 */

const char *text_or_dash(const char *s); /* NULL and "" give a dash */

/* Markdown outside of tables: nothing of it is markup, and it stays on one line. */
void text_markdown(struct strbuf *out, const char *s);
/* A block of foreign text, fenced with more backticks than it holds. */
void text_markdown_block(struct strbuf *out, const char *language, const char *s);

#endif

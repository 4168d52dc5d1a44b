/* Formats numbers and escapes untrusted text (names, paths, generated text). Unknown numbers are an en
 * dash.
 *     strbuf_addf(out, "%s of %s", text_ms(busy).s, text_ms(wall).s); -- valid within the statement */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdint.h>

#include "base/strbuf.h"

struct text {
    char s[40];
};

struct text text_num(double v, int decimals); /* 1,234.50 */
struct text text_ms(double ms);               /* 0.0123 ms, 1,234 ms */
struct text text_ms_number(double ms);        /* without the unit */
struct text text_us_number(double ns);        /* in microseconds */
struct text text_percent(double fraction);    /* 72.4% */
struct text text_times(double ratio);         /* 3.4x */
struct text text_count(uint64_t n);           /* 1,234 */
struct text text_bytes(double bytes);
struct text text_flops(double flops);
struct text text_units(double n);   /* 12.3 M */
struct text text_seconds(double s); /* 1.23 ms */
/* For CSV: the fewest digits (6 to 17) that parse to the same number. Unknown: empty. */
struct text text_raw(double v);
struct text text_date(uint64_t wall_ns); /* 2026-11-15 02:24 UTC */

const char *text_or_dash(const char *s); /* dash for NULL and "" */

/* Escape according to base/escape.h. */
void text_markdown(struct strbuf *out, const char *s);
void text_markdown_block(struct strbuf *out, const char *language, const char *s);

#endif

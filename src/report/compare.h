/* Writes a comparison of two sides (run/compare.h) as text, JSON and in formats of other tools. */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include "base/strbuf.h"
#include "run/compare.h"

enum compare_form { COMPARE_TEXT, COMPARE_MARKDOWN };
/* width: columns of the terminal; 0: no limit. */
void compare_text(const struct comparison *c, enum compare_form form, size_t width, struct strbuf *out);
void compare_json(const struct comparison *c, struct strbuf *out);

/* Formats of other tools. `allowed` as in compare_regression(); NaN: any significant slowdown is a
 * failure. */
void compare_junit(const struct comparison *c, double allowed, struct strbuf *out);
void compare_github(const struct comparison *c, struct strbuf *out);
void compare_bencher(const struct comparison *c, struct strbuf *out);
void compare_mlflow(const struct comparison *c, const char *run_id, uint64_t timestamp_ms,
                    struct strbuf *out);

#endif

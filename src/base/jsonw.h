/* A JSON writer. It adds commas and quotes, and writes NaN and infinities as null. Invalid UTF-8 becomes
 * U+FFFD. A value without a key, or an end without a start, ends the program.
 *     struct strbuf s = STRBUF_INIT;
 *     struct jsonw j;
 *     jsonw_start(&j, &s, JSONW_PRETTY);
 *     jsonw_object(&j);
 *     jsonw_knum(&j, "busy_ms", busy_ms);
 *     jsonw_end(&j);
 *     jsonw_finish(&j);                                  -- ends the program if something is still open */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

enum jsonw_style { JSONW_COMPACT, JSONW_PRETTY };

struct jsonw {
    struct strbuf *out;
    enum jsonw_style style;
    int depth;     /* open objects and arrays */
    bool have_key; /* the value must follow */
    bool done;     /* the top-level value is complete */
    char kind[64]; /* '{' or '[' by depth */
    bool has_items[64];
};

void jsonw_start(struct jsonw *j, struct strbuf *out, enum jsonw_style style);
void jsonw_finish(struct jsonw *j); /* pretty: adds a newline */

void jsonw_object(struct jsonw *j);
void jsonw_array(struct jsonw *j);
void jsonw_end(struct jsonw *j); /* object or array */
void jsonw_key(struct jsonw *j, const char *key);
void jsonw_str(struct jsonw *j, const char *text); /* NULL writes null */
void jsonw_strn(struct jsonw *j, const char *text, size_t n);
/* Numbers above INT64_MAX are rounded and written as "1.8446744073709552e+19": readers, also jsonr.h, reject
 * larger integers. */
void jsonw_u64(struct jsonw *j, uint64_t v);
void jsonw_u64_exact(struct jsonw *j, uint64_t v);
void jsonw_i64(struct jsonw *j, int64_t v);
void jsonw_num(struct jsonw *j, double v); /* fewest digits (15 to 17) that parse to the same number */
void jsonw_bool(struct jsonw *j, bool v);
void jsonw_null(struct jsonw *j);

/* key and value */
void jsonw_kstr(struct jsonw *j, const char *key, const char *text);
void jsonw_ku64(struct jsonw *j, const char *key, uint64_t v);
void jsonw_knum(struct jsonw *j, const char *key, double v);
void jsonw_kbool(struct jsonw *j, const char *key, bool v);
void jsonw_ku64_known(struct jsonw *j, const char *key, uint64_t v); /* writes null for 0 (unknown) */
void jsonw_kbool_known(struct jsonw *j, const char *key, int v);     /* v < 0: null */
void jsonw_kobject(struct jsonw *j, const char *key);
void jsonw_karray(struct jsonw *j, const char *key);

/* Appends a quoted string, for JSON written without struct jsonw. */
void jsonw_quote(struct strbuf *out, const char *text, size_t n);

#endif

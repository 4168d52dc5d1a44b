/* JSON writer that cannot produce invalid JSON. It adds commas and quotes and tracks nesting; NaN and
 * infinities become null; bytes that are not UTF-8 become U+FFFD. A value without a key, or an end without a
 * start, is a bug in our code and exits with a message.
 *     struct strbuf s = STRBUF_INIT;
 *     struct jsonw j;
 *     jsonw_start(&j, &s, JSONW_PRETTY);
 *     jsonw_object(&j);
 *     jsonw_knum(&j, "busy_ms", busy_ms);
 *     jsonw_end(&j);
 *     jsonw_finish(&j);                                                   -- exits if anything is still open
 * jsonr.h reads JSON. */
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
    bool have_key; /* a key was written, but not yet its value */
    bool done;     /* the top-level value is complete */
    char kind[64]; /* '{' or '[' by depth */
    bool has_items[64];
};

void jsonw_start(struct jsonw *j, struct strbuf *out, enum jsonw_style style);
void jsonw_finish(struct jsonw *j); /* adds a newline in pretty mode */

void jsonw_object(struct jsonw *j);
void jsonw_array(struct jsonw *j);
void jsonw_end(struct jsonw *j); /* ends the innermost object or array */
void jsonw_key(struct jsonw *j, const char *key);
void jsonw_str(struct jsonw *j, const char *text); /* NULL writes null */
void jsonw_strn(struct jsonw *j, const char *text, size_t n);
void jsonw_u64(struct jsonw *j, uint64_t v);
void jsonw_i64(struct jsonw *j, int64_t v);
void jsonw_num(struct jsonw *j, double v); /* as few of 15 to 17 digits as parse to the same number */
void jsonw_bool(struct jsonw *j, bool v);
void jsonw_null(struct jsonw *j);

/* These write key and value in one call. */
void jsonw_kstr(struct jsonw *j, const char *key, const char *text);
void jsonw_ku64(struct jsonw *j, const char *key, uint64_t v);
void jsonw_knum(struct jsonw *j, const char *key, double v);
void jsonw_kbool(struct jsonw *j, const char *key, bool v);
void jsonw_ku64_known(struct jsonw *j, const char *key, uint64_t v); /* writes null for 0 (unknown) */
void jsonw_kbool_known(struct jsonw *j, const char *key, int v);     /* writes null for v < 0 (unknown) */
void jsonw_kobject(struct jsonw *j, const char *key);
void jsonw_karray(struct jsonw *j, const char *key);

/* Appends one quoted JSON string, for JSON assembled by hand. */
void jsonw_quote(struct strbuf *out, const char *text, size_t n);

#endif

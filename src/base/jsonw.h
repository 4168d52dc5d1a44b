/* JSON out: a writer that cannot produce invalid JSON. Commas, quotes and nesting are its own business;
 * NaN and infinities become null; bytes that are not UTF-8 become U+FFFD. A value without its key, or an
 * end without its start, is a bug in our code and dies.
 *     struct strbuf s = STRBUF_INIT;
 *     struct jsonw j;
 *     jsonw_start(&j, &s, JSONW_PRETTY);
 *     jsonw_object(&j);
 *     jsonw_key(&j, "busy_ms"), jsonw_num(&j, busy_ms);
 *     jsonw_end(&j);
 *     jsonw_finish(&j);                                                   -- dies if anything is still open
 * Reading is jsonr.h. */
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
    bool have_key; /* a key waits for its value */
    bool done;     /* the one top-level value is complete */
    char kind[64]; /* '{' or '[' by depth */
    bool has_items[64];
};

void jsonw_start(struct jsonw *j, struct strbuf *out, enum jsonw_style style);
void jsonw_finish(struct jsonw *j); /* adds a newline when pretty */

void jsonw_object(struct jsonw *j);
void jsonw_array(struct jsonw *j);
void jsonw_end(struct jsonw *j); /* ends the innermost object or array */
void jsonw_key(struct jsonw *j, const char *key);
void jsonw_str(struct jsonw *j, const char *text); /* NULL writes null */
void jsonw_strn(struct jsonw *j, const char *text, size_t n);
void jsonw_u64(struct jsonw *j, uint64_t v);
void jsonw_i64(struct jsonw *j, int64_t v);
void jsonw_num(struct jsonw *j, double v); /* shortest text that reads back as v */
void jsonw_bool(struct jsonw *j, bool v);
void jsonw_null(struct jsonw *j);

/* "key": value in one go. */
void jsonw_kstr(struct jsonw *j, const char *key, const char *text);
void jsonw_ku64(struct jsonw *j, const char *key, uint64_t v);
void jsonw_knum(struct jsonw *j, const char *key, double v);
void jsonw_kbool(struct jsonw *j, const char *key, bool v);
void jsonw_ku64_known(struct jsonw *j, const char *key, uint64_t v); /* 0 is unknown: null */
void jsonw_kbool_known(struct jsonw *j, const char *key, int v);     /* under 0 is unknown: null */
void jsonw_kobject(struct jsonw *j, const char *key);
void jsonw_karray(struct jsonw *j, const char *key);

/* A quoted JSON string on its own, for text that is assembled by hand. */
void jsonw_quote(struct strbuf *out, const char *text, size_t n);

#endif

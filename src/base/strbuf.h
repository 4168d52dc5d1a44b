/* String builder. `buf` is always NUL-terminated; `len` does not count the NUL. strbuf_add() accepts NULs.
 *     struct strbuf s = STRBUF_INIT;
 *     strbuf_addf(&s, "%d kernels", n);
 *     strbuf_free(&s);                        -- or strbuf_detach(&s) to keep the text (caller frees) */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include <stdarg.h>
#include <stddef.h>

struct strbuf {
    char *buf;
    size_t len, cap;
};

extern char strbuf_empty[];
#define STRBUF_INIT \
    { .buf = strbuf_empty }

void strbuf_free(struct strbuf *s); /* afterwards empty and reusable */
void strbuf_reset(struct strbuf *s);
char *strbuf_detach(struct strbuf *s);
void strbuf_add(struct strbuf *s, const void *data, size_t n);
void strbuf_addstr(struct strbuf *s, const char *text);
void strbuf_addch(struct strbuf *s, char c);
void strbuf_addchars(struct strbuf *s, char c, size_t times);
void strbuf_addf(struct strbuf *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vaddf(struct strbuf *s, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Replaces every occurrence of `from` (not empty). Returns the count. */
size_t strbuf_replace(struct strbuf *s, const char *from, size_t nfrom, const char *to, size_t nto);
/* Adds untrusted text for one terminal line: unsafe characters (utf8_is_unsafe) and invalid UTF-8 become
 * U+FFFD. */
void strbuf_add_printable(struct strbuf *s, const char *text, size_t n);
/* Quotes the word if a shell would split or expand it. */
void strbuf_add_shell_word(struct strbuf *s, const char *word);
void strbuf_add_shell_words(struct strbuf *s, char *const *words, size_t n); /* separated by spaces */

#endif

/* String builder. `buf` is always NUL-terminated, also when empty; `len` does not count the NUL.
 *     struct strbuf s = STRBUF_INIT;
 *     strbuf_addf(&s, "%d kernels", n);
 *     strbuf_free(&s);                        -- or strbuf_detach(&s) to keep the text (caller frees)
 * Embedded NULs are fine with strbuf_add(). */
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

void strbuf_free(struct strbuf *s); /* and ready for reuse */
void strbuf_reset(struct strbuf *s);
char *strbuf_detach(struct strbuf *s);
void strbuf_add(struct strbuf *s, const void *data, size_t n);
void strbuf_addstr(struct strbuf *s, const char *text);
void strbuf_addch(struct strbuf *s, char c);
void strbuf_addchars(struct strbuf *s, char c, size_t times);
void strbuf_addf(struct strbuf *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vaddf(struct strbuf *s, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Every occurrence of `from` (not empty), left to right, by `to`; returns how many there were. */
size_t strbuf_replace(struct strbuf *s, const char *from, size_t nfrom, const char *to, size_t nto);
/* Text from outside, made fit for one line of a terminal: control characters and bytes that are not
 * UTF-8 become U+FFFD. */
void strbuf_add_printable(struct strbuf *s, const char *text, size_t n);
/* One word of a command line, quoted where a shell would take it for more or for something else. */
void strbuf_add_shell_word(struct strbuf *s, const char *word);
void strbuf_add_shell_words(struct strbuf *s, char *const *words,
                            size_t n); /* a space before each but the first */

#endif

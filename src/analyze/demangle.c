#include "analyze/demangle.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"

/* longer results are rejected: a mangled name of a few bytes can expand to gigabytes */
#define DEMANGLED_MAX 32768
#define MANGLED_MAX 16384

/* libstdc++'s demangler in the variant that passes its output to a callback piece by piece. It does not
 * allocate. */
int __gcclibcxx_demangle_callback(const char *mangled, void (*piece)(const char *, size_t, void *),
                                  void *opaque);

struct demangling {
    struct strbuf out;
    jmp_buf too_long;
};

static void take_piece(const char *text, size_t n, void *opaque) {
    struct demangling *d = opaque;
    if (d->out.len + n > DEMANGLED_MAX) longjmp(d->too_long, 1);
    strbuf_add(&d->out, text, n);
}

/* A separate function, so that no local variable changes between setjmp and longjmp. */
static bool run_demangler(struct demangling *d, const char *name) {
    if (setjmp(d->too_long)) return false;
    return __gcclibcxx_demangle_callback(name, take_piece, d) == 0 && d->out.len;
}

char *demangle(const char *name) {
    if (strncmp(name, "_Z", 2) != 0 || strlen(name) > MANGLED_MAX) return NULL;
    struct demangling *d = xcalloc(1, sizeof *d);
    d->out = (struct strbuf)STRBUF_INIT;
    char *text = run_demangler(d, name) ? strbuf_detach(&d->out) : NULL;
    strbuf_free(&d->out);
    free(d);
    return text;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Parses a length followed by an identifier of that length, as in "6kentry". Returns the length, or 0 if
 * there is no such identifier at p. */
static size_t mangled_word(const char *p, const char **word) {
    char *end;
    if (!isdigit((unsigned char)*p)) return 0;
    unsigned long n = strtoul(p, &end, 10);
    if (!n || n > strlen(end)) return 0;
    for (size_t i = 0; i < n; i++)
        if (!is_word(end[i])) return 0;
    *word = end;
    return n;
}

/* Parses a code whose digits are not a length: a back reference ("S1_", "T0_") or a type with a size
 * ("DF16b", "DF16_", "Dv4_"). Returns the number of characters to skip, or 0 if there is no such code. */
static size_t mangled_code(const char *p) {
    if (*p == 'S' || *p == 'T') {
        size_t n = 1 + strspn(p + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        return p[n] == '_' ? n + 1 : 0;
    }
    if (*p != 'D' || !p[1] || !strchr("FBUv", p[1])) return 0;
    size_t digits = strspn(p + 2, "0123456789");
    char end = p[2 + digits];
    return digits && end && strchr("_bx", end) ? digits + 3 : 0;
}

/* Parses the value of a template argument, whose digits are not a length: "Li128E" or "LS1_2E" at p, or "E1E"
 * after the name of an enumeration. Returns the number of characters to skip, or 0 if there is no value at
 * p. */
static size_t mangled_value(const char *p, bool after_enumeration) {
    size_t n = 0;
    if (p[0] == 'L' && islower((unsigned char)p[1])) n = 2;
    if (p[0] == 'L' && p[1] == 'S' && mangled_code(p + 1)) n = 1 + mangled_code(p + 1);
    if (p[0] == 'E' && after_enumeration) n = 1;
    if (!n) return 0;
    if (p[n] == 'n') n++;
    size_t digits = strspn(p + n, "0123456789");
    return digits && p[n + digits] == 'E' ? n + digits + 1 : 0;
}

char *demangle_roughly(const char *mangled) {
    struct strbuf s = STRBUF_INIT;
    const char *p = mangled + 2 + (mangled[2] == 'N'), *word;
    bool in_arguments = false, after_word = false;
    while (*p) {
        size_t value = in_arguments ? mangled_value(p, after_word) : 0,
               skip = value ? value : mangled_code(p), n = skip ? 0 : mangled_word(p, &word);
        if (!n && *p == 'I' && !in_arguments && s.len) {
            in_arguments = true;
            strbuf_addch(&s, '<');
        }
        after_word = n;
        if (!n) {
            p += skip ? skip : 1;
            continue;
        }
        p = word + n;
        if (n > 9 && strncmp(word, "_GLOBAL__N", 10) == 0) continue;
        if (s.len && s.buf[s.len - 1] != '<') strbuf_addstr(&s, in_arguments ? ", " : "::");
        strbuf_add(&s, word, n);
    }
    if (in_arguments) strbuf_addch(&s, '>');
    if (s.len) return strbuf_detach(&s);
    return xstrdup(mangled);
}

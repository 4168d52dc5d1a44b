#include "engine/tokenizer/unicode.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "base/vec.h"

/* Hangul syllables are arithmetic: (lead * 21 + vowel) * 28 + tail. */
#define HANGUL_FIRST 0xac00u
#define HANGUL_COUNT 11172u
#define LEAD_FIRST 0x1100u
#define LEADS 19u
#define VOWEL_FIRST 0x1161u
#define VOWELS 21u
#define TAIL_FIRST 0x11a7u /* tail 0 means none */
#define TAILS 28u
#define FIRST_COMBINING 0x300u /* NFC leaves text below this as it is */

struct text32 {
    struct marked {
        uint32_t c;
        uint8_t class;
    } * v;
    size_t n, cap;
};

bool unicode_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

const char *unicode_skip_spaces(const char *p, const char *end) {
    while (p < end) {
        const char *next = p;
        if (!unicode_is_space(utf8_next(&next, end))) break;
        p = next;
    }
    return p;
}

const char *unicode_skip_spaces_back(const char *begin, const char *p) {
    while (p > begin) {
        const char *before = p - 1;
        while (before > begin && ((unsigned char)*before & 0xc0) == 0x80) before--;
        const char *at = before;
        if (!unicode_is_space(utf8_next(&at, p))) break;
        p = before;
    }
    return p;
}

static uint8_t class_of(uint32_t c) {
    size_t lo = 0, hi = unicode_nclasses;
    if (c < FIRST_COMBINING) return 0;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (unicode_classes[mid].last < c) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < unicode_nclasses && unicode_classes[lo].first <= c ? unicode_classes[lo].class : 0;
}

static const struct unicode_pair *pair_of(uint32_t c) {
    size_t lo = 0, hi = unicode_npairs;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (unicode_pairs[mid].c < c) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < unicode_npairs && unicode_pairs[lo].c == c ? &unicode_pairs[lo] : NULL;
}

static void decompose(uint32_t c, struct text32 *out) {
    const struct unicode_pair *p;
    if (c >= HANGUL_FIRST && c < HANGUL_FIRST + HANGUL_COUNT) {
        uint32_t s = c - HANGUL_FIRST, tail = s % TAILS;
        vec_push(out, ((struct marked){ LEAD_FIRST + s / (VOWELS * TAILS), 0 }));
        vec_push(out, ((struct marked){ VOWEL_FIRST + s / TAILS % VOWELS, 0 }));
        if (tail) vec_push(out, ((struct marked){ TAIL_FIRST + tail, 0 }));
    } else if (c >= 0xc0 && (p = pair_of(c))) {
        decompose(p->a, out);
        if (p->b) decompose(p->b, out);
    } else {
        vec_push(out, ((struct marked){ c, class_of(c) }));
    }
}

/* Runs of combining characters in order of their class; equal ones keep theirs. */
static void order_marks(struct text32 *t) {
    for (size_t i = 1; i < t->n; i++) {
        struct marked m = t->v[i];
        size_t at = i;
        for (; m.class && at > 0 && t->v[at - 1].class > m.class; at--) t->v[at] = t->v[at - 1];
        t->v[at] = m;
    }
}

static int compare_with_composed(const void *key, const void *number) {
    const struct unicode_pair *want = key, *p = &unicode_pairs[*(const uint16_t *)number];
    if (want->a != p->a) return want->a < p->a ? -1 : 1;
    return want->b < p->b ? -1 : want->b > p->b;
}

static uint32_t compose_pair(uint32_t a, uint32_t b) { /* 0: they do not */
    if (a >= LEAD_FIRST && a < LEAD_FIRST + LEADS && b >= VOWEL_FIRST && b < VOWEL_FIRST + VOWELS)
        return HANGUL_FIRST + ((a - LEAD_FIRST) * VOWELS + (b - VOWEL_FIRST)) * TAILS;
    if (a >= HANGUL_FIRST && a < HANGUL_FIRST + HANGUL_COUNT && (a - HANGUL_FIRST) % TAILS == 0 &&
        b > TAIL_FIRST && b < TAIL_FIRST + TAILS)
        return a + (b - TAIL_FIRST);
    struct unicode_pair key = { .a = a, .b = b };
    const uint16_t *at =
        bsearch(&key, unicode_composed, unicode_ncomposed, sizeof *unicode_composed, compare_with_composed);
    return at ? unicode_pairs[*at].c : 0;
}

/* A mark joins the last starter unless one of its own class, or a starter, stands between. */
static void compose(struct text32 *t) {
    size_t n = 0, starter = SIZE_MAX;
    uint8_t last_class = 0;
    for (size_t i = 0; i < t->n; i++) {
        struct marked m = t->v[i];
        bool blocked = starter == SIZE_MAX || (n > starter + 1 && (last_class == 0 || last_class >= m.class));
        uint32_t c = blocked ? 0 : compose_pair(t->v[starter].c, m.c);
        if (c) {
            t->v[starter].c = c;
            continue;
        }
        if (m.class == 0) starter = n;
        last_class = m.class;
        t->v[n++] = m;
    }
    t->n = n;
}

static void normalise(const char *text, size_t n, bool recompose, struct strbuf *out) {
    struct text32 t = { 0 };
    char bytes[4];
    for (const char *p = text, *end = text + n; p < end;) decompose(utf8_next(&p, end), &t);
    order_marks(&t);
    if (recompose) compose(&t);
    for (size_t i = 0; i < t.n; i++) strbuf_add(out, bytes, utf8_put(t.v[i].c, bytes));
    free(t.v);
}

void unicode_nfc(const char *text, size_t n, struct strbuf *out) {
    for (const char *p = text, *end = text + n; p < end;) {
        if (utf8_next(&p, end) < FIRST_COMBINING) continue;
        normalise(text, n, true, out);
        return;
    }
    strbuf_add(out, text, n);
}

void unicode_nfd(const char *text, size_t n, struct strbuf *out) { normalise(text, n, false, out); }

#include "collect/glob.h"

#include <stddef.h>

/* Matches one byte with the bracket expression that starts after '['. *end is the position after the closing
 * bracket, or NULL if there is none; '[' then matches itself. */
static bool match_bracket(const char *p, unsigned char c, const char **end) {
    bool not = *p == '!' || *p == '^', found = false;
    *end = NULL;
    if (not ) p++;
    for (const char *first = p; *p && (*p != ']' || p == first); p++) {
        if (*p == '\\' && p[1]) p++;
        unsigned char from = (unsigned char)*p, to = from;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            p += p[2] == '\\' && p[3] ? 3 : 2;
            to = (unsigned char)*p;
        }
        found |= from <= c && c <= to;
    }
    if (*p != ']') return false;
    *end = p + 1;
    return found != not ;
}

/* Matches one byte with one pattern element other than '*', and moves *p past the element. */
static bool match_one(const char **p, unsigned char c) {
    const char *end;
    switch (**p) {
    case '?': ++*p; return true;
    case '[': {
        bool yes = match_bracket(*p + 1, c, &end);
        if (end) {
            *p = end;
            return yes;
        }
        break;
    }
    case '\\':
        if ((*p)[1]) ++*p;
        break;
    default: break;
    }
    return (unsigned char)*(*p)++ == c;
}

/* Backtracks only to the last '*': an earlier '*' never needs to match more once a later one is reached. */
bool glob_match(const char *pattern, const char *text) {
    const char *star = NULL, *star_text = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = ++pattern;
            star_text = text;
            continue;
        }
        if (*pattern && match_one(&pattern, (unsigned char)*text)) {
            text++;
            continue;
        }
        if (!star) return false;
        pattern = star;
        text = ++star_text;
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

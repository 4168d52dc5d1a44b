#include "base/opt.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include "base/wrap.h"

#define HELP_COLUMN 28
#define CHOICES_INDENT 8 /* of further lines of choices */

bool opt_is_choice(const char *choices, const char *value) {
    size_t n = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strncmp(p, value, n) == 0 && (p[n] == '|' || p[n] == '\0')) return true;
    return false;
}

/* `range`: "1..64", "0.." or ">0"; NULL: any value. */
static bool in_range(const char *range, double v) {
    char *end;
    if (!range) return true;
    if (*range == '>') return v > (double)strtoull(range + 1, NULL, 10);
    return v >= (double)strtoull(range, &end, 10) && (!end[2] || v <= (double)strtoull(end + 2, NULL, 10));
}

/* "--batch: 0 is out of range; expected 1 to 64" */
static int range_error(const struct opt *o, const char *value, const char *what, struct err *err) {
    const char *range = o->choices ? o->choices : "0..", *dots = strstr(range, "..");
    if (!dots) return err_set(err, "--%s: %s %s; expected more than %s", o->name, value, what, range + 1);
    if (!dots[2])
        return err_set(err, "--%s: %s %s; expected %.*s or more", o->name, value, what, (int)(dots - range),
                       range);
    return err_set(err, "--%s: %s %s; expected %.*s to %s", o->name, value, what, (int)(dots - range), range,
                   dots + 2);
}

static int store_uint(const struct opt *o, uint64_t *field, const char *value, struct err *err) {
    char *end;
    const char *digits = value + (*value == '-');
    errno = 0;
    unsigned long long v = strtoull(digits, &end, 10);
    if (*digits < '0' || *digits > '9' || *end)
        return err_set(err, "--%s: '%s' is not a whole number", o->name, value);
    if (*value == '-') return range_error(o, value, "is negative", err);
    const char *dots = o->choices ? strstr(o->choices, "..") : NULL;
    if (errno && !(dots && dots[2])) /* no upper bound in the range */
        return err_set(err, "--%s: %s is too large; at most %llu", o->name, value, ULLONG_MAX);
    if (errno || !in_range(o->choices, (double)v)) return range_error(o, value, "is out of range", err);
    *field = v;
    return 0;
}

static int store_double(const struct opt *o, double *field, const char *value, struct err *err) {
    char *end;
    double v = strtod(value, &end);
    if (!*value || *end || isnan(v)) return err_set(err, "--%s: '%s' is not a number", o->name, value);
    if (isinf(v)) return err_set(err, "--%s: %s is too large", o->name, value);
    if (!in_range(o->choices, v)) return range_error(o, value, "is out of range", err);
    *field = v;
    return 0;
}

static int store_value(const struct opt *o, void *field, const char *value, struct err *err) {
    switch (o->type) {
    case OPT_FLAG: *(bool *)field = true; return 0;
    case OPT_STR: *(const char **)field = value; return 0;
    case OPT_LIST: vec_push((struct opt_list *)field, value); return 0;
    case OPT_CHOICE:
        if (!opt_is_choice(o->choices, value))
            return err_set(err, "--%s: '%s' is not one of %s", o->name, value, o->choices);
        *(const char **)field = value;
        return 0;
    case OPT_BYTES: return units_parse_bytes(value, field, err) < 0 ? err_wrap(err, "--%s", o->name) : 0;
    case OPT_UINT: return store_uint(o, field, value, err);
    case OPT_DOUBLE: return store_double(o, field, value, err);
    }
    return err_set(err, "--%s: unknown option type", o->name);
}

static const struct opt *find_long(const struct opt_set *sets, size_t nsets, const char *name, size_t len,
                                   void **into) {
    for (size_t s = 0; s < nsets; s++)
        for (size_t i = 0; i < sets[s].n; i++)
            if (strncmp(sets[s].rows[i].name, name, len) == 0 && sets[s].rows[i].name[len] == '\0') {
                *into = sets[s].into;
                return &sets[s].rows[i];
            }
    return NULL;
}

static const struct opt *find_letter(const struct opt_set *sets, size_t nsets, char letter, void **into) {
    for (size_t s = 0; s < nsets; s++)
        for (size_t i = 0; i < sets[s].n; i++)
            if (sets[s].rows[i].letter == letter) {
                *into = sets[s].into;
                return &sets[s].rows[i];
            }
    return NULL;
}

static int unknown_long(const struct opt_set *sets, size_t nsets, const char *name, size_t len,
                        struct err *err) {
    char word[64];
    struct suggest near;
    snprintf(word, sizeof word, "%.*s", (int)MIN(len, sizeof word - 1), name);
    suggest_start(&near, word);
    for (size_t s = 0; s < nsets; s++)
        for (size_t i = 0; i < sets[s].n; i++) suggest_try(&near, sets[s].rows[i].name);
    if (near.best) return err_set(err, "unknown option --%s; did you mean --%s?", word, near.best);
    return err_set(err, "unknown option --%s; see --help", word);
}

static void *field_of(const struct opt *o, void *into) { return (char *)into + o->offset; }

/* Parses --name, --name=value, --name value and --no-name at argv[*i]. Moves *i to a separate value. */
static int parse_long(const struct opt_set *sets, size_t nsets, int argc, char **argv, int *i,
                      struct err *err) {
    const char *name = argv[*i] + 2, *eq = strchr(name, '=');
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    void *into;
    const struct opt *o = find_long(sets, nsets, name, len, &into);
    if (!o && len > 3 && strncmp(name, "no-", 3) == 0 &&
        (o = find_long(sets, nsets, name + 3, len - 3, &into)) && o->type == OPT_FLAG && !eq) {
        *(bool *)field_of(o, into) = false;
        return 0;
    }
    if (!o) return unknown_long(sets, nsets, name, len, err);
    if (o->type == OPT_FLAG && eq) return err_set(err, "--%s takes no value", o->name);
    const char *value = eq ? eq + 1 : NULL;
    if (!value && o->type != OPT_FLAG) {
        if (*i + 1 >= argc) return err_set(err, "--%s needs a value: %s", o->name, o->arg);
        value = argv[++*i];
    }
    return store_value(o, field_of(o, into), value, err);
}

/* Parses -v, -vq, -n5 and -n 5. */
static int parse_letters(const struct opt_set *sets, size_t nsets, int argc, char **argv, int *i,
                         struct err *err) {
    for (const char *p = argv[*i] + 1; *p; p++) {
        void *into;
        const struct opt *o = find_letter(sets, nsets, *p, &into);
        if (!o) return err_set(err, "unknown option -%c; see --help", *p);
        if (o->type == OPT_FLAG) {
            *(bool *)field_of(o, into) = true;
            continue;
        }
        if (!p[1] && *i + 1 >= argc) return err_set(err, "-%c needs a value: %s", *p, o->arg);
        return store_value(o, field_of(o, into), p[1] ? p + 1 : argv[++*i], err);
    }
    return 0;
}

int opt_parse(const struct opt_set *sets, size_t nsets, bool program_follows, int argc, char **argv,
              struct opt_list *operands, struct err *err) {
    for (int i = 0; i < argc; i++) {
        int rc = 0;
        bool marker = strcmp(argv[i], "--") == 0;
        if (marker || (program_follows && (argv[i][0] != '-' || !argv[i][1]))) {
            for (i += marker && !operands->keep_marker; i < argc; i++) vec_push(operands, argv[i]);
            break;
        }
        if (strncmp(argv[i], "--", 2) == 0)
            rc = parse_long(sets, nsets, argc, argv, &i, err);
        else if (argv[i][0] == '-' && argv[i][1])
            rc = parse_letters(sets, nsets, argc, argv, &i, err);
        else
            vec_push(operands, argv[i]);
        if (rc < 0) return -1;
    }
    return 0;
}

/* Start of the last line that was written after `from`. */
static size_t last_line(const struct strbuf *s, size_t from) {
    size_t at = s->len;
    while (at > from && s->buf[at - 1] != '\n') at--;
    return at;
}

/* Adds " a|b|c". Breaks the line after a "|" if it would be longer than `width`. */
static void add_choices(const char *choices, size_t at, size_t width, struct strbuf *out) {
    strbuf_addch(out, ' ');
    at++;
    for (size_t n; *choices; choices += n) {
        n = strcspn(choices, "|");
        n += choices[n] == '|';
        if (width && at + n > width) {
            strbuf_addch(out, '\n');
            strbuf_addchars(out, ' ', CHOICES_INDENT);
            at = CHOICES_INDENT;
        }
        strbuf_add(out, choices, n);
        at += n;
    }
}

void opt_help(const struct opt *rows, size_t n, size_t width, struct strbuf *out) {
    for (size_t i = 0; i < n; i++) {
        size_t from = out->len;
        if (rows[i].letter)
            strbuf_addf(out, "  -%c, --%s", rows[i].letter, rows[i].name);
        else
            strbuf_addf(out, "      --%s", rows[i].name);
        if (rows[i].type == OPT_CHOICE)
            add_choices(rows[i].choices, out->len - from, width, out);
        else if (rows[i].arg)
            strbuf_addf(out, " %s", rows[i].arg);
        size_t used = out->len - last_line(out, from);
        if (used + 2 > HELP_COLUMN) {
            strbuf_addch(out, '\n');
            used = 0;
        }
        strbuf_addchars(out, ' ', HELP_COLUMN - used);
        wrap_text(out, rows[i].help, HELP_COLUMN, width, HELP_COLUMN);
    }
}

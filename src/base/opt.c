#include "base/opt.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"

#define HELP_COLUMN 28

bool opt_is_choice(const char *choices, const char *value) {
    size_t n = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strncmp(p, value, n) == 0 && (p[n] == '|' || p[n] == '\0')) return true;
    return false;
}

static int store(const struct opt *o, void *field, const char *value, struct err *err) {
    char *end;
    errno = 0;
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
    case OPT_UINT: {
        unsigned long long v = strtoull(value, &end, 10);
        if (*value < '0' || *value > '9' || *end || errno)
            return err_set(err, "--%s: '%s' is not a whole number", o->name, value);
        *(uint64_t *)field = v;
        return 0;
    }
    case OPT_DOUBLE: {
        double v = strtod(value, &end);
        if (!*value || *end || !isfinite(v))
            return err_set(err, "--%s: '%s' is not a number", o->name, value);
        *(double *)field = v;
        return 0;
    }
    }
    return err_set(err, "--%s: unknown kind of option", o->name);
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
    return err_set(err, "unknown option --%s", word);
}

static void *field_of(const struct opt *o, void *into) { return (char *)into + o->offset; }

/* --name, --name=value, --name value, --no-name. *i is the index in argv, stepped over a separate value. */
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
    return store(o, field_of(o, into), value, err);
}

/* -v, -vq, -n5, -n 5. */
static int parse_letters(const struct opt_set *sets, size_t nsets, int argc, char **argv, int *i,
                         struct err *err) {
    for (const char *p = argv[*i] + 1; *p; p++) {
        void *into;
        const struct opt *o = find_letter(sets, nsets, *p, &into);
        if (!o) return err_set(err, "unknown option -%c", *p);
        if (o->type == OPT_FLAG) {
            *(bool *)field_of(o, into) = true;
            continue;
        }
        if (!p[1] && *i + 1 >= argc) return err_set(err, "-%c needs a value: %s", *p, o->arg);
        return store(o, field_of(o, into), p[1] ? p + 1 : argv[++*i], err);
    }
    return 0;
}

int opt_parse(const struct opt_set *sets, size_t nsets, int argc, char **argv, struct opt_list *operands,
              struct err *err) {
    for (int i = 0; i < argc; i++) {
        int rc = 0;
        if (strcmp(argv[i], "--") == 0) {
            for (i++; i < argc; i++) vec_push(operands, argv[i]);
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

void opt_help(const struct opt *rows, size_t n, struct strbuf *out) {
    for (size_t i = 0; i < n; i++) {
        size_t from = out->len;
        if (rows[i].letter)
            strbuf_addf(out, "  -%c, --%s", rows[i].letter, rows[i].name);
        else
            strbuf_addf(out, "      --%s", rows[i].name);
        if (rows[i].type == OPT_CHOICE)
            strbuf_addf(out, " %s", rows[i].choices);
        else if (rows[i].arg)
            strbuf_addf(out, " %s", rows[i].arg);
        size_t used = out->len - from;
        if (used + 2 > HELP_COLUMN) strbuf_addch(out, '\n'), used = 0;
        strbuf_addchars(out, ' ', HELP_COLUMN - used);
        strbuf_addf(out, "%s\n", rows[i].help);
    }
}

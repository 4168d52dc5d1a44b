/* Command-line options as table rows bound to struct fields. The parser, --help and shell completion use the
 * same rows.
 *     struct dump_opts { const char *kind; uint64_t limit; bool json; };
 *     static const struct opt rows[] = {
 *         { 'n', "limit", OPT_UINT, offsetof(struct dump_opts, limit), "N", "print at most N", NULL },
 *     };
 * Strings are borrowed from argv. Defaults are the values in the struct before parsing. */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

enum opt_type {
    OPT_FLAG,   /* bool; takes no value; --no-NAME clears it */
    OPT_STR,    /* const char * */
    OPT_UINT,   /* uint64_t, decimal */
    OPT_BYTES,  /* uint64_t, a unit may follow: 64MiB */
    OPT_DOUBLE, /* double, finite */
    OPT_CHOICE, /* const char *, one of `choices` */
    OPT_LIST,   /* struct opt_list: may be repeated */
};

struct opt {
    char letter; /* 0: none */
    const char *name;
    enum opt_type type;
    size_t offset;
    const char *arg; /* name of the value in --help; NULL for flags */
    const char *help;
    const char *choices; /* OPT_CHOICE: "csv|json|md"; numbers: "1..64", "0..", ">0"; NULL: any */
};

struct opt_list {
    const char **v;
    size_t n, cap;
    bool keep_marker; /* "--" is kept as an operand, because it separates two lists of operands */
};

/* Options of a command, or the global ones, and the struct that receives their values. */
struct opt_set {
    const struct opt *rows;
    size_t n;
    void *into;
};
/* Splits argv[0..argc) (without the command name) into options and operands, in any order. With
 * program_follows, parsing stops at the first operand: it is a program, and its own options follow. After
 * "--" everything is an operand. Options are looked up in all sets (the command's and the global ones).
 * Returns -1 on misuse; err then contains the mistake and, for an unknown name, a similar valid one if there
 * is one. */
int opt_parse(const struct opt_set *sets, size_t nsets, bool program_follows, int argc, char **argv,
              struct opt_list *operands, struct err *err);

bool opt_is_choice(const char *choices, const char *value); /* choices: "csv|json|md" */

/* Appends each option with its text, aligned and wrapped at `width` columns. */
void opt_help(const struct opt *rows, size_t n, size_t width, struct strbuf *out);

#endif

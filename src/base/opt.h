/* Command-line options as table rows with the offset of a struct member. The parser, --help and shell
 * completion use the same rows.
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
    OPT_FLAG,   /* bool; --no-NAME clears it */
    OPT_STR,    /* const char * */
    OPT_UINT,   /* uint64_t, decimal */
    OPT_BYTES,  /* uint64_t with unit: 64MiB */
    OPT_DOUBLE, /* double, finite */
    OPT_CHOICE, /* const char *, from `choices` */
    OPT_LIST,   /* struct opt_list: may be repeated */
};

struct opt {
    char letter; /* 0: none */
    const char *name;
    enum opt_type type;
    size_t offset;
    const char *arg; /* in --help; NULL for flags */
    const char *help;
    const char *choices; /* OPT_CHOICE: "csv|json|md". Numbers: "1..64", "0..", ">0". NULL: any. */
};

struct opt_list {
    const char **v;
    size_t n, cap;
    bool keep_marker; /* keep "--" as an operand */
};

/* Options and the struct that receives their values. */
struct opt_set {
    const struct opt *rows;
    size_t n;
    void *into;
};
/* Parses argv[0..argc), without the command name. Options and operands may be mixed. With program_follows,
 * parsing stops at the first operand. After "--" everything is an operand. Returns -1 on misuse; for an
 * unknown option, err may suggest a similar one. */
int opt_parse(const struct opt_set *sets, size_t nsets, bool program_follows, int argc, char **argv,
              struct opt_list *operands, struct err *err);

bool opt_is_choice(const char *choices, const char *value); /* choices: "csv|json|md" */

/* Appends one entry per option, aligned and wrapped at `width` columns. */
void opt_help(const struct opt *rows, size_t n, size_t width, struct strbuf *out);

#endif

/* A subcommand is one row: its name, its options, its help and the function that runs it. main.c lists the
 * rows; dispatch, --help and shell completion read them. The only code that prints errors lives in cmd/. */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include <stddef.h>

#include "base/err.h"
#include "base/opt.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSED = 2, EXIT_SLOWER = 3 };

/* What the shell should offer for operands. */
enum complete {
    COMPLETE_NOTHING,
    COMPLETE_FILES,
    COMPLETE_FOLDERS,
    COMPLETE_COMMANDS,
    COMPLETE_SHELLS,
    COMPLETE_SETTINGS /* group=choice and key=value of `profile` */
};

struct command {
    const char *name;    /* "trace info": two words make a family */
    const char *args;    /* "FILE..."; "" for none */
    const char *summary; /* one line, lower case, no full stop */
    const char *details; /* paragraphs under the usage line; NULL for none */
    const struct opt *opts;
    size_t nopts;
    const void *defaults;   /* what the option struct starts as; NULL: all zero */
    size_t opts_bytes;      /* sizeof the option struct */
    int min_args, max_args; /* operands; max -1: any number */
    bool runs_program;      /* the first operand is a program, and what follows is its own */
    enum complete complete;
    int (*run)(const void *opts, int argc, char **argv); /* operands only; returns an exit status */
};

extern const struct command *const commands[]; /* main.c */
extern const size_t commands_n;

int command_main(int argc, char **argv);              /* finds the row, parses, runs, checks stdout */
const struct command *command_find(const char *name); /* NULL: no such */
const struct opt *command_global_options(size_t *n);  /* --help and the others that every command takes */
int command_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* prints; EXIT_MISUSED */
int command_fail(const struct err *err);                                       /* prints; EXIT_FAILED */
size_t command_width(int fd);    /* columns of the terminal behind fd, 160 at most; 100: it is none */
size_t command_line_width(void); /* of standard output where it is a terminal, else 0: no limit */
void command_hint(struct err *err, const char *remedy); /* adds "; remedy" */
int command_no_traces(const char *folder);              /* the same for a folder that holds none */

#endif

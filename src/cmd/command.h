/* A subcommand is one row: name, options, help and function. main.c lists the rows; dispatch, --help and
 * shell completion use them. Only code in cmd/ prints errors. */
#ifndef CMD_COMMAND_H
#define CMD_COMMAND_H

#include <stddef.h>

#include "base/err.h"
#include "base/opt.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_MISUSED = 2, EXIT_SLOWER = 3 };

/* Shell completion of operands. */
enum complete {
    COMPLETE_NOTHING,
    COMPLETE_FILES,
    COMPLETE_FOLDERS,
    COMPLETE_COMMANDS,
    COMPLETE_SHELLS,
    COMPLETE_SETTINGS /* group=choice and key=value of `profile` */
};

struct command {
    /* Two words if the command belongs to a family: "trace info". */
    const char *name;
    const char *args;    /* "FILE..."; "" for none */
    const char *summary; /* lower case, no full stop */
    const char *details; /* after the usage; NULL: none */
    const struct opt *opts;
    size_t nopts;
    const void *defaults;   /* option struct; NULL: zeros */
    size_t opts_bytes;      /* sizeof the option struct */
    int min_args, max_args; /* operands; max -1: any number */
    bool runs_program;      /* operands: a program, its arguments */
    bool keeps_marker;      /* "--" is an operand too */
    enum complete complete;
    /* argv: the operands. Returns an exit status. */
    int (*run)(const void *opts, int argc, char **argv);
};

extern const struct command *const commands[]; /* defined in main.c */
extern const size_t commands_n;

/* Runs the command of argv. Returns the exit status. */
int command_main(int argc, char **argv);
const struct command *command_find(const char *name); /* NULL: not found */
const struct opt *command_global_options(size_t *n);  /* options of every command */
int command_usage(const char *fmt, ...)
    __attribute__((format(printf, 1, 2))); /* prints the message; returns EXIT_MISUSED */
int command_fail(const struct err *err);   /* prints the error; returns EXIT_FAILED */
struct view;                               /* of report/view.h */
/* Writes the summary of a run for the terminal at fd. Returns the same as report_terminal(). */
size_t command_screen(const struct view *v, int fd, struct strbuf *out);
size_t command_width(int fd);                           /* 40 to 160; 100: not a terminal */
size_t command_line_width(void);                        /* 0: stdout is not a terminal */
void command_hint(struct err *err, const char *remedy); /* appends "; " and the remedy */
/* Prints that the folder contains no traces. Returns EXIT_FAILED. */
int command_no_traces(const char *folder);

#endif

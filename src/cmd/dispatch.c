/* Finds and runs the command of argv. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/die.h"
#include "base/log.h"
#include "base/program.h"
#include "base/suggest.h"
#include "base/util.h"
#include "cmd/command.h"
#include "cmd/help.h"
#include "report/report.h"

struct global_opts {
    bool help, version, quiet, verbose;
};

static const struct opt global_options[] = {
    { 'h', "help", OPT_FLAG, offsetof(struct global_opts, help), NULL, "print the help of the command",
      NULL },
    { 'q', "quiet", OPT_FLAG, offsetof(struct global_opts, quiet), NULL,
      "print only errors on stderr, no progress", NULL },
    { 'v', "verbose", OPT_FLAG, offsetof(struct global_opts, verbose), NULL, "print more messages on stderr",
      NULL },
};

static const struct opt version_option[] = {
    { 0, "version", OPT_FLAG, offsetof(struct global_opts, version), NULL,
      "print version, compiler and libraries", NULL },
};

const struct opt *command_global_options(size_t *n) {
    *n = COUNTOF(global_options);
    return global_options;
}

int command_usage(const char *fmt, ...) {
    struct err err;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    log_error("%s", err.msg);
    return EXIT_MISUSED;
}

int command_fail(const struct err *err) {
    log_error("%s", err->msg);
    return EXIT_FAILED;
}

size_t command_width(int fd) {
    struct winsize w;
    return ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? MIN(MAX((size_t)w.ws_col, 40), 160) : 100;
}

/* True if fd and stderr are the same terminal or file. */
static bool is_with_stderr(int fd) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && fstat(STDERR_FILENO, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

size_t command_screen(const struct view *v, int fd, struct strbuf *out) {
    const struct report_screen screen = { .width = command_width(fd),
                                          .color = log_use_color(fd),
                                          .is_known = is_with_stderr(fd) ? log_was_printed : NULL };
    return report_terminal(v, &screen, out);
}

size_t command_line_width(void) { return isatty(STDOUT_FILENO) ? command_width(STDOUT_FILENO) : 0; }

void command_hint(struct err *err, const char *remedy) {
    size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, "; %s", remedy);
}

int command_no_traces(const char *folder) {
    log_error("%s: no traces (*.ipt) in this folder or in its trace/", folder);
    return EXIT_FAILED;
}

const struct command *command_find(const char *name) {
    for (size_t i = 0; i < commands_n; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

/* True for the first word of a two-word command, such as "trace". */
static bool is_family(const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i < commands_n; i++)
        if (strncmp(commands[i]->name, word, n) == 0 && commands[i]->name[n] == ' ') return true;
    return false;
}

static int unknown_command(const char *name) {
    char first_words[64][32]; /* "trac" suggests "trace" */
    struct suggest near;
    suggest_start(&near, name);
    for (size_t i = 0; i < commands_n; i++) suggest_try(&near, commands[i]->name);
    for (size_t i = 0; i < MIN(commands_n, COUNTOF(first_words)); i++) {
        const char *full = commands[i]->name;
        snprintf(first_words[i], sizeof first_words[i], "%.*s", (int)strcspn(full, " "), full);
        suggest_try(&near, first_words[i]);
    }
    if (near.best) return command_usage("unknown command '%s'; did you mean '%s'?", name, near.best);
    return command_usage("unknown command '%s'; see 'inferprof --help' for the list", name);
}

/* Names have one or two words. *used: number of words. */
static const struct command *pick(int argc, char **argv, int *used) {
    char two[128];
    const struct command *c = NULL;
    if (argc > 1 && argv[1][0] != '-') {
        snprintf(two, sizeof two, "%s %s", argv[0], argv[1]);
        if ((c = command_find(two))) *used = 2;
    }
    if (!c && (c = command_find(argv[0]))) *used = 1;
    return c;
}

/* True if the reader of standard output has closed the pipe, as `| head` does. */
static bool reader_is_gone(void) {
    struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

/* Returns `status`, or EXIT_FAILED if the command succeeded but output was lost, for example on a full disk.
 * Prints no message if the reader closed the pipe. */
static int close_stdout(int status) {
    bool failed = ferror(stdout);
    errno = 0;
    failed |= fflush(stdout) != 0;
    if (!failed || status != EXIT_DONE) return status;
    if (!reader_is_gone())
        log_error("writing to standard output: %s", errno ? strerror(errno) : "failed; is the disk full?");
    return EXIT_FAILED;
}

static int check_operands(const struct command *c, size_t n) {
    if ((int)n < c->min_args)
        return command_usage("%s: expected %s; see 'inferprof %s --help'", c->name, c->args, c->name);
    if (c->max_args >= 0 && (int)n > c->max_args)
        return command_usage("%s: too many arguments; usage: inferprof %s [options]%s%s", c->name, c->name,
                             c->args[0] ? " " : "", c->args);
    return 0;
}

static void set_log_level(const struct global_opts *g) {
    if (g->verbose) log_set_level(LOG_DEBUG);
    if (g->quiet) log_set_level(LOG_ERROR);
}

static int run_command(const struct command *c, int argc, char **argv) {
    struct global_opts global = { 0 };
    void *opts = xcalloc(1, c->opts_bytes);
    struct opt_list operands = { .keep_marker = c->keeps_marker };
    struct err err;
    if (c->defaults) memcpy(opts, c->defaults, c->opts_bytes);
    const struct opt_set sets[] = { { c->opts, c->nopts, opts },
                                    { global_options, COUNTOF(global_options), &global } };
    int status;
    if (opt_parse(sets, COUNTOF(sets), c->runs_program, argc, argv, &operands, &err) < 0)
        status = command_usage("%s: %s", c->name, err.msg);
    else if (global.help)
        status = help_command(c, global_options, COUNTOF(global_options));
    else {
        set_log_level(&global);
        status = check_operands(c, operands.n);
        if (status == 0) status = c->run(opts, (int)operands.n, (char **)operands.v);
    }
    for (size_t i = 0; i < c->nopts; i++) /* only list options own memory */
        if (c->opts[i].type == OPT_LIST) free(((struct opt_list *)((char *)opts + c->opts[i].offset))->v);
    free(operands.v);
    free(opts);
    return status;
}

/* `inferprof [--help|--version]` */
static int run_bare(int argc, char **argv) {
    struct global_opts global = { 0 };
    struct opt_list operands = { 0 };
    struct err err;
    const struct opt_set sets[] = { { global_options, COUNTOF(global_options), &global },
                                    { version_option, COUNTOF(version_option), &global } };
    int status = EXIT_MISUSED;
    if (opt_parse(sets, COUNTOF(sets), false, argc, argv, &operands, &err) < 0)
        command_usage("%s", err.msg);
    else if (global.version)
        status = help_version();
    else if (global.help)
        status = help_all(stdout, global_options, COUNTOF(global_options));
    else if (operands.n)
        command_usage("options must follow the command name: inferprof %s [options]", operands.v[0]);
    else
        help_all(stderr, global_options, COUNTOF(global_options));
    free(operands.v);
    return status;
}

/* Returns the number of -q and -v before the command, as in `inferprof -q report DIR`. 0 if there are other
 * options before the command, or no command. */
static int leading_options(int argc, char **argv, struct global_opts *g) {
    int n = 0;
    for (; n < argc && argv[n][0] == '-'; n++) {
        if (strcmp(argv[n], "-q") == 0 || strcmp(argv[n], "--quiet") == 0)
            g->quiet = true;
        else if (strcmp(argv[n], "-v") == 0 || strcmp(argv[n], "--verbose") == 0)
            g->verbose = true;
        else
            return 0;
    }
    return n < argc ? n : 0;
}

static int dispatch(int argc, char **argv) {
    struct global_opts before = { 0 };
    int used, skip = leading_options(argc, argv, &before);
    argc -= skip;
    argv += skip;
    if (skip) set_log_level(&before);
    if (argc == 0 || argv[0][0] == '-') return run_bare(argc, argv);
    if (strcmp(argv[0], "help") == 0 && argc == 1)
        return help_all(stdout, global_options, COUNTOF(global_options));
    bool asks = strcmp(argv[0], "help") == 0;
    argc -= asks;
    argv += asks;
    const struct command *c = pick(argc, argv, &used);
    if (!c && is_family(argv[0])) {
        bool wants = asks || (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0));
        if (!wants && argc > 1) {
            char two[128];
            snprintf(two, sizeof two, "%s %s", argv[0], argv[1]);
            return unknown_command(two);
        }
        help_family(wants ? stdout : stderr, argv[0]);
        return wants ? EXIT_DONE : EXIT_MISUSED;
    }
    if (!c) return unknown_command(argv[0]);
    if (asks) return help_command(c, global_options, COUNTOF(global_options));
    return run_command(c, argc - used, argv + used);
}

/* If a standard stream is closed, the next file that is opened gets its descriptor, and output would go into
 * that file. Therefore /dev/null is opened in its place. It is opened read-only, so that writing still fails
 * and the failure is reported. */
static void occupy_standard_streams(void) {
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) {}
    if (fd >= 0) close(fd);
}

int command_main(int argc, char **argv) {
    occupy_standard_streams();
    program_signals_init();
    /* jansson reports a failed allocation as a syntax error at line -1; xmalloc() ends the guarded call */
    json_set_alloc_funcs(xmalloc, free);
    return close_stdout(dispatch(argc - 1, argv + 1));
}

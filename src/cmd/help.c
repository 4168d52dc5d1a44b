#include "cmd/help.h"

#include <string.h>
#include <unistd.h>

#include "base/table.h"
#include "base/util.h"
#include "base/wrap.h"
#include "cmd/build_info.h"

#define SUMMARY_COLUMN 19
#define MAX_WIDTH 100 /* longer lines are unreadable */

static size_t help_width(void) { return MIN(command_width(STDOUT_FILENO), MAX_WIDTH); }

static void command_line(struct strbuf *out, const struct command *c) {
    strbuf_addf(out, "  %-16s ", c->name);
    wrap_text(out, c->summary, SUMMARY_COLUMN, help_width(), SUMMARY_COLUMN);
}

static void list_commands(struct strbuf *out, const char *prefix) {
    size_t n = prefix ? strlen(prefix) : 0;
    for (size_t i = 0; i < commands_n; i++)
        if (!prefix || (strncmp(commands[i]->name, prefix, n) == 0 && commands[i]->name[n] == ' '))
            command_line(out, commands[i]);
}

static int print_and_free(FILE *to, struct strbuf *s) {
    fputs(s->buf, to);
    strbuf_free(s);
    return EXIT_DONE;
}

int help_all(FILE *to, const struct opt *global, size_t nglobal) {
    struct strbuf s = STRBUF_INIT;
    wrap_paragraphs(
        &s, "inferprof: shows how far LLM inference is from the hardware limits, and what to change first",
        help_width());
    strbuf_addstr(&s, "\nUsage: inferprof COMMAND [options]\n\nCommands:\n");
    list_commands(&s, NULL);
    strbuf_addstr(&s, "\nOptions of every command:\n");
    opt_help(global, nglobal, help_width(), &s);
    strbuf_addch(&s, '\n');
    wrap_paragraphs(&s,
                    "'inferprof COMMAND --help' prints the help of a command. 'inferprof --version' prints "
                    "build information.",
                    help_width());
    return print_and_free(to, &s);
}

int help_family(FILE *to, const char *word) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addf(&s, "Usage: inferprof %s COMMAND [options]\n\nCommands:\n", word);
    list_commands(&s, word);
    return print_and_free(to, &s);
}

static void usage_line(struct strbuf *out, const struct command *c) {
    struct strbuf usage = STRBUF_INIT;
    strbuf_addf(&usage, "Usage: inferprof %s [options]%s%s", c->name, c->args[0] ? " " : "", c->args);
    strbuf_addch(out, '\n');
    wrap_text(out, usage.buf, 0, help_width(), 9);
    strbuf_free(&usage);
}

int help_command(const struct command *c, const struct opt *global, size_t nglobal) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addf(&s, "inferprof %s: ", c->name);
    wrap_text(&s, c->summary, s.len, help_width(), 2);
    usage_line(&s, c);
    if (c->details) {
        strbuf_addch(&s, '\n');
        wrap_paragraphs(&s, c->details, help_width());
    }
    if (c->nopts) {
        strbuf_addstr(&s, "\nOptions:\n");
        opt_help(c->opts, c->nopts, help_width(), &s);
    }
    strbuf_addstr(&s, "\nOptions of every command:\n");
    opt_help(global, nglobal, help_width(), &s);
    return print_and_free(stdout, &s);
}

int help_version(void) {
    struct strbuf s = STRBUF_INIT;
    struct strbuf wrapped = STRBUF_INIT;
    build_info_text(&s);
    wrap_lines(&wrapped, s.buf, command_line_width());
    strbuf_free(&s);
    return print_and_free(stdout, &wrapped);
}

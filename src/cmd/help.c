#include "cmd/help.h"

#include <string.h>

#include "base/table.h"
#include "cmd/build_info.h"

static void list_commands(struct strbuf *out, const char *prefix) {
    size_t n = prefix ? strlen(prefix) : 0;
    for (size_t i = 0; i < commands_n; i++)
        if (!prefix || (strncmp(commands[i]->name, prefix, n) == 0 && commands[i]->name[n] == ' '))
            strbuf_addf(out, "  %-16s %s\n", commands[i]->name, commands[i]->summary);
}

static int print_and_free(FILE *to, struct strbuf *s) {
    fputs(s->buf, to);
    strbuf_free(s);
    return EXIT_DONE;
}

int help_all(FILE *to, const struct opt *global, size_t nglobal) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addstr(
        &s, "inferprof: shows how far LLM inference is from the hardware limits, and what to change first\n\n"
            "Usage: inferprof COMMAND [options]\n\nCommands:\n");
    list_commands(&s, NULL);
    strbuf_addstr(&s, "\nOptions of every command:\n");
    opt_help(global, nglobal, &s);
    strbuf_addstr(&s, "\n'inferprof COMMAND --help' prints the help of a command. 'inferprof --version' "
                      "prints build information.\n");
    return print_and_free(to, &s);
}

int help_family(FILE *to, const char *word) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addf(&s, "Usage: inferprof %s COMMAND [options]\n\nCommands:\n", word);
    list_commands(&s, word);
    return print_and_free(to, &s);
}

int help_command(const struct command *c, const struct opt *global, size_t nglobal) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addf(&s, "inferprof %s: %s\n\nUsage: inferprof %s [options]%s%s\n", c->name, c->summary, c->name,
                c->args[0] ? " " : "", c->args);
    if (c->details) strbuf_addf(&s, "\n%s\n", c->details);
    if (c->nopts) {
        strbuf_addstr(&s, "\nOptions:\n");
        opt_help(c->opts, c->nopts, &s);
    }
    strbuf_addstr(&s, "\nOptions of every command:\n");
    opt_help(global, nglobal, &s);
    return print_and_free(stdout, &s);
}

int help_version(void) {
    struct strbuf s = STRBUF_INIT;
    build_info_text(&s);
    return print_and_free(stdout, &s);
}

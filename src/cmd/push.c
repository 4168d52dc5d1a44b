/* inferprof push: sends run folders to a server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "serve/push.h"

struct push_opts {
    const char *token_file;
};

/* The token comes from a file or the environment, because other users can see the command line. */
static int read_token(const struct push_opts *o, struct strbuf *token, struct err *err) {
    const char *variable = getenv("INFERPROF_TOKEN");
    if (o->token_file) {
        if (file_read(o->token_file, 4096, token, err) < 0) return -1;
    } else if (variable)
        strbuf_addstr(token, variable);
    token->len = strcspn(token->buf, " \t\r\n");
    if (token->cap) token->buf[token->len] = '\0';
    return 0;
}

static int push_all(struct push *p, int argc, char **argv) {
    int status = EXIT_DONE;
    for (int i = 0; i < argc && !interrupt_signal(); i++) {
        struct push_result result;
        struct err err;
        char size[32];
        if (push_run(p, argv[i], &result, &err) < 0) {
            status = command_fail(&err);
            continue;
        }
        if (result.existed)
            printf("%s: the server already has it\n", result.name);
        else
            printf("%s: stored, %s\n", result.name, units_bytes((double)result.bytes, size, sizeof size));
        free(result.name);
    }
    return interrupt_signal() ? 128 + interrupt_signal() : status;
}

static int run(const void *opts, int argc, char **argv) {
    struct strbuf token = STRBUF_INIT;
    struct err err;
    int status;
    if (read_token(opts, &token, &err) < 0) {
        strbuf_free(&token);
        return command_fail(&err);
    }
    struct push *p = push_open(argv[0], token.len ? token.buf : NULL, &err);
    strbuf_free(&token);
    if (!p) return command_fail(&err);
    interrupt_watch();
    status = push_all(p, argc - 1, argv + 1);
    interrupt_unwatch();
    push_close(p);
    return status;
}

static const struct opt options[] = {
    { 0, "token-file", OPT_STR, offsetof(struct push_opts, token_file), "FILE",
      "file with the access token; default: the variable INFERPROF_TOKEN", NULL },
};

const struct command cmd_push = {
    .name = "push",
    .args = "URL RUN...",
    .summary = "send run folders to a server",
    .details =
        "URL is the address of 'inferprof serve', for example http://host:8080. A run is identified by its "
        "content: a run that the\n"
        "server has is not sent again, and an interrupted upload continues where it stopped.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct push_opts),
    .min_args = 2,
    .max_args = -1,
    .complete = COMPLETE_FOLDERS,
    .run = run,
};

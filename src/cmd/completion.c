/* `inferprof completion bash|zsh`: generates a completion script from the command tables. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cmd/command.h"
#include "cmd/commands.h"
#include "conf/schema.h"
#include "conf/store.h"

static const char *const global_words = "--help --quiet --verbose";
static const char *const groups[] = { "model", "dataset", "engine", "profiling", "hardware", "output", NULL };

/* Names of option values that are paths. */
#define FILE_ARGS "FILE|PATH"
#define FOLDER_ARGS "DIR|RUN_DIR|RUN"

static void add_words(struct strbuf *out, const struct command *c) {
    for (size_t i = 0; i < c->nopts; i++) strbuf_addf(out, "--%s ", c->opts[i].name);
    strbuf_addstr(out, global_words);
}

static const char *bash_operands(enum complete kind) {
    switch (kind) {
    case COMPLETE_FILES: return "compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- \"$cur\"))";
    case COMPLETE_FOLDERS: return "compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- \"$cur\"))";
    case COMPLETE_COMMANDS: return "COMPREPLY+=($(compgen -c -- \"$cur\"))";
    case COMPLETE_SHELLS: return "COMPREPLY+=($(compgen -W 'bash zsh' -- \"$cur\"))";
    case COMPLETE_SETTINGS: return "_inferprof_settings";
    case COMPLETE_NOTHING: break;
    }
    return ":";
}

/* Adds the first words of all commands, or the second words of a family, without duplicates. */
static void add_names(struct strbuf *out, const char *family) {
    char last[64] = "";
    size_t skip = family ? strlen(family) + 1 : 0;
    for (size_t i = 0; i < commands_n; i++) {
        const char *name = commands[i]->name;
        if (family && (strncmp(name, family, skip - 1) != 0 || name[skip - 1] != ' ')) continue;
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(name + skip, " "), name + skip);
        if (strcmp(word, last) != 0) strbuf_addf(out, "%s ", word);
        memcpy(last, word, sizeof last);
    }
}

static void add_choices(struct strbuf *out, const char *choices) {
    for (const char *p = choices; *p; p++) strbuf_addch(out, *p == '|' ? ' ' : *p);
}

/* Completes an option's value: its choices, a file or folder, or nothing. */
static void bash_case_values(struct strbuf *out, const struct command *c) {
    for (size_t i = 0; i < c->nopts; i++) {
        const struct opt *o = &c->opts[i];
        if (o->type == OPT_FLAG) continue;
        strbuf_addf(out, "    '%s --%s'", c->name, o->name);
        if (o->letter) strbuf_addf(out, " | '%s -%c'", c->name, o->letter);
        strbuf_addstr(out, ") ");
        if (o->type == OPT_CHOICE) {
            strbuf_addstr(out, "COMPREPLY=($(compgen -W '");
            add_choices(out, o->choices);
            strbuf_addstr(out, "' -- \"$cur\")); ");
        } else if (opt_is_choice(FILE_ARGS "|" FOLDER_ARGS, o->arg)) {
            bool file = opt_is_choice(FILE_ARGS, o->arg);
            strbuf_addf(out, "%s; ", bash_operands(file ? COMPLETE_FILES : COMPLETE_FOLDERS));
        }
        strbuf_addstr(out, "return ;;\n");
    }
}

static void add_word(void *ctx, const char *word) { strbuf_addf(ctx, "%s ", word); }

/* bash splits words at '=': "model", "=", "emb". The value is completed with the choices of a group, with
 * true and false, or with files. */
static void bash_settings(struct strbuf *out) {
    struct conf_store store = { 0 };
    struct strbuf words = STRBUF_INIT;
    size_t n;
    const struct schema_row *rows = schema_rows(&n);
    store.builtin = conf_builtin_files(&store.nbuiltin);
    strbuf_addstr(out, "_inferprof_settings() {\n    local key=\n"
                       "    if [ \"$cur\" = = ]; then key=$prev cur=; elif [ \"$prev\" = = ]; then "
                       "key=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                       "    case $key in\n");
    for (const char *const *g = groups; *g; g++) {
        strbuf_addf(out, "    %s) COMPREPLY=($(compgen -W '", *g);
        conf_store_choices(&store, *g, add_word, out);
        strbuf_addstr(out, "' -- \"$cur\")); return ;;\n");
        strbuf_addf(&words, "%s= ", *g);
    }
    for (size_t i = 0; i < n; i++) {
        strbuf_addf(&words, "%s= ", rows[i].key);
        if (rows[i].type != SCHEMA_CHOICE && rows[i].type != SCHEMA_BOOL && rows[i].type != SCHEMA_PATH)
            continue;
        strbuf_addf(out, "    %s) ", rows[i].key);
        if (rows[i].type == SCHEMA_PATH) {
            strbuf_addf(out, "%s; return ;;\n", bash_operands(COMPLETE_FILES));
            continue;
        }
        strbuf_addstr(out, "COMPREPLY=($(compgen -W '");
        add_choices(out, rows[i].type == SCHEMA_BOOL ? "true|false" : rows[i].choices);
        strbuf_addstr(out, "' -- \"$cur\")); return ;;\n");
    }
    strbuf_addf(out,
                "    ?*) return ;;\n    esac\n    compopt -o nospace 2>/dev/null; COMPREPLY=($(compgen -W "
                "'%s' -- \"$cur\"))\n}\n",
                words.buf);
    strbuf_free(&words);
}

static void bash_script(struct strbuf *out) {
    strbuf_addstr(out, "# bash completion for inferprof: source this file, or put it into\n"
                       "# ~/.local/share/bash-completion/completions/inferprof\n");
    bash_settings(out);
    strbuf_addstr(out, "_inferprof() {\n"
                       "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                       "    local command=${COMP_WORDS[1]}\n    COMPREPLY=()\n"
                       "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '");
    add_names(out, NULL);
    strbuf_addf(out, "--version %s' -- \"$cur\")); return\n    fi\n    case $command in\n", global_words);
    for (size_t i = 0; i < commands_n; i++) {
        const char *space = strchr(commands[i]->name, ' ');
        size_t n = space ? (size_t)(space - commands[i]->name) : 0;
        bool seen = i > 0 && n && strncmp(commands[i - 1]->name, commands[i]->name, n + 1) == 0;
        if (!space || seen) continue;
        char family[64];
        snprintf(family, sizeof family, "%.*s", (int)n, commands[i]->name);
        strbuf_addf(out, "    %s)\n        if [ \"$COMP_CWORD\" -eq 2 ]; then COMPREPLY=($(compgen -W '",
                    family);
        add_names(out, family);
        strbuf_addstr(out, "' -- \"$cur\")); return; fi\n        command=\"$command ${COMP_WORDS[2]}\" ;;\n");
    }
    strbuf_addstr(out, "    esac\n    case \"$command $prev\" in\n");
    for (size_t i = 0; i < commands_n; i++) bash_case_values(out, commands[i]);
    strbuf_addstr(out, "    esac\n    case $command in\n");
    for (size_t i = 0; i < commands_n; i++) {
        strbuf_addf(out, "    '%s')\n        case $cur in\n        -*) COMPREPLY=($(compgen -W '",
                    commands[i]->name);
        add_words(out, commands[i]);
        strbuf_addf(out, "' -- \"$cur\")) ;;\n        *) %s ;;\n        esac ;;\n",
                    bash_operands(commands[i]->complete));
    }
    strbuf_addstr(out, "    esac\n}\ncomplete -F _inferprof inferprof\n");
}

/* Quotes text for zsh: ' ends a string; [ ] : are special for _arguments. */
static void zsh_text(struct strbuf *out, const char *text) {
    for (; *text; text++) {
        if (strchr("[]:\\", *text)) strbuf_addch(out, '\\');
        if (*text == '\'')
            strbuf_addstr(out, "'\\''");
        else
            strbuf_addch(out, *text);
    }
}

/* Writes '(-o --output)'{-o+,--output=}'[help]:DIR:_files'. The short and long form exclude each other,
 * except for list options. */
static void zsh_names(struct strbuf *out, const struct opt *o) {
    const char *value = o->type == OPT_FLAG ? "" : "=", *joined = o->type == OPT_FLAG ? "" : "+";
    if (o->letter && o->type == OPT_LIST)
        strbuf_addf(out, "'*'{-%c%s,--%s%s}'", o->letter, joined, o->name, value);
    else if (o->letter)
        strbuf_addf(out, "'(-%c --%s)'{-%c%s,--%s%s}'", o->letter, o->name, o->letter, joined, o->name,
                    value);
    else
        strbuf_addf(out, "'%s--%s%s", o->type == OPT_LIST ? "*" : "", o->name, value);
}

static void zsh_option(struct strbuf *out, const struct opt *o) {
    strbuf_addstr(out, "        ");
    zsh_names(out, o);
    strbuf_addch(out, '[');
    zsh_text(out, o->help);
    strbuf_addch(out, ']');
    if (o->type == OPT_CHOICE) {
        strbuf_addf(out, ":%s:(", o->name);
        add_choices(out, o->choices);
        strbuf_addch(out, ')');
    } else if (o->type != OPT_FLAG) {
        bool folder = opt_is_choice(FOLDER_ARGS, o->arg), file = opt_is_choice(FILE_ARGS, o->arg);
        strbuf_addf(out, ":%s:%s", o->name, folder ? "_files -/" : file ? "_files" : " ");
    }
    strbuf_addstr(out, "' \\\n");
}

static const char *zsh_operands(enum complete kind) {
    switch (kind) {
    case COMPLETE_FILES: return "'*:file:_files'";
    case COMPLETE_FOLDERS: return "'*:folder:_files -/'";
    case COMPLETE_COMMANDS: return "'*::program:_normal'";
    case COMPLETE_SHELLS: return "'*:shell:(bash zsh)'";
    case COMPLETE_SETTINGS:
    case COMPLETE_NOTHING: break;
    }
    return "";
}

static void zsh_script(struct strbuf *out) {
    strbuf_addstr(out, "#compdef inferprof\n# zsh completion for inferprof: put this file as _inferprof into "
                       "a folder of $fpath\n"
                       "_inferprof() {\n    local command=$words[2]\n"
                       "    if (( CURRENT == 2 )); then\n        local -a names=(");
    add_names(out, NULL);
    strbuf_addstr(out, ")\n        _describe command names; return\n    fi\n"
                       "    if (( ${+_inferprof_families[$command]} )); then\n"
                       "        if (( CURRENT == 3 )); then\n            local -a "
                       "names=(${=_inferprof_families[$command]})\n"
                       "            _describe command names; return\n        fi\n"
                       "        command=\"$command $words[3]\"; shift words; (( CURRENT-- ))\n    fi\n"
                       "    shift words; (( CURRENT-- ))\n    case $command in\n");
    for (size_t i = 0; i < commands_n; i++) {
        strbuf_addf(out, "    '%s') _arguments -s \\\n", commands[i]->name);
        for (size_t k = 0; k < commands[i]->nopts; k++) zsh_option(out, &commands[i]->opts[k]);
        strbuf_addf(out,
                    "        '(-h --help)'{-h,--help}'[print the help of the command]' '(-q "
                    "--quiet)'{-q,--quiet}'[only errors]' "
                    "'(-v --verbose)'{-v,--verbose}'[more messages]' %s ;;\n",
                    zsh_operands(commands[i]->complete));
    }
    strbuf_addstr(out, "    esac\n}\ntypeset -gA _inferprof_families\n");
    for (size_t i = 0; i < commands_n; i++) {
        const char *space = strchr(commands[i]->name, ' ');
        if (!space) continue;
        strbuf_addf(out, "_inferprof_families[%.*s]+=' %s'\n", (int)(space - commands[i]->name),
                    commands[i]->name, space + 1);
    }
    strbuf_addstr(out, "compdef _inferprof inferprof\n");
}

static int run_completion(const void *opts, int argc, char **argv) {
    (void)opts;
    (void)argc;
    struct strbuf out = STRBUF_INIT;
    if (strcmp(argv[0], "bash") == 0)
        bash_script(&out);
    else if (strcmp(argv[0], "zsh") == 0)
        zsh_script(&out);
    else
        return command_usage("completion: unknown shell '%s'; expected bash or zsh", argv[0]);
    fputs(out.buf, stdout);
    strbuf_free(&out);
    return EXIT_DONE;
}

const struct command cmd_completion = {
    .name = "completion",
    .args = "bash|zsh",
    .summary = "print a completion script for your shell",
    .details = "In bash:\n  source <(inferprof completion bash)\n"
               "In zsh:\n  inferprof completion zsh > ~/.zfunc/_inferprof",
    .opts_bytes = 1,
    .min_args = 1,
    .max_args = 1,
    .complete = COMPLETE_SHELLS,
    .run = run_completion,
};

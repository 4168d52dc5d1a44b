/* `inferprof completion bash|zsh|fish`: generates a completion script from the command tables. */
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

/* option values that are paths */
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
    case COMPLETE_SHELLS: return "COMPREPLY+=($(compgen -W 'bash zsh fish' -- \"$cur\"))";
    case COMPLETE_SETTINGS: return "_inferprof_settings";
    case COMPLETE_NOTHING: break;
    }
    return ":";
}

/* First words of all commands or, for a family, the second words. Without duplicates. */
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

/* Values of options: choices, files, folders or nothing. */
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

/* bash splits words at '=': "model", "=", "emb". A value is one of the choices of a group or key, true or
 * false, or a file. */
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

/* For zsh: ' ends a string, and [ ] : are special for _arguments. */
static void zsh_text(struct strbuf *out, const char *text) {
    for (; *text; text++) {
        if (strchr("[]:\\", *text)) strbuf_addch(out, '\\');
        if (*text == '\'')
            strbuf_addstr(out, "'\\''");
        else
            strbuf_addch(out, *text);
    }
}

/* Writes the names of an option and opens the quote of the rest: '(-o --output)'{-o+,--output=}'. The short
 * and long form exclude each other, except for list options. */
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
    case COMPLETE_SHELLS: return "'*:shell:(bash zsh fish)'";
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

/* For fish: inside '...' only ' and the backslash are special. */
static void fish_text(struct strbuf *out, const char *text) {
    for (; *text; text++) {
        if (strchr("'\\", *text)) strbuf_addch(out, '\\');
        strbuf_addch(out, *text);
    }
}

/* Writes the condition that the command line starts with this command. */
static void fish_condition(struct strbuf *out, const char *command) {
    strbuf_addf(out, "complete -c inferprof -n '__inferprof_is %s'", command);
}

static void fish_option(struct strbuf *out, const struct command *c, const struct opt *o) {
    fish_condition(out, c->name);
    if (o->letter) strbuf_addf(out, " -s %c", o->letter);
    strbuf_addf(out, " -l %s -d '", o->name);
    fish_text(out, o->help);
    strbuf_addch(out, '\'');
    if (o->type == OPT_CHOICE) {
        strbuf_addstr(out, " -x -a '");
        add_choices(out, o->choices);
        strbuf_addch(out, '\'');
    } else if (o->type != OPT_FLAG) {
        bool folder = opt_is_choice(FOLDER_ARGS, o->arg), file = opt_is_choice(FILE_ARGS, o->arg);
        strbuf_addstr(out, folder ? " -x -a '(__fish_complete_directories)'" : file ? " -r -F" : " -x");
    }
    strbuf_addch(out, '\n');
}

static void fish_operands(struct strbuf *out, const struct command *c) {
    const char *words = c->complete == COMPLETE_FILES      ? " -F"
                        : c->complete == COMPLETE_FOLDERS  ? " -a '(__fish_complete_directories)'"
                        : c->complete == COMPLETE_COMMANDS ? " -a '(__fish_complete_command)'"
                        : c->complete == COMPLETE_SHELLS   ? " -a 'bash zsh fish'"
                                                           : NULL;
    if (!words) return;
    fish_condition(out, c->name);
    strbuf_addf(out, "%s\n", words);
}

static void fish_names(struct strbuf *out) {
    for (size_t i = 0; i < commands_n; i++) {
        const char *name = commands[i]->name, *space = strchr(name, ' ');
        const char *condition = space ? "__inferprof_is" : "__inferprof_is_first";
        strbuf_addf(out, "complete -c inferprof -n '%s", condition);
        if (space) strbuf_addf(out, " %.*s", (int)(space - name), name);
        strbuf_addf(out, "' -a %s -d '", space ? space + 1 : name);
        fish_text(out, commands[i]->summary);
        strbuf_addstr(out, "'\n");
        if (space)
            strbuf_addf(out, "complete -c inferprof -n __inferprof_is_first -a %.*s\n", (int)(space - name),
                        name);
    }
}

static void fish_script(struct strbuf *out) {
    strbuf_addstr(out, "# fish completion for inferprof: put this file as inferprof.fish into\n"
                       "# ~/.config/fish/completions\n"
                       "function __inferprof_is_first\n    test (count (commandline -opc)) -eq 1\nend\n"
                       "# True if the words after `inferprof` begin with the given ones.\n"
                       "function __inferprof_is\n    set -l words (commandline -opc)\n"
                       "    set -l wanted (string split ' ' -- $argv)\n"
                       "    set -l last (math (count $wanted) + 1)\n"
                       "    test (count $words) -ge $last\n"
                       "    and test \"$words[2..$last]\" = \"$wanted\"\nend\n"
                       "complete -c inferprof -f\n"
                       "complete -c inferprof -s h -l help -d 'print the help of the command'\n"
                       "complete -c inferprof -s q -l quiet -d 'only errors'\n"
                       "complete -c inferprof -s v -l verbose -d 'more messages'\n");
    fish_names(out);
    for (size_t i = 0; i < commands_n; i++) {
        for (size_t k = 0; k < commands[i]->nopts; k++) fish_option(out, commands[i], &commands[i]->opts[k]);
        fish_operands(out, commands[i]);
    }
}

static int run_completion(const void *opts, int argc, char **argv) {
    (void)opts;
    (void)argc;
    struct strbuf out = STRBUF_INIT;
    if (strcmp(argv[0], "bash") == 0)
        bash_script(&out);
    else if (strcmp(argv[0], "zsh") == 0)
        zsh_script(&out);
    else if (strcmp(argv[0], "fish") == 0)
        fish_script(&out);
    else
        return command_usage("completion: unknown shell '%s'; expected bash, zsh or fish", argv[0]);
    fputs(out.buf, stdout);
    strbuf_free(&out);
    return EXIT_DONE;
}

const struct command cmd_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .summary = "print a completion script for your shell",
    .details = "In bash:\n  source <(inferprof completion bash)\n"
               "In zsh:\n  inferprof completion zsh > ~/.zfunc/_inferprof\n"
               "In fish:\n  inferprof completion fish > ~/.config/fish/completions/inferprof.fish",
    .opts_bytes = 1,
    .min_args = 1,
    .max_args = 1,
    .complete = COMPLETE_SHELLS,
    .run = run_completion,
};

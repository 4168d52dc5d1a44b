/* `inferprof man [COMMAND]`: manual pages in roff, generated from the command and option tables. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"

struct man_opts {
    const char *output;
};

/* Contents that are not in the option tables. */
enum man_section { MAN_EXIT, MAN_FILES, MAN_ENVIRONMENT };

struct man_item {
    enum man_section section;
    const char *commands; /* "profile|run"; "*": every page */
    const char *term, *text;
};

/* Printed in this order. */
static const struct man_item man_items[] = {
    { MAN_EXIT, "run", "status of PROGRAM", "PROGRAM has exited; 128 + N if signal N ended it." },
    { MAN_EXIT, "*", "0", "Success." },
    { MAN_EXIT, "*", "1", "The command failed. A message on standard error contains the reason." },
    { MAN_EXIT, "*", "2", "Wrong usage: nothing was started." },
    { MAN_EXIT, "compare", "3", "A stage of B is slower than allowed by `--fail-above`." },
    { MAN_EXIT, "profile", "130, 143", "Ended by SIGINT (Ctrl-C) or SIGTERM. The report is complete." },

    { MAN_FILES, "profile|run|report|import|compare|export", "RUN_DIR/report.html",
      "The report as one self-contained page. `report.md` is the same content as text." },
    { MAN_FILES, "profile|run|report|import|compare|export", "RUN_DIR/metrics.json",
      "All numbers of the run, for scripts." },
    { MAN_FILES, "profile|run|report|import|export|stats|trace info|trace dump|trace cut",
      "RUN_DIR/trace/*.ipt", "The recorded traces, one file per process." },
    { MAN_FILES, "profile", "RUN_DIR/config.yaml", "The composed configuration, read by `--rerun`." },
    { MAN_FILES, "profile|calibrate", "~/.cache/inferprof/cpu-peak.json", "Measured peaks of this CPU." },

    { MAN_ENVIRONMENT, "profile|static", "MFU_PEAK_TFLOPS",
      "Dense peak of the device in TFLOP/s. Replaces the value of the device table." },
    { MAN_ENVIRONMENT, "profile|calibrate", "XDG_CACHE_HOME",
      "Folder of the cache for measured peaks. Default: `~/.cache`." },
    { MAN_ENVIRONMENT, "profile", "HF_HUB_CACHE, HF_HOME",
      "Folder of downloaded models (`HF_HOME/hub`), for models given as `ORG/NAME`. Default: "
      "`~/.cache/huggingface/hub`." },
    { MAN_ENVIRONMENT, "profile", "INFERPROF_PYTHON",
      "Python interpreter for `engine=hf`. Default: `python3`." },
    { MAN_ENVIRONMENT, "profile", "INFERPROF_PROGRESS",
      "If it is \"lines\", standard error gets lines such as \"progress: timing 3 of 40 repeats\", also "
      "without a "
      "terminal. The server sets it for its jobs." },
    { MAN_ENVIRONMENT, "profile", "INFERPROF_PROC",
      "Folder to read the load of the machine from. Default: `/proc`." },
    { MAN_ENVIRONMENT, "profile|run|doctor", "INFERPROF_COLLECTOR",
      "Path of libinferprof-collector.so. Default: next to the program, or in `../lib/inferprof`." },
    { MAN_ENVIRONMENT, "profile|run|doctor", "INFERPROF_CUPTI",
      "Path of libcupti.so for the hardware counter sampler. Default: searched in the usual places." },
    { MAN_ENVIRONMENT, "run", "INFERPROF_COLLECT_...",
      "Settings of the collector, for programs that are started without `inferprof run`; see docs/run.md." },
    { MAN_ENVIRONMENT, "profile|run|doctor", "CUDA_INJECTION64_PATH, NVTX_INJECTION64_PATH",
      "Set by inferprof to load the collector. A value that is already set is kept, and the collector is not "
      "loaded through it." },
    { MAN_ENVIRONMENT, "run|doctor", "NCCL_PROFILER_PLUGIN",
      "Set by inferprof to record the collectives of NCCL. A value that is already set is kept." },
    { MAN_ENVIRONMENT, "run|digest", "INFERPROF_RANK, INFERPROF_WORLD_SIZE, INFERPROF_NODE",
      "Rank of the process, number of ranks and name of the node, for launchers that inferprof does not "
      "know; "
      "see docs/ranks.md." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_ISA",
      "Instruction set of the native engine: `portable`, `avx2`, `avx512`, `avx512vnni`, `avx512bf16` or "
      "`amx`. Default: the fastest one for the CPU; `amx` only on request." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_CUDA_MATH",
      "\"exact\": on a GPU, activations have the precision of two bf16 numbers, at twice the work." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_CUDA_PRODUCTS",
      "`mma` or `wgmma`: use only the own matrix products, those for older GPUs or those for Hopper GPUs. "
      "Default: cuBLASLt where it is installed and runs the product, otherwise the own ones." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_CUDA_STAMPS",
      "1: on a GPU, print the mean time of each phase of the persistent kernel per decoding step." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_CUDA_DELAY",
      "For tests, 1: the persistent kernel waits for random times before its barriers." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_CUDA_RACECHECK",
      "For compute-sanitizer, 1: in the persistent kernel every lane arrives at barriers in shared memory, "
      "and "
      "waits have no practical limit." },
    { MAN_ENVIRONMENT, "engine|profile", "INFERPROF_TEST_SLOWDOWN",
      "For tests of `compare`: the native engine waits after every pass until it has taken that many times "
      "as "
      "long. Default: 1." },
    { MAN_ENVIRONMENT, "stats", "TMPDIR", "Folder for temporary files. Default: `/tmp`." },
    { MAN_ENVIRONMENT, "*", "NO_COLOR", "If set and not empty, messages have no color." },
};

/* ---- roff text */

/* Escapes special characters. Text in backticks becomes bold. */
static void roff_text(struct strbuf *out, const char *text) {
    bool bold = false, line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\'')) strbuf_addstr(out, "\\&");
        line_start = *text == '\n';
        switch (*text) {
        case '\\': strbuf_addstr(out, "\\e"); break;
        case '-': strbuf_addstr(out, "\\-"); break;
        case '\'': strbuf_addstr(out, "\\(aq"); break;
        case '"': strbuf_addstr(out, "\\(dq"); break;
        case '~': strbuf_addstr(out, "\\(ti"); break;
        case '^': strbuf_addstr(out, "\\(ha"); break;
        case '`':
            bold = !bold;
            strbuf_addstr(out, bold ? "\\fB" : "\\fR");
            break;
        default: strbuf_addch(out, *text);
        }
    }
    if (bold) strbuf_addstr(out, "\\fR");
}

static void roff_font(struct strbuf *out, char font, const char *text) {
    strbuf_addf(out, "\\f%c", font);
    roff_text(out, text);
    strbuf_addstr(out, "\\fR");
}

static void roff_item(struct strbuf *out, char font, const char *term, const char *text) {
    strbuf_addstr(out, ".TP\n");
    roff_font(out, font, term);
    strbuf_addch(out, '\n');
    roff_text(out, text);
    strbuf_addch(out, '\n');
}

/* Lines are joined into paragraphs. Indented lines are examples. */
static void roff_details(struct strbuf *out, const char *text) {
    bool example = false;
    while (*text) {
        bool indented = *text == ' ';
        if (indented != example) strbuf_addstr(out, indented ? ".PP\n.RS 4\n.nf\n" : ".fi\n.RE\n.PP\n");
        example = indented;
        text += strspn(text, " ");
        size_t n = strcspn(text, "\n");
        char *line = xasprintf("%.*s", (int)n, text);
        roff_text(out, line);
        strbuf_addstr(out, n ? "\n" : ".PP\n");
        free(line);
        text += n + (text[n] == '\n');
    }
    if (example) strbuf_addstr(out, ".fi\n.RE\n");
}

/* ---- pages */

/* "inferprof-trace-info" for "trace info"; caller frees */
static char *man_page_name(const struct command *c) {
    char *name = c ? xasprintf("inferprof-%s", c->name) : xasprintf("inferprof");
    for (char *p = name; *p; p++)
        if (*p == ' ') *p = '-';
    return name;
}

static void add_title(struct strbuf *out, const char *name, const char *summary) {
    strbuf_addstr(out, ".TH ");
    for (const char *p = name; *p; p++) strbuf_addch(out, (char)toupper((unsigned char)*p));
    strbuf_addf(out, " 1 \"\" \"inferprof %s\" \"User Commands\"\n.SH NAME\n", build_version());
    roff_text(out, name);
    strbuf_addstr(out, " \\- ");
    roff_text(out, summary);
    strbuf_addch(out, '\n');
}

static void add_options(struct strbuf *out, const struct opt *rows, size_t n) {
    for (const struct opt *o = rows; o < rows + n; o++) {
        strbuf_addstr(out, ".TP\n");
        if (o->letter) strbuf_addf(out, "\\fB\\-%c\\fR, ", o->letter);
        strbuf_addstr(out, "\\fB\\-\\-");
        roff_text(out, o->name);
        strbuf_addstr(out, "\\fR");
        const char *value = o->type == OPT_CHOICE ? o->choices : o->arg;
        if (value) strbuf_addch(out, ' ');
        if (value) roff_font(out, o->type == OPT_CHOICE ? 'R' : 'I', value);
        strbuf_addch(out, '\n');
        roff_text(out, o->help);
        if (o->choices && o->type != OPT_CHOICE) {
            strbuf_addstr(out, ".\nRange: ");
            roff_text(out, o->choices);
        }
        strbuf_addch(out, '\n');
    }
}

static void add_items(struct strbuf *out, enum man_section section, const char *heading,
                      const struct command *c) {
    bool any = false;
    for (size_t i = 0; i < COUNTOF(man_items); i++) {
        const struct man_item *m = &man_items[i];
        bool all = strcmp(m->commands, "*") == 0;
        if (m->section != section || !(all || (c && opt_is_choice(m->commands, c->name)))) continue;
        if (!any) strbuf_addf(out, ".SH %s\n", heading);
        any = true;
        roff_item(out, 'B', m->term, m->text);
    }
}

static void add_items_of_all_sections(struct strbuf *out, const struct command *c) {
    add_items(out, MAN_EXIT, "EXIT STATUS", c);
    add_items(out, MAN_FILES, "FILES", c);
    add_items(out, MAN_ENVIRONMENT, "ENVIRONMENT", c);
}

/* Lists inferprof(1) and the other commands of the family ("trace cut" for "trace info"). */
static void add_see_also(struct strbuf *out, const struct command *c) {
    size_t family = strcspn(c->name, " ");
    strbuf_addstr(out, ".SH SEE ALSO\n.BR inferprof (1)");
    for (size_t i = 0; i < commands_n; i++) {
        const struct command *other = commands[i];
        if (other == c || !c->name[family] || strncmp(other->name, c->name, family + 1) != 0) continue;
        char *name = man_page_name(other);
        strbuf_addstr(out, ",\n.BR ");
        roff_text(out, name);
        strbuf_addstr(out, " (1)");
        free(name);
    }
    strbuf_addch(out, '\n');
}

static void add_command_page(struct strbuf *out, const struct command *c) {
    size_t nglobal;
    const struct opt *global = command_global_options(&nglobal);
    char *name = man_page_name(c);
    add_title(out, name, c->summary);
    strbuf_addstr(out, ".SH SYNOPSIS\n\\fBinferprof ");
    roff_text(out, c->name);
    strbuf_addstr(out, "\\fR [\\fIoptions\\fR] ");
    roff_font(out, 'I', c->args);
    strbuf_addstr(out, "\n.SH DESCRIPTION\n");
    roff_details(out, c->details ? c->details : c->summary);
    strbuf_addstr(out, ".SH OPTIONS\n");
    add_options(out, c->opts, c->nopts);
    add_options(out, global, nglobal);
    add_items_of_all_sections(out, c);
    add_see_also(out, c);
    free(name);
}

static void add_main_page(struct strbuf *out) {
    size_t nglobal;
    const struct opt *global = command_global_options(&nglobal);
    add_title(out, "inferprof", "profile LLM inference and compare it with the hardware limits");
    strbuf_addstr(
        out, ".SH SYNOPSIS\n\\fBinferprof\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n"
             ".SH DESCRIPTION\n"
             "inferprof runs a model, or records a program that runs one, and reports the time per stage, "
             "the ratio to the roofline time, MFU and MBU, kernels and operators, and findings ranked "
             "by the time they could save.\n"
             "Results go to standard output, messages to standard error.\n"
             ".SH COMMANDS\n");
    for (size_t i = 0; i < commands_n; i++) {
        char *name = man_page_name(commands[i]);
        strbuf_addstr(out, ".TP\n.BR ");
        roff_text(out, name);
        strbuf_addstr(out, " (1)\n");
        roff_text(out, commands[i]->summary);
        strbuf_addch(out, '\n');
        free(name);
    }
    strbuf_addstr(out, ".SH OPTIONS\nEvery command accepts these options:\n");
    add_options(out, global, nglobal);
    roff_item(out, 'B', "--version", "Print the version, compiler and libraries. Without a command only.");
    strbuf_addstr(out, ".PP\n");
    roff_text(out, "A flag is switched off by `--no-NAME`.\n");
    add_items_of_all_sections(out, NULL);
    strbuf_addstr(out, ".SH SEE ALSO\n");
    for (size_t i = 0; i < commands_n; i++) {
        char *name = man_page_name(commands[i]);
        strbuf_addstr(out, ".BR ");
        roff_text(out, name);
        strbuf_addstr(out, i + 1 < commands_n ? " (1),\n" : " (1)\n");
        free(name);
    }
}

static void add_page(struct strbuf *out, const struct command *c) {
    if (c)
        add_command_page(out, c);
    else
        add_main_page(out);
}

/* ---- the command */

static int write_page(const char *dir, const struct command *c, struct err *err) {
    struct strbuf page = STRBUF_INIT;
    char *name = man_page_name(c), *path = xasprintf("%s/%s.1", dir, name);
    add_page(&page, c);
    int rc = file_write_atomic(path, page.buf, page.len, err);
    free(path);
    free(name);
    strbuf_free(&page);
    return rc;
}

static int write_all_pages(const char *dir) {
    struct err err;
    int rc = file_mkdirs(dir, &err);
    if (rc == 0) rc = write_page(dir, NULL, &err);
    for (size_t i = 0; rc == 0 && i < commands_n; i++) rc = write_page(dir, commands[i], &err);
    return rc == 0 ? EXIT_DONE : command_fail(&err);
}

static int man_run(const void *opts, int argc, char **argv) {
    const struct man_opts *o = opts;
    if (o->output && argc) return command_usage("man: --output writes all pages; omit COMMAND");
    if (o->output) return write_all_pages(o->output);
    char *name = argc ? xasprintf("%s%s%s", argv[0], argc > 1 ? " " : "", argc > 1 ? argv[1] : "") : NULL;
    const struct command *c = name ? command_find(name) : NULL;
    int status = EXIT_DONE;
    if (name && !c) {
        status = command_usage("man: unknown command '%s'; see 'inferprof --help' for the list", name);
    } else {
        struct strbuf page = STRBUF_INIT;
        add_page(&page, c);
        fputs(page.buf, stdout);
        strbuf_free(&page);
    }
    free(name);
    return status;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct man_opts, output), "DIR",
      "write all pages to this folder, one file per page", NULL },
};

const struct command cmd_man = {
    .name = "man",
    .args = "[COMMAND]",
    .summary = "print the manual page of a command (roff)",
    .details = "Without COMMAND: the page of inferprof itself. To read a page that is not installed:\n"
               "  inferprof man profile | man -l -",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct man_opts),
    .max_args = 2,
    .run = man_run,
};

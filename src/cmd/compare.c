/* inferprof compare: compares runs and tests whether the differences are significant. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "report/compare.h"
#include "report/report.h"
#include "run/load.h"

struct compare_opts {
    bool json, markdown, runs, junit, github, bencher;
    const char *mlflow; /* run id of MLflow */
    double fail_above;
};

/* Loads metrics.json, or computes the metrics from the traces. */
static struct saved_metrics *open_run(const char *operand, struct err *err) {
    char *path = file_join(operand, "metrics.json");
    struct saved_metrics *m = NULL;
    if (file_is_dir(operand) && file_exists(path)) {
        m = saved_metrics_load(path, err);
    } else if (file_has_ending(operand, ".json")) {
        m = saved_metrics_load(operand, err);
    } else {
        struct loaded_run r;
        struct strbuf text = STRBUF_INIT;
        if (run_load(&r, &operand, 1, NULL, err) == 0) {
            r.info.version = build_version();
            struct view v;
            view_init(&v, &r.info);
            report_metrics_json(&v, &text);
            view_free(&v);
            m = saved_metrics_parse(text.buf, text.len, operand, err);
            run_unload(&r);
        }
        strbuf_free(&text);
    }
    free(path);
    return m;
}

/* The runs of one side. */
struct side {
    struct saved_metrics **v;
    size_t n;
};

static int open_side(struct side *s, char **operands, size_t n, struct err *err) {
    s->v = xcalloc(n + 1, sizeof *s->v);
    for (; s->n < n; s->n++)
        if (!(s->v[s->n] = open_run(operands[s->n], err))) return -1;
    return 0;
}

static void close_side(struct side *s) {
    for (size_t i = 0; i < s->n; i++) saved_metrics_close(s->v[i]);
    free(s->v);
}

/* --fail-above must not succeed if no stage could be tested. */
static int check_judged(const struct comparison *c) {
    struct err err;
    const char *reason;
    if (!compare_has_common_stage(c)) {
        err_set(&err, "no stage has a time in both runs: nothing was compared");
        return command_fail(&err);
    }
    if (compare_judged_stage(c, &reason)) return EXIT_DONE;
    err_set(&err, "no stage could be tested%s%s", reason ? ": " : "", reason ? reason : "");
    return command_fail(&err);
}

static int gate(const struct comparison *c, const struct compare_opts *o) {
    if (isnan(o->fail_above)) return EXIT_DONE;
    int status = check_judged(c);
    if (status != EXIT_DONE) return status;
    const struct compare_row *worst = compare_regression(c, o->fail_above / 100);
    if (!worst) return EXIT_DONE;
    fprintf(stderr, "%s is slower by %s, more than the %g%% allowed\n", worst->name,
            text_percent(worst->change).s, o->fail_above);
    return EXIT_SLOWER;
}

#define GREEN "\033[32m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

/* Returns the color of a line that ends with a verdict, or NULL. */
static const char *verdict_color(const char *line, size_t n, size_t *word_at) {
    static const struct {
        const char *word, *color;
    } verdicts[] = { { "  faster", GREEN }, { "  better", GREEN }, { "  slower", RED }, { "  worse", RED } };
    static const char unstable[] = " (unstable)";
    size_t tail = sizeof unstable - 1;
    if (n > tail && memcmp(line + n - tail, unstable, tail) == 0) n -= tail;
    for (size_t i = 0; i < COUNTOF(verdicts); i++) {
        size_t len = strlen(verdicts[i].word);
        if (n < len || memcmp(line + n - len, verdicts[i].word, len) != 0) continue;
        *word_at = n - len + 2;
        return verdicts[i].color;
    }
    return NULL;
}

/* Prints the text; on a terminal, significant verdicts are colored. */
static void print_verdicts(const char *text) {
    bool use_color = log_use_color(STDOUT_FILENO);
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        size_t word_at = n = strcspn(text, "\n");
        const char *color = use_color ? verdict_color(text, n, &word_at) : NULL;
        printf("%.*s%s%.*s%s\n", (int)word_at, text, color ? color : "", (int)(n - word_at), text + word_at,
               color ? PLAIN : "");
    }
}

static int print_comparison(const struct side *a, const struct side *b, const struct compare_opts *o) {
    struct comparison c;
    struct strbuf out = STRBUF_INIT;
    compare_sides(&(struct compare_side){ a->v, a->n }, &(struct compare_side){ b->v, b->n }, &c);
    if (o->junit)
        compare_junit(&c, o->fail_above / 100, &out);
    else if (o->github)
        compare_github(&c, &out);
    else if (o->bencher)
        compare_bencher(&c, &out);
    else if (o->mlflow)
        compare_mlflow(&c, o->mlflow, clock_wall_ns() / 1000000, &out);
    else if (o->json)
        compare_json(&c, &out);
    else
        compare_text(&c, o->markdown ? COMPARE_MARKDOWN : COMPARE_TEXT, command_line_width(), &out);
    if (o->json || o->markdown || o->junit || o->github || o->bencher || o->mlflow)
        fputs(out.buf, stdout);
    else
        print_verdicts(out.buf);
    int status = gate(&c, o);
    strbuf_free(&out);
    compare_free(&c);
    return status;
}

/* operands of A and B */
struct split {
    size_t a_from, a_n, b_from, b_n;
};

/* With --runs, "--" separates A from B. Otherwise "--" is ignored: "-- A B" means "A B". */
static bool split_operands(bool runs, size_t n, char **v, struct split *s) {
    size_t marker = 0;
    while (marker < n && strcmp(v[marker], "--") != 0) marker++;
    if (runs) {
        *s = (struct split){ 0, marker, marker + 1, marker < n ? n - marker - 1 : 0 };
        return s->a_n > 0 && s->b_n > 0;
    }
    size_t from = marker == 0, second = from + 1 + (marker == 1 && n == 3);
    *s = (struct split){ from, 1, second, 1 };
    return n == second + 1 && (marker >= n || marker == second - 1 || marker == 0);
}

static int run(const void *opts, int argc, char **argv) {
    const struct compare_opts *o = opts;
    struct split s;
    struct err err;
    if (o->json + o->markdown + o->junit + o->github + o->bencher + (o->mlflow != NULL) > 1)
        return command_usage(
            "compare: --json, --markdown, --junit, --github, --bencher and --mlflow exclude each "
            "other");
    if (!split_operands(o->runs, (size_t)argc, argv, &s))
        return command_usage(o->runs ? "compare: expected --runs A... -- B..."
                                     : "compare: expected A B, or --runs A... -- B... for several runs per "
                                       "side; see 'inferprof compare --help'");
    struct side a = { 0 }, b = { 0 };
    int status;
    if (open_side(&a, argv + s.a_from, s.a_n, &err) < 0 || open_side(&b, argv + s.b_from, s.b_n, &err) < 0)
        status = command_fail(&err);
    else
        status = print_comparison(&a, &b, o);
    close_side(&a);
    close_side(&b);
    return status;
}

static const struct opt options[] = {
    { 0, "runs", OPT_FLAG, offsetof(struct compare_opts, runs), NULL,
      "several runs per side, separated by --", NULL },
    { 0, "json", OPT_FLAG, offsetof(struct compare_opts, json), NULL, "print JSON", NULL },
    { 0, "markdown", OPT_FLAG, offsetof(struct compare_opts, markdown), NULL,
      "print Markdown, for a merge request", NULL },
    { 0, "junit", OPT_FLAG, offsetof(struct compare_opts, junit), NULL,
      "print JUnit XML: a slower stage is a failed test", NULL },
    { 0, "github", OPT_FLAG, offsetof(struct compare_opts, github), NULL,
      "print Markdown for a comment on a pull request, with the details folded", NULL },
    { 0, "bencher", OPT_FLAG, offsetof(struct compare_opts, bencher), NULL,
      "print the values of B in Bencher's metric format", NULL },
    { 0, "mlflow", OPT_STR, offsetof(struct compare_opts, mlflow), "RUN_ID",
      "print the body of MLflow's runs/log-batch for this run", NULL },
    { 0, "fail-above", OPT_DOUBLE, offsetof(struct compare_opts, fail_above), "PCT",
      "exit with status 3 if a stage of B is significantly slower than in A, by more than PCT percent",
      "0.." },
};

static const struct compare_opts defaults = { .fail_above = NAN };

const struct command cmd_compare = {
    .name = "compare",
    .args = "A B",
    .summary = "compare two runs, or two sets of runs, and report which differences are significant",
    .details = "A and B are run folders, metrics.json files or traces; --runs A1 A2 A3 -- B1 B2 B3 compares "
               "two sets of them.\n"
               "The test compares processes, not repeats: processes of one binary differ by more than their "
               "repeats do. A difference\n"
               "is significant if an exact permutation test over the processes of both sides, corrected for "
               "the number of rows, rejects\n"
               "chance at 95%. This requires 4 processes per side: run 'inferprof profile processes=5'. If "
               "the runs of "
               "A and B alternate\n"
               "in time (A B B A ...), the drift of the machine between neighbouring runs is removed.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct compare_opts),
    .min_args = 2,
    .max_args = -1,
    .keeps_marker = true,
    .complete = COMPLETE_FOLDERS,
    .run = run,
};

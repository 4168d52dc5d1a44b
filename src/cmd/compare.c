/* inferprof compare: did it get faster, and is that certain? */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "report/compare.h"
#include "report/report.h"
#include "run/load.h"
#include "report/text.h"

struct compare_opts {
    bool json, markdown;
    double fail_above;
};

/* A run's metrics: from its metrics.json, or made here from its traces. */
static struct saved_metrics *open_side(const char *operand, struct err *err) {
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

static int verdict(const struct comparison *c, const struct compare_opts *o) {
    if (isnan(o->fail_above)) return EXIT_DONE;
    if (!compare_has_common_stage(c)) { /* a gate that compared nothing must not pass */
        struct err err;
        err_set(&err, "no stage has a time in both runs: nothing was compared");
        return command_fail(&err);
    }
    const struct compare_row *worst = compare_regression(c, o->fail_above / 100);
    if (!worst) return EXIT_DONE;
    fprintf(stderr, "%s is slower by %s, more than the %g%% allowed\n", worst->name,
            text_percent(worst->change).s, o->fail_above);
    return EXIT_SLOWER;
}

static int run(const void *opts, int argc, char **argv) {
    const struct compare_opts *o = opts;
    struct err err;
    (void)argc;
    if (o->json && o->markdown) return command_usage("compare: --json and --markdown exclude each other");
    struct saved_metrics *a = open_side(argv[0], &err);
    if (!a) return command_fail(&err);
    struct saved_metrics *b = open_side(argv[1], &err);
    if (!b) {
        saved_metrics_close(a);
        return command_fail(&err);
    }
    struct comparison c;
    struct strbuf out = STRBUF_INIT;
    compare_runs(a, b, &c);
    if (o->json)
        compare_json(&c, &out);
    else
        compare_text(&c, o->markdown ? COMPARE_MARKDOWN : COMPARE_TEXT, &out);
    fputs(out.buf, stdout);
    int status = verdict(&c, o);
    strbuf_free(&out);
    compare_free(&c);
    saved_metrics_close(a);
    saved_metrics_close(b);
    return status;
}

static const struct opt options[] = {
    { 0, "json", OPT_FLAG, offsetof(struct compare_opts, json), NULL, "print JSON", NULL },
    { 0, "markdown", OPT_FLAG, offsetof(struct compare_opts, markdown), NULL,
      "print Markdown, for a merge request", NULL },
    { 0, "fail-above", OPT_DOUBLE, offsetof(struct compare_opts, fail_above), "PCT",
      "exit with 3 when a stage of B is slower than A's by more than this", "0.." },
};

static const struct compare_opts defaults = { .fail_above = NAN };

const struct command cmd_compare = {
    .name = "compare",
    .args = "A B",
    .summary = "lay two runs side by side, with confidence intervals from their repeats",
    .details = "A and B are run folders, metrics.json files or traces. A difference is called one only when "
               "its 95% confidence\n"
               "interval (Welch) leaves 0 out; with fewer than two repeats nothing can be shown, and the "
               "plain change is printed.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct compare_opts),
    .min_args = 2,
    .max_args = 2,
    .complete = COMPLETE_FOLDERS,
    .run = run,
};

/* Untrusted metrics.json and ncu.json: read, filled in, compared with themselves, printed, and converted to
 * rows of the database of runs. */
#include <math.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "history/record.h"
#include "report/compare.h"
#include "report/report.h"
#include "run/saved_metrics.h"
#include "run/ncu_profiles.h"

/* PostgreSQL rejects longer names and counts that are not whole. */
static void check_record(const struct saved_metrics *m) {
    struct run_record r = { 0 };
    run_record_fill(&r, m);
    const char *names[] = { r.model, r.device, r.engine, r.host, r.version };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && (!*names[i] || strlen(names[i]) > 200)) __builtin_trap();
    if (!isnan(r.repeats) && r.repeats != floor(r.repeats)) __builtin_trap();
    for (size_t i = 0; i < r.stages.n; i++)
        if (strlen(r.stages.v[i].name) > 200) __builtin_trap();
    run_record_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    ncu_profiles_close(ncu_profiles_parse((const char *)data, size, "fuzz", &err));
    struct saved_metrics *m = saved_metrics_parse((const char *)data, size, "fuzz", &err);
    if (!m) return 0;
    check_record(m);
    struct run_info in;
    struct analyze_input input = saved_metrics_input(m);
    struct analysis a;
    struct comparison c;
    struct view v;
    struct strbuf out = STRBUF_INIT;
    run_info_init(&in);
    saved_metrics_fill(m, &in);
    analyze_run(NULL, &input, &a);
    in.analysis = &a;
    view_init(&v, &in);
    report_metrics_json(&v, &out);
    report_html(&v, &out);
    report_markdown(&v, &out);
    report_summary(&v, &out);
    view_free(&v);
    compare_sides(&(struct compare_side){ &m, 1 }, &(struct compare_side){ &m, 1 }, &c);
    compare_text(&c, COMPARE_MARKDOWN, 60, &out);
    compare_json(&c, &out);
    compare_free(&c);
    strbuf_free(&out);
    analysis_free(&a);
    saved_metrics_close(m);
    return 0;
}

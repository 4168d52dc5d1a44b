/* Untrusted metrics.json and ncu.json: read, filled in, compared with themselves, printed. */
#include "fuzz/fuzz.h"
#include "report/compare.h"
#include "report/report.h"
#include "run/saved_metrics.h"
#include "run/ncu_profiles.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    ncu_profiles_close(ncu_profiles_parse((const char *)data, size, "fuzz", &err));
    struct saved_metrics *m = saved_metrics_parse((const char *)data, size, "fuzz", &err);
    if (!m) return 0;
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
    compare_text(&c, COMPARE_MARKDOWN, &out);
    compare_json(&c, &out);
    compare_free(&c);
    strbuf_free(&out);
    analysis_free(&a);
    saved_metrics_close(m);
    return 0;
}

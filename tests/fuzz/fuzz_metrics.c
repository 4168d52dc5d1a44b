/* Untrusted metrics.json and ncu.json: read, filled in, compared with themselves, printed. */
#include "fuzz/fuzz.h"
#include "report/compare.h"
#include "report/memory.h"
#include "report/profiles.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    report_profiles_close(report_profiles_parse((const char *)data, size, "fuzz", &err));
    struct report_memory *m = report_memory_parse((const char *)data, size, "fuzz", &err);
    if (!m) return 0;
    struct report_input in;
    struct analyze_input input = report_memory_input(m);
    struct analysis a;
    struct comparison c;
    struct strbuf out = STRBUF_INIT;
    report_input_init(&in);
    report_memory_fill(m, &in);
    analyze_run(NULL, &input, &a);
    in.analysis = &a;
    report_metrics_json(&in, &out);
    report_html(&in, &out);
    report_markdown(&in, &out);
    report_summary(&in, &out);
    compare_runs(m, m, &c);
    compare_text(&c, COMPARE_MARKDOWN, &out);
    compare_json(&c, &out);
    compare_free(&c);
    strbuf_free(&out);
    analysis_free(&a);
    report_memory_close(m);
    return 0;
}

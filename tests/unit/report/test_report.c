#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counters.h"
#include "base/file.h"
#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "report/chart_axis.h"
#include "report/chart_labels.h"
#include "report/compare.h"
#include "report/export.h"
#include "report/rows.h"
#include "report/window.h"
#include "run/saved_metrics.h"
#include "unit/report/sample.h"
#include "unit/test.h"

TEST(text_numbers_are_for_people_and_unknown_is_a_dash) {
    CHECK_STR(text_num(1234567.891, 2).s, "1,234,567.89");
    CHECK_STR(text_num(-1234, 0).s, "-1,234");
    CHECK_STR(text_num(NAN, 2).s, "\xe2\x80\x93");
    CHECK_STR(text_num(1e300, 2).s, "1e+300");
    CHECK_STR(text_ms(630.04).s, "630.0 ms");
    CHECK_STR(text_ms(0.01234).s, "0.0123 ms");
    CHECK_STR(text_ms(NAN).s, "\xe2\x80\x93");
    CHECK_STR(text_percent(0.7236).s, "72.4%");
    CHECK_STR(text_percent(0.0512).s, "5.12%");
    CHECK_STR(text_percent(INFINITY).s, "\xe2\x80\x93");
    CHECK_STR(text_times(16.41).s, "16.4x");
    CHECK_STR(text_raw(NAN).s, "");
    CHECK_STR(text_raw(0.1).s, "0.1");
    CHECK_STR(text_raw(1234567890123.0).s, "1234567890123");
}

TEST(markdown_keeps_foreign_text_text) {
    struct strbuf s = STRBUF_INIT;
    text_markdown(&s, "# *a* [x](y) <b>\n|c");
    CHECK_STR(s.buf, "\\# \\*a\\* \\[x\\](y) &lt;b>\xef\xbf\xbd\\|c");
    strbuf_reset(&s);
    text_markdown_block(&s, "", "```\nx");
    CHECK_STR(s.buf, "````\n```\nx\n````\n");
    strbuf_free(&s);
}

/* Names from the trace must not become markup. */
TEST(page_holds_no_markup_from_the_trace) {
    struct sample s;
    struct strbuf out = STRBUF_INIT;
    sample_init(&s, 3, 16);
    report_html(&s.view, &out);
    CHECK(strstr(out.buf, "<img") == NULL);
    CHECK(strstr(out.buf, "onerror=alert(1)&gt;") != NULL);
    const char *data = strstr(out.buf, "id=\"timeline-data\">");
    CHECK(data != NULL);
    const char *line_separator = strstr(data, "\xe2\x80\xa8"); /* U+2028 ends a line in JavaScript */
    CHECK(line_separator == NULL || line_separator > strstr(data, "</script"));
    int scripts = 0;
    for (const char *p = out.buf; (p = strstr(p, "</script")); p++) scripts++;
    CHECK_INT(scripts, 3); /* the data, the tables, the timeline */
    CHECK(strstr(out.buf, "451.0 ms") != NULL);
    CHECK(strstr(out.buf, ">nan<") == NULL && strstr(out.buf, "nan%") == NULL);
    CHECK(strstr(out.buf, ">inf<") == NULL && strstr(out.buf, "inf%") == NULL);
    strbuf_free(&out);
    sample_free(&s);
}

static size_t slices_of(const char *json) {
    json_t *root = json_loads(json, 0, NULL);
    CHECK(root != NULL);
    size_t n = 0, i;
    json_t *track;
    json_array_foreach(json_object_get(root, "tracks"), i, track) {
        size_t k = json_array_size(json_object_get(track, "s"));
        CHECK_INT(json_array_size(json_object_get(track, "d")), k);
        CHECK_INT(json_array_size(json_object_get(track, "n")), k);
        n += k;
    }
    json_decref(root);
    return n;
}

TEST(window_holds_all_or_says_what_it_left_out) {
    struct sample s;
    struct strbuf out = STRBUF_INIT;
    sample_init(&s, 10, 20); /* 11 * 20 kernels and operators, a copy, two stages */
    CHECK(window_json(&s.view, ANALYSIS_NONE, 100000, &out));
    CHECK_INT(slices_of(out.buf), 443);
    CHECK(strstr(out.buf, "Whole trace, 443 slices") != NULL);
    strbuf_reset(&out);
    CHECK(window_json(&s.view, ANALYSIS_NONE, 100, &out));
    size_t kept = slices_of(out.buf);
    CHECK(kept > 0 && kept <= 100);
    CHECK(strstr(out.buf, "Window: ") != NULL);
    strbuf_free(&out);
    sample_free(&s);
}

/* Without a trace: all data that is not in traces must be preserved. */
TEST(metrics_read_back_as_they_were_written) {
    struct sample s;
    struct strbuf first = STRBUF_INIT, second = STRBUF_INIT;
    struct run_info in;
    struct analysis timed, again;
    struct view v;
    struct err err;
    sample_init(&s, 2, 8);
    s.in.peak.flops_per_s = s.input.peak_flops_per_s = 989e12;
    s.in.peak.bytes_per_s = s.input.peak_bytes_per_s = 4.8e12;
    analyze_run(NULL, &s.input, &timed);
    CHECK_INT(timed.nstages, 3); /* of tokenize nothing is known */
    CHECK_STR(timed.stages[1].path, "prefill/sam");
    s.in.analysis = &timed;
    s.in.timeline = NULL;
    view_free(&s.view);
    view_init(&s.view, &s.in);
    report_metrics_json(&s.view, &first);
    struct saved_metrics *m = saved_metrics_parse(first.buf, first.len, "first", &err);
    CHECK(m != NULL);
    run_info_init(&in);
    saved_metrics_fill(m, &in);
    in.version = s.in.version;
    struct analyze_input input = saved_metrics_input(m);
    CHECK_INT(input.ntimings, 3);
    CHECK_INT(input.timings[2].n, 5);
    CHECK(isnan(input.timings[2].ms[3]));
    input.peak_flops_per_s = in.peak.flops_per_s;
    input.peak_bytes_per_s = in.peak.bytes_per_s;
    analyze_run(NULL, &input, &again);
    in.analysis = &again;
    view_init(&v, &in);
    report_metrics_json(&v, &second);
    view_free(&v);
    CHECK_STR(second.buf, first.buf);
    CHECK(strstr(first.buf, "\"mfu\": 0.1") != NULL); /* 4.1e12 FLOPs in 41.2 ms of 989e12/s */
    analysis_free(&timed);
    analysis_free(&again);
    saved_metrics_close(m);
    strbuf_free(&first);
    strbuf_free(&second);
    sample_free(&s);
}

TEST(reports_are_written_without_a_trace_and_without_repeats) {
    struct sample s;
    struct err err;
    char *dir = test_tmpdir();
    sample_init(&s, 2, 8);
    s.in.nfigures = 0;
    CHECK_INT(report_write_all(dir, &s.view, &err), 0);
    struct run_info none;
    struct view nothing;
    run_info_init(&none);
    view_init(&nothing, &none);
    CHECK_INT(report_write_all(dir, &nothing, &err), 0);
    view_free(&nothing);
    struct strbuf page = STRBUF_INIT;
    char *path = file_join(dir, "report.html");
    CHECK_INT(file_read(path, 1 << 24, &page, &err), 0);
    CHECK(strstr(page.buf, "no trace was recorded") != NULL);
    strbuf_free(&page);
    free(path);
    free(dir);
    sample_free(&s);
}

static bool is_old(const char *problem) { return strncmp(problem, "old", 3) == 0; }

TEST(terminal_limit_counts_only_the_problems_it_shows) {
    const char *const warnings[] = { "old 1",  "old 2", "old 3",  "old 4", "first new",
                                     "second", "third", "fourth", "fifth" };
    struct sample s;
    struct strbuf out = STRBUF_INIT;
    sample_init(&s, 2, 8);
    s.in.warnings = warnings;
    s.in.nwarnings = COUNTOF(warnings);
    CHECK_INT(report_terminal(&s.view, &(struct report_screen){ .width = 90, .is_known = is_old }, &out), 8);
    CHECK(strstr(out.buf, "old ") == NULL);
    CHECK(strstr(out.buf, "first new") != NULL);
    CHECK(strstr(out.buf, "fourth") != NULL);
    CHECK(strstr(out.buf, "fifth") == NULL);
    strbuf_free(&out);
    sample_free(&s);
}

/* The page shows the busy time of the recorded run. metrics.json has the part of the timed median. */
TEST(recorded_busy_time_is_not_scaled_to_the_timed_repeats) {
    struct sample s;
    struct strbuf page = STRBUF_INIT, json = STRBUF_INIT;
    sample_init(&s, 2, 8);
    s.analysis.stages[0].recorded_busy_ms = 30;
    report_markdown(&s.view, &page);
    report_metrics_json(&s.view, &json);
    CHECK(strstr(page.buf, "| stage | time ms (timed) | GPU busy ms (recorded) |") != NULL);
    CHECK(strstr(page.buf, "| prefill | 41.20 | 30.00 |") != NULL);
    CHECK(strstr(json.buf, "\"gpu_busy_ms\": 33.784") != NULL); /* 82% of 41.2 ms */
    strbuf_free(&page);
    strbuf_free(&json);
    sample_free(&s);
}

TEST(small_launch_rates_have_two_digits) {
    static const struct {
        double rate;
        const char *shown;
    } cases[] = { { 0.15625, "0.16" }, { 0.0004, "0.00040" }, { 2, "2" }, { 2.25, "2.2" }, { 40.4, "40" } };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct sample s;
        struct strbuf page = STRBUF_INIT, screen = STRBUF_INIT;
        char cell[32], end[32];
        sample_init(&s, 2, 8);
        s.analysis.stages[2].launches_per_token = cases[i].rate;
        report_markdown(&s.view, &page);
        report_terminal(&s.view, &(struct report_screen){ .width = 120 }, &screen);
        snprintf(cell, sizeof cell, "| %s |", cases[i].shown);
        snprintf(end, sizeof end, "  %s\n", cases[i].shown);
        CHECK(strstr(page.buf, cell) != NULL);
        CHECK(strstr(screen.buf, end) != NULL);
        strbuf_free(&page);
        strbuf_free(&screen);
        sample_free(&s);
    }
}

TEST(screen_and_page_show_the_deviation_within_an_input) {
    struct sample s;
    struct strbuf out = STRBUF_INIT, page = STRBUF_INIT;
    sample_init(&s, 2, 8);
    s.analysis.stages[0].spread_ms = 0.412;
    s.analysis.stages[0].timing_ms.std = 9.87; /* inputs differ */
    report_html(&s.view, &page);
    CHECK(strstr(page.buf, "<small>\u00b1 0.412 ms</small>") != NULL);
    CHECK(strstr(page.buf, "<dt>\u00b1</dt><dd>spread: ") != NULL);
    strbuf_free(&page);
    report_terminal(&s.view, &(struct report_screen){ .width = 120 }, &out);
    CHECK(strstr(out.buf, "time ms  spread ms ") != NULL);
    CHECK(strstr(out.buf, "   0.412 ") != NULL);
    strbuf_free(&out);
    sample_free(&s);
}

TEST(terminal_screen_stays_inside_its_width) {
    struct sample s;
    struct strbuf out = STRBUF_INIT;
    sample_init(&s, 2, 8);
    report_terminal(&s.view, &(struct report_screen){ .width = 90 }, &out);
    CHECK(strstr(out.buf, "\ndecode  ") != NULL);
    size_t lines = 0, column = 0, widest = 0;
    for (const char *p = out.buf; *p; p++) {
        bool starts_character = (*p & 0xc0) != 0x80; /* UTF-8: not a continuation byte */
        lines += *p == '\n';
        column = *p == '\n' ? 0 : column + starts_character;
        if (column > widest) widest = column;
    }
    CHECK(lines > 10 && lines < 45);
    CHECK(widest > 60 && widest <= 90);
    CHECK(strchr(out.buf, '\x1b') == NULL);
    strbuf_free(&out);
    sample_free(&s);
}

TEST(export_windows_are_parsed_or_refused) {
    struct sample s;
    struct export_job x;
    struct err err;
    sample_init(&s, 4, 8);
    export_open(&x, s.timeline, &s.analysis);
    const struct analysis_occurrence *decode = &s.analysis.occurrences[1];
    CHECK_INT(export_window(&x, "decode:0", &err), 0);
    CHECK(x.from_ns == decode->start_ns && x.to_ns == decode->wall_end_ns);
    CHECK_INT(export_window(&x, "decode:10us..1.5ms", &err), 0);
    CHECK(x.from_ns == decode->start_ns + 10000 && x.to_ns == decode->start_ns + 1500000);
    CHECK_INT(export_window(&x, "decode:0..0", &err), 0);
    const char *const bad[] = { "decode:",    "decode:x", "decode:1ms",  "decode:1ms..2",   "decode:2ms..1ms",
                                "decode:0..", "nothing",  "decode:1..9", "decode:0..1e30ms" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK_INT(export_window(&x, bad[i], &err), -1);
    export_close(&x);
    sample_free(&s);
}

static struct saved_metrics *parse(const char *stages) {
    struct strbuf s = STRBUF_INIT;
    struct err err;
    strbuf_addf(&s, "{\"schema\":\"inferprof-metrics\",\"schema_version\":1,\"stages\":[%s]}", stages);
    struct saved_metrics *m = saved_metrics_parse(s.buf, s.len, "test", &err);
    strbuf_free(&s);
    return m;
}

TEST(compare_says_no_more_than_the_repeats_show) {
    struct saved_metrics *a =
        parse("{\"name\":\"decode\",\"repeats_ms\":[10,10.1,9.9,10]},{\"name\":\"old\",\"time_ms\":1},"
              "{\"name\":\"once\",\"time_ms\":10}");
    struct saved_metrics *b =
        parse("{\"name\":\"decode\",\"repeats_ms\":[10.05,9.95,null,10.1]},{\"name\":\"new\",\"time_ms\":1},"
              "{\"name\":\"once\",\"time_ms\":15}");
    struct comparison c;
    compare_sides(&(struct compare_side){ &a, 1 }, &(struct compare_side){ &b, 1 }, &c);
    CHECK_INT(c.stages.n, 4);
    CHECK_INT(c.stages.v[0].verdict, COMPARE_CANNOT_TELL);
    CHECK_STR(c.stages.v[0].reason, "one process per side; run with processes=5");
    CHECK_INT(c.stages.v[0].b_repeats, 3);
    CHECK_INT(c.stages.v[1].verdict, COMPARE_ONLY_A);
    CHECK_INT(c.stages.v[2].verdict, COMPARE_CANNOT_TELL);
    CHECK_NEAR(c.stages.v[2].change, 0.5, 1e-12);
    CHECK_INT(c.stages.v[3].verdict, COMPARE_ONLY_B);
    CHECK(compare_regression(&c, 0.4) == NULL);
    const char *reason;
    CHECK(compare_judged_stage(&c, &reason) == NULL);
    CHECK_STR(reason, "one process per side; run with processes=5");
    compare_free(&c);
    saved_metrics_close(a);
    saved_metrics_close(b);
}

/* Six processes of two repeats each, in one run. */
TEST(compare_takes_the_median_of_each_process) {
    static const char rows[] = "{\"process\":%d,\"input\":\"a\"},{\"process\":%d,\"input\":\"a\"}";
    struct saved_metrics *side[2];
    for (int k = 0; k < 2; k++) {
        struct strbuf repeats = STRBUF_INIT, ms = STRBUF_INIT, stages = STRBUF_INIT;
        for (int i = 1; i <= 6; i++) {
            strbuf_addstr(&repeats, i > 1 ? "," : "");
            strbuf_addf(&repeats, rows, i, i);
            strbuf_addf(&ms, "%s%g,%g", i > 1 ? "," : "", (100 + i % 3 * 0.2) * (1 + k * 0.04),
                        (101 + i % 3 * 0.2) * (1 + k * 0.04));
        }
        strbuf_addf(&stages, "{\"name\":\"decode\",\"repeats_ms\":[%s]}],\"repeats\":[%s", ms.buf,
                    repeats.buf);
        side[k] = parse(stages.buf);
        strbuf_free(&repeats);
        strbuf_free(&ms);
        strbuf_free(&stages);
    }
    struct comparison c;
    compare_sides(&(struct compare_side){ &side[0], 1 }, &(struct compare_side){ &side[1], 1 }, &c);
    CHECK_INT(c.a_processes, 6);
    CHECK_INT(c.stages.v[0].a_processes, 6);
    CHECK_INT(c.stages.v[0].a_repeats, 12);
    CHECK_NEAR(c.stages.v[0].a, 100.7, 1e-9);
    CHECK_NEAR(c.stages.v[0].change, 0.04, 1e-9);
    CHECK_INT(c.stages.v[0].verdict, COMPARE_SLOWER);
    CHECK(c.stages.v[0].low > 0.03 && c.stages.v[0].high < 0.05 && c.stages.v[0].believable < 0.01);
    CHECK_STR(compare_regression(&c, 0.03)->name, "decode");
    CHECK(compare_regression(&c, 0.0399) == NULL); /* 4% may be 3.9% */
    compare_free(&c);
    saved_metrics_close(side[0]);
    saved_metrics_close(side[1]);
}

/* One class measured well, the others not at all. */
static struct counter_row measured = { .value = { 61.6, 2.25, 40, 36, NAN, 1.84e9 },
                                       .dram_pct = 76,
                                       .dram_bytes_per_s = 3.648e12,
                                       .roof_pct = 76,
                                       .quality = COUNTER_GOOD,
                                       .bound = COUNTER_BOUND_MEMORY };
static struct counter_means measured_stage = { .covered = 0.5,
                                               .mean = { 12, 6.5, 2, 1.6, NAN, 1.9e9 },
                                               .dram_pct = 3.6,
                                               .dram_bytes_per_s = 1.72e11,
                                               .tensor_at_peak_pct = 6.25 };
static struct analysis_counters counters = {
    .rows = &measured, .means = &measured_stage, .nrows = 1, .nmeans = 1, .samples = 500, .interval_ns = 1e6
};

TEST(counters_are_columns_only_where_they_are) {
    struct sample s;
    struct strbuf with = STRBUF_INIT, without = STRBUF_INIT, json = STRBUF_INIT;
    sample_init(&s, 3, 16);
    report_markdown(&s.view, &without);
    report_html(&s.view, &without);
    CHECK(strstr(without.buf, "DRAM") == NULL);
    s.analysis.counters = &counters;
    s.analysis.stages[0].counters = &measured_stage;
    s.analysis.stages[0].recorded_mbu = 0.037;
    report_markdown(&s.view, &with);
    CHECK(strstr(with.buf,
                 "| 61.6% | 2.25% | 40.0% | 36.0% | 3,648 | \xe2\x80\x93 | 1.84 | 76.0% | memory | good |") !=
          NULL);
    CHECK(strstr(with.buf, "| 50.0% | 3.60% | 3.70% | 172 | 6.50% | 6.25% | \xe2\x80\x93 | 12.0% |") != NULL);
    CHECK(strstr(with.buf, "500 samples, one every 1,000 us") != NULL &&
          strstr(with.buf, "at the same time") == NULL);
    counters.concurrent = 0.034;
    report_markdown(&s.view, &with);
    CHECK(strstr(with.buf, "Several kernels ran at the same time for 3.40% of the kernel time.") != NULL);
    strbuf_reset(&with);
    report_html(&s.view, &with);
    counters.concurrent = 0;
    CHECK(strstr(with.buf, "Several kernels ran at the same time for 3.40%") != NULL);
    CHECK(strstr(with.buf, "title=\"read 40.0%, written 36.0%\">76.0%<small>3,648 GB/s</small>") != NULL);
    CHECK(strstr(with.buf, "memory<small>76.0% of roof, good</small>") != NULL);
    CHECK(strstr(with.buf, "nan%") == NULL && strstr(with.buf, ">nan") == NULL);
    report_metrics_json(&s.view, &json);
    json_t *root = json_loads(json.buf, 0, NULL);
    json_t *first = json_object_get(json_array_get(json_object_get(root, "kernels"), 0), "counters");
    CHECK_NEAR(json_number_value(json_object_get(first, "dram_pct")), 76, 1e-9);
    CHECK(json_is_null(json_object_get(first, "occupancy_pct")));
    CHECK_STR(json_string_value(json_object_get(first, "bound")), "memory");
    json_t *stages = json_object_get(json_object_get(root, "counters"), "stages");
    CHECK_NEAR(json_number_value(json_object_get(json_array_get(stages, 0), "recorded_mbu_pct")), 3.7, 1e-9);
    json_decref(root);
    s.analysis.counters = NULL; /* not its own */
    strbuf_free(&with);
    strbuf_free(&without);
    strbuf_free(&json);
    sample_free(&s);
}

TEST(labels_of_a_chart_leave_marks_free) {
    struct chart_labels l = { .n = 0 };
    chart_labels_reserve(&l, 50, 60, 100);
    CHECK(chart_labels_place(&l, 0, 100, 95) >= 112); /* moved below the mark */
    CHECK_NEAR(chart_labels_place(&l, 61, 90, 95), 95, 0);
}

/* The third label was placed 13 below the first one, but rounding made the distance slightly less than 13. */
TEST(labels_of_a_chart_end_apart_whatever_their_rounding) {
    uint64_t seed = 1;
    for (int chart = 0; chart < 20000; chart++) {
        struct chart_labels l = { .n = 0 };
        double y[8];
        for (size_t i = 0; i < COUNTOF(y); i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            y[i] = chart_labels_place(&l, 0, 100, 250 + (double)(seed >> 40) / (double)(1 << 24) * 30);
            for (size_t k = 0; k < i; k++) CHECK(fabs(y[i] - y[k]) >= 12);
        }
    }
}

TEST(categories_and_roles_have_different_colors) {
    for (int a = 0; a < KERNEL_CATEGORY_END; a++)
        for (int b = 0; b < a; b++) CHECK(chart_category_color(a) != chart_category_color(b));
    for (int a = 0; a < ROLE_END; a++)
        for (int b = 0; b < a; b++) CHECK(chart_role_color(a) != chart_role_color(b));
    CHECK_INT(chart_role_color(ROLE_ATTENTION), chart_category_color(KERNEL_CATEGORY_ATTENTION));
    CHECK_INT(chart_role_color(ROLE_COMMUNICATION), chart_category_color(KERNEL_CATEGORY_COMMUNICATION));
}

TEST(a_time_axis_has_one_unit) {
    static const struct {
        double span_ns;
        const char *last, *unit;
    } rows[] = { { 312e6, ">300 ms<", " ms<" }, { 3.9e9, ">3.5 s<", " s<" }, { 800, ">800 ns<", " ns<" } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct strbuf out = STRBUF_INIT;
        size_t labels = 0;
        chart_time_axis(&(struct chart_box){ 0, 1000, 0, 100 }, rows[i].span_ns, &out);
        CHECK(strstr(out.buf, rows[i].last));
        for (const char *p = out.buf; (p = strstr(p, "</text>")); p++, labels++)
            CHECK(strncmp(p - strlen(rows[i].unit) + 1, rows[i].unit, strlen(rows[i].unit)) == 0);
        CHECK(labels >= 4);
        strbuf_free(&out);
    }
}

TEST(stability_is_unknown_if_no_input_was_repeated) {
    struct analysis_stability rows[] = { { .stage = "a", .ms = { .n = 1 }, .cv = NAN },
                                         { .stage = "b", .ms = { .n = 4 }, .cv = NAN },
                                         { .stage = "c", .ms = { .n = 4 }, .cv = 0.01 } };
    struct analysis a = { .stability = rows, .nstability = COUNTOF(rows) };
    struct view v = { .a = &a };
    struct table t;
    rows_stability_md(&v, &t);
    size_t column = table_find(&t, "verdict");
    CHECK_STR(t.cells.v[column], "too few repeats");
    CHECK_STR(t.cells.v[t.heads.n + column], "unknown: each input ran once");
    CHECK_STR(t.cells.v[2 * t.heads.n + column], "stable");
    table_free(&t);
}

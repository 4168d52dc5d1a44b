/* The published decode of DeepSeek-OCR on an RTX 5090: 78,016 kernels and 179 ms of GPU work for 64
 * tokens, in 630 ms of wall time. Kernel names, counts and mean durations are those of the profile. The
 * launch times are not published, so launches are spread evenly, as in an eager decode loop. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

#define TOKENS 64
#define WALL_NS 630000000ull

struct row {
    char *name;
    unsigned long each; /* launches per token */
    double mean_ns;
};

/* Time (%),Total Time (ns),Instances,Avg (ns),Med,Min,Max,StdDev,Name */
static size_t read_rows(struct strbuf *text, struct row *rows, size_t max) {
    struct err err;
    size_t n = 0;
    char *save;
    CHECK_INT(file_read("tests/data/kernels/dsocr_decode_kern_sum.csv", 1 << 20, text, &err), 0);
    strtok_r(text->buf, "\n", &save);
    for (char *line = strtok_r(NULL, "\n", &save); line && n < max; line = strtok_r(NULL, "\n", &save)) {
        char *field = line;
        double v[8];
        for (int i = 0; i < 8; i++) {
            v[i] = strtod(field, NULL);
            field = strchr(field, ',') + 1;
        }
        size_t len = strlen(field);
        while (len && (field[len - 1] == '\r' || field[len - 1] == '"')) field[--len] = '\0';
        rows[n++] = (struct row){ field + (*field == '"'), (unsigned long)v[2], v[1] / v[2] };
    }
    return n;
}

static struct timeline *decode(bool with_launches, double *busy_ns, size_t *kernels) {
    struct strbuf text = STRBUF_INIT;
    struct row rows[64];
    struct scene s;
    size_t n = read_rows(&text, rows, 64), total = 0, done = 0;
    double *due = xcalloc(n, sizeof *due);
    *busy_ns = 0;
    for (size_t i = 0; i < n; i++) {
        total += rows[i].each;
        *busy_ns += rows[i].mean_ns * (double)rows[i].each;
    }
    scene_start(&s);
    scene_range(&s, TRACE_CATEGORY_STAGE, "decode", 1, 0, WALL_NS);
    uint64_t gpu_free = 0;
    double carry = 0;
    for (; done < total; done++) { /* every step takes the kernel that is furthest behind its share */
        size_t next = 0;
        for (size_t i = 0; i < n; i++) due[i] += (double)rows[i].each / (double)total;
        for (size_t i = 1; i < n; i++)
            if (due[i] > due[next]) next = i;
        due[next] -= 1;
        uint64_t call = (uint64_t)((double)(WALL_NS - 300000) * (double)done / (double)total);
        uint64_t start = call + 4000 > gpu_free ? call + 4000 : gpu_free;
        carry += rows[next].mean_ns;
        uint64_t ns = (uint64_t)carry;
        carry -= (double)ns;
        if (with_launches)
            scene_kernel(&s, rows[next].name, 1, call, call + 3500, 7, start, start + ns);
        else
            timeline_builder_kernel(
                s.b,
                &(struct trace_kernel){ .start_ns = start,
                                        .end_ns = start + ns,
                                        .stream = 7,
                                        .name = timeline_builder_text(s.b, rows[next].name) },
                1);
        gpu_free = start + ns;
    }
    for (uint64_t i = 0; i < TOKENS; i++)
        timeline_builder_token(s.b,
                               &(struct trace_token){ .time_ns = (i + 1) * WALL_NS / TOKENS,
                                                      .count = 1,
                                                      .token_kind = TRACE_TOKEN_MADE,
                                                      .thread = 1 },
                               1);
    *kernels = total;
    free(due);
    strbuf_free(&text);
    return timeline_builder_finish(s.b);
}

/* 574 M active weights and the KV cache: 1.20 GB per token, which takes 0.67 ms at 1.792 TB/s. */
static const struct analyze_cost costs[] = {
    { .stage = "decode", .per_token = true, .flops = 1.203e9, .bytes = 1.20e9, .floor_ns = 669643 },
};
static const struct analyze_input input = { .costs = costs,
                                            .ncosts = 1,
                                            .peak_flops_per_s = 209.5e12,
                                            .peak_bytes_per_s = 1.792e12,
                                            .peak_source = "datasheet, dense bf16" };

TEST(dsocr_decode_is_launch_bound_first_and_far_from_the_memory_roof_second) {
    double busy_ns;
    size_t kernels;
    struct timeline *tl = decode(true, &busy_ns, &kernels);
    struct analysis a;
    analyze_run(tl, &input, &a);
    CHECK_INT(kernels, 78016);
    CHECK_NEAR(busy_ns * 1e-6, 179.07, 0.01);
    const struct analysis_stage *s = scene_stage(&a, "decode");
    CHECK_NEAR(s->gpu_busy_ns * 1e-6, 179.07, 0.01);
    CHECK_NEAR(s->wall_total_ns * 1e-6, 630, 0.5);
    CHECK_NEAR(s->launches_per_token, 1219, 1e-9);
    CHECK_NEAR(s->distance, 14.7, 0.05); /* 630 ms over 64 x 0.67 ms */
    CHECK_NEAR(s->mbu, 0.068, 0.001);
    CHECK_NEAR(s->mfu, 0.00058, 0.00001);
    CHECK_NEAR(s->token_ns.median * 1e-6, 630.0 / 64, 0.01);

    CHECK(a.nfindings >= 2);
    CHECK_STR(a.findings[0].rule, "launch-bound");
    CHECK_NEAR(a.findings[0].saving_ms, 450, 3); /* 630 - 179 */
    CHECK_NEAR(a.findings[0].saving_percent, 71.5, 0.7);
    CHECK_INT(a.findings[0].confidence, ANALYSIS_HIGH);
    CHECK(strstr(a.findings[0].title, "decode is launch-bound") != NULL);
    CHECK(strstr(a.findings[0].evidence, "1,219 launches per token") != NULL);
    CHECK(strstr(a.findings[0].evidence, "78,016 kernels of 2.3 us") != NULL);
    CHECK_STR(a.findings[1].rule, "roof-distance");
    CHECK_NEAR(a.findings[1].saving_ms, 179.07 - 42.86, 0.1);
    CHECK(strstr(a.findings[1].title, "4.2x the memory roof") != NULL);
    for (size_t i = 0; i < a.nfindings; i++) {
        CHECK(a.findings[i].evidence[0] != '\0');
        CHECK(a.findings[i].advice[0] != '\0');
        CHECK(!(a.findings[i].saving_ms > 630));
    }
    analysis_free(&a);
    timeline_close(tl);
}

TEST(dsocr_shares_of_categories_are_the_published_ones) {
    double busy_ns;
    size_t kernels;
    struct timeline *tl = decode(true, &busy_ns, &kernels);
    struct analysis a;
    analyze_run(tl, NULL, &a);
    const struct analysis_stage *s = scene_stage(&a, "decode");
    CHECK_NEAR(100 * s->category_ns[KERNEL_CATEGORY_GEMV] / busy_ns, 49.2, 0.1);
    CHECK_NEAR(100 * s->category_ns[KERNEL_CATEGORY_ATTENTION] / busy_ns, 3.8, 0.1);
    CHECK_NEAR(a.conservation.kernel_residual, 0, 1);
    CHECK_STR(a.kernels[0].short_name, "gemvx bf16");
    CHECK_INT(a.kernels[0].calls, 16448);
    CHECK_NEAR(100 * a.kernels[0].share, 34.4, 0.1);
    analysis_free(&a);
    timeline_close(tl);
}

TEST(dsocr_without_launches_is_idle_for_unknown_reasons) {
    double busy_ns;
    size_t kernels;
    struct timeline *tl = decode(false, &busy_ns, &kernels);
    struct analysis a;
    analyze_run(tl, &input, &a);
    CHECK(tl->containment);
    CHECK(scene_finding(&a, "launch-bound") == NULL);
    const struct analysis_finding *f = scene_finding(&a, "unexplained-idle");
    CHECK(f != NULL);
    CHECK_INT(f->confidence, ANALYSIS_LOW);
    analysis_free(&a);
    timeline_close(tl);
}

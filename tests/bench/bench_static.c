/* Time of `inferprof static` without process start: from a config to the JSON answer, and a sweep of 10,000
 * points. Targets: under 20 ms and under 2 s. */
#include <stdio.h>

#include "base/clock.h"
#include "base/die.h"
#include "llm/sweep.h"

#define REPEATS 200

static double answer_ms(const char *path) {
    struct err err;
    uint64_t before = clock_mono_ns();
    for (int i = 0; i < REPEATS; i++) {
        struct llm_model *m = llm_model_load(path, &(struct llm_load){ 0 }, &err);
        struct llm_workload w = { .batch = 1, .prompt_tokens = 913, .new_tokens = 128 };
        struct llm_static r;
        struct strbuf out = STRBUF_INIT;
        struct jsonw j;
        if (!m) die("%s", err.msg);
        struct llm_device d = llm_device_of(llm_gpu_find("h200", &err), m, 0, NULL, 0);
        if (llm_static_eval(m, &w, &d, &r, &err) < 0) die("%s", err.msg);
        jsonw_start(&j, &out, JSONW_PRETTY);
        jsonw_object(&j);
        llm_static_json_fields(&r, &j);
        jsonw_end(&j);
        jsonw_finish(&j);
        strbuf_free(&out);
        llm_static_free(&r);
        llm_model_free(m);
    }
    return (double)(clock_mono_ns() - before) * 1e-6 / REPEATS;
}

static double sweep_ms(const char *path) {
    struct err err;
    struct llm_model *m = llm_model_load(path, &(struct llm_load){ 0 }, &err);
    struct llm_workload w = { .batch = 1, .prompt_tokens = 913, .new_tokens = 128 };
    struct llm_static r;
    struct llm_sweep s;
    struct strbuf svg = STRBUF_INIT;
    if (!m) die("%s", err.msg);
    struct llm_device d = llm_device_of(llm_gpu_find("h200", &err), m, 0, NULL, 0);
    uint64_t before = clock_mono_ns();
    if (llm_static_eval(m, &w, &d, &r, &err) < 0 || llm_sweep_parse("batch=1..10000", &s, &err) < 0 ||
        llm_sweep_run(&r, &s, &err) < 0)
        die("%s", err.msg);
    llm_sweep_svg(&r, &s, &svg);
    double ms = (double)(clock_mono_ns() - before) * 1e-6;
    strbuf_free(&svg);
    llm_sweep_free(&s);
    llm_static_free(&r);
    llm_model_free(m);
    return ms;
}

int main(void) {
    static const char *const paths[] = { "tests/data/models/deepseek-ocr.json",
                                         "tests/data/models/gpt-oss-20b.json",
                                         "tests/data/models/llama-3.1-8b-instruct.json" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        printf("%-48s answer %6.3f ms (target 20)   10,000 points %6.1f ms (target 2000)\n", paths[i],
               answer_ms(paths[i]), sweep_ms(paths[i]));
    return 0;
}

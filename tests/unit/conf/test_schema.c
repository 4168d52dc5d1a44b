#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "conf/compose.h"
#include "conf/schema.h"
#include "unit/test.h"

static struct conf *compose(const char *const *words, size_t n) {
    struct err err;
    struct conf_request req = { .words = words, .nwords = n };
    req.store.builtin = conf_builtin_files(&req.store.nbuiltin);
    struct conf *c = conf_compose(&req, &err);
    if (!c) fprintf(stderr, "%s\n", err.msg);
    CHECK(c);
    return c;
}

TEST(built_in_configuration_matches_the_schema) {
    static const char *const choices[][2] = { { "", "" },
                                              { "model=deepseek_ocr", "dataset=omnidocbench" },
                                              { "model=llama", "dataset=prompts" },
                                              { "dataset=images", "profiling=min" },
                                              { "profiling=max", "hardware=quiet" } };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        struct conf *c = compose(choices[i], i ? 2 : 0);
        struct strlist p = { 0 };
        struct settings s;
        schema_apply(conf_root(c), &s, &p);
        for (size_t k = 0; k < p.n; k++) fprintf(stderr, "%s\n", p.v[k]);
        CHECK_INT(p.n, 0);
        CHECK_INT(s.repeats, 10);
        CHECK(isnan(s.peak.tflops));
        if (i == 0) CHECK_STR(s.model.path, "embedded");
        if (i == 1) CHECK_INT(s.infer.no_repeat_ngram_size, 20);
        if (i == 3) CHECK_STR(s.profiling.detail, "stages");
        if (i == 4) CHECK_INT(s.profiling.counter_interval_us, 20);
        conf_close(c);
    }
}

TEST(all_problems_are_reported_at_once) {
    const char *words[] = { "repeats=ten",   "max_new_token=5",   "+infr.top_p=1",
                            "infer.top_p=2", "model.dtype=fp8",   "output.viz=yes",
                            "~device",       "engine.command=sh", "+zzzzzzzz=1" };
    struct conf *c = compose(words, 9);
    struct strlist p = { 0 };
    struct settings s;
    schema_apply(conf_root(c), &s, &p);
    static const char *const want[] = {
        "command line: unknown key 'max_new_token'; did you mean 'infer.max_new_tokens'?",
        "command line: unknown key 'infr.top_p'; did you mean 'infer.top_p'?",
        "command line: unknown key 'zzzzzzzz'; --show-config lists all keys",
        "command line: repeats is 'ten', expected a whole number from 1 to 1000000",
        "device is missing; give device=VALUE",
        "command line: model.dtype is 'fp8', expected one of auto|bf16|f16|f32",
        "command line: infer.top_p is '2', expected a number from 0 to 1",
        "command line: engine.command is 'sh', expected a list of texts, as [a, b]",
        "command line: output.viz is 'yes', expected true or false",
    };
    CHECK_INT(p.n, 9);
    for (size_t i = 0; i < p.n; i++) {
        bool found = false;
        for (size_t k = 0; k < 9; k++) found |= strcmp(p.v[i], want[k]) == 0;
        if (!found) fprintf(stderr, "unexpected: %s\n", p.v[i]);
        CHECK(found);
    }
    strlist_free(&p);
    conf_close(c);
}

TEST(paths_become_absolute_except_keywords) {
    const char *words[] = { "output.dir=somewhere", "dataset.root=/abs" };
    struct conf *c = compose(words, 2);
    struct strlist p = { 0 };
    struct settings s;
    schema_apply(conf_root(c), &s, &p);
    CHECK_INT(p.n, 0);
    CHECK_INT(s.output.dir[0], '/');
    CHECK_STR(file_basename(s.output.dir), "somewhere");
    CHECK_STR(s.dataset.root, "/abs");
    CHECK_STR(s.model.path, "embedded");
    conf_close(c);
}

/* docs/configuration.md lists exactly the keys of the schema. */
TEST(every_key_is_documented) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    size_t n;
    const struct schema_row *rows = schema_rows(&n);
    CHECK_INT(file_read("docs/configuration.md", 1 << 20, &text, &err), 0);
    for (size_t i = 0; i < n; i++) {
        char row[512];
        snprintf(row, sizeof row, "| `%s` | %s |", rows[i].key, rows[i].help);
        if (!strstr(text.buf, row)) fprintf(stderr, "missing in docs/configuration.md: %s\n", row);
        CHECK(strstr(text.buf, row));
    }
    strbuf_free(&text);
}

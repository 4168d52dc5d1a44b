#include "unit/engine-models/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "engine/weights/weights.h"
#include "unit/test.h"

static json_t *load_json(const char *name) {
    char path[256];
    struct err err;
    snprintf(path, sizeof path, "tests/data/engine/%s.json", name);
    json_t *root = jsonr_load_path(path, 16 << 20, &err);
    if (!root) fail_msg("%s", err.msg);
    return root;
}

static void write_config(struct fixture *f, json_t *root) {
    struct err err;
    f->root = root;
    f->dir = test_tmpdir();
    char *config = file_join(f->dir, "config.json");
    char *text = json_dumps(json_object_get(f->root, "config"), 0);
    if (file_write_atomic(config, text, strlen(text), &err) < 0) fail_msg("%s", err.msg);
    free(text);
    free(config);
}

void fixture_open(struct fixture *f, const char *name) { write_config(f, load_json(name)); }

void fixture_each(const char *name, void (*check)(const struct fixture *f)) {
    json_t *cases = load_json(name), *one;
    const char *key;
    json_object_foreach(cases, key, one) {
        struct fixture f;
        print_message("           %s\n", key);
        write_config(&f, json_incref(one));
        check(&f);
        fixture_close(&f);
    }
    json_decref(cases);
}

void fixture_close(struct fixture *f) {
    json_decref(f->root);
    free(f->dir);
}

static struct engine *open_engine(const struct fixture *f, const char *weights, const char *dtype,
                                  const struct engine_backend *backend) {
    struct err err;
    struct engine *e = engine_open(&(struct engine_load){ .model = f->dir,
                                                          .device = "cpu",
                                                          .weights = weights,
                                                          .dtype = dtype,
                                                          .threads = 2,
                                                          .exact = true,
                                                          .backend = backend },
                                   &err);
    if (!e) fail_msg("%s", err.msg);
    return e;
}

struct engine *fixture_engine_on(const struct fixture *f, const char *dtype,
                                 const struct engine_backend *backend) {
    char source[64];
    snprintf(source, sizeof source, "synthetic:%lld", fixture_int(f, "seed"));
    return open_engine(f, source, dtype, backend);
}

struct engine *fixture_engine(const struct fixture *f, const char *dtype) {
    return fixture_engine_on(f, dtype, NULL);
}

struct engine *fixture_engine_files(const struct fixture *f) {
    return open_engine(f, "auto", "auto", NULL);
}

size_t fixture_floats(const struct fixture *f, const char *key, float **out) {
    const json_t *a = json_object_get(f->root, key);
    size_t n = json_array_size(a);
    if (n == 0) fail_msg("the fixture has no %s", key);
    *out = xcalloc(n, sizeof **out);
    for (size_t i = 0; i < n; i++) (*out)[i] = (float)json_number_value(json_array_get(a, i));
    return n;
}

size_t fixture_ids(const struct fixture *f, const char *key, uint32_t **out) {
    const json_t *a = json_object_get(f->root, key);
    size_t n = json_array_size(a);
    if (n == 0) fail_msg("the fixture has no %s", key);
    *out = xcalloc(n, sizeof **out);
    for (size_t i = 0; i < n; i++) (*out)[i] = (uint32_t)json_integer_value(json_array_get(a, i));
    return n;
}

void fixture_check(const struct fixture *f, const char *key, const float *got, size_t n, double most) {
    float *want;
    CHECK_INT(fixture_floats(f, key, &want), n);
    CHECK_NEAR(relative_error(got, want, n), 0, most);
    free(want);
}

void fixture_check_tensor(const struct fixture *f, const char *key, struct ops *o, struct tensor *got,
                          size_t n, double most) {
    float *numbers = xcalloc(n, sizeof *numbers);
    ops_download(o, numbers, view_of(got), n);
    fixture_check(f, key, numbers, n, most);
    free(numbers);
}

struct tensor *fixture_upload(struct ops *o, const float *numbers, size_t n) {
    struct tensor *t = ops_alloc(o, n, TENSOR_ZERO);
    if (numbers) ops_upload(o, view_of(t), numbers, n);
    return t;
}

long long fixture_int(const struct fixture *f, const char *key) {
    const json_t *v = json_object_get(f->root, key);
    if (!json_is_integer(v)) fail_msg("the fixture has no %s", key);
    return json_integer_value(v);
}

float *fixture_rows(const struct fixture *f, const char *name, size_t n) {
    struct weights_stream s = weights_stream_make((uint64_t)fixture_int(f, "seed"), name, 1.0f, 0.0f);
    float *x = xcalloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = weights_stream_at(&s, (uint32_t)i);
    return x;
}

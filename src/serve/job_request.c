#include "serve/job_request.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/jsonr.h"
#include "base/opt.h"
#include "base/random.h"
#include "base/util.h"
#include "session/device.h"

enum job_type { JOB_PATH, JOB_COUNT, JOB_CHOICE, JOB_DEVICE };

static const struct job_member {
    const char *name;
    enum job_type type;
    double least, most;
    const char *choices;
    const char *word; /* option, or start of an assignment */
} members[] = {
    { "model_path", JOB_PATH, 0, 0, NULL, "--model-path" },
    { "input_dir", JOB_PATH, 0, 0, NULL, "--input-dir" },
    { "repeats", JOB_COUNT, 1, 10000, NULL, "repeats=" },
    { "processes", JOB_COUNT, 1, 100, NULL, "processes=" },
    { "max_new_tokens", JOB_COUNT, 1, 1048576, NULL, "infer.max_new_tokens=" },
    { "device", JOB_DEVICE, 0, 0, NULL, "device=" },
    { "engine", JOB_CHOICE, 0, 0, "native|hf", "engine=" },
    { "profiling", JOB_CHOICE, 0, 0, "min|default|max", "profiling=" },
};

static const struct job_member *find_member(const char *name) {
    for (size_t i = 0; i < COUNTOF(members); i++)
        if (strcmp(members[i].name, name) == 0) return &members[i];
    return NULL;
}

static bool is_below(const char *path, const char *root) {
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/') n--;
    return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0' || n == 1);
}

static int check_path(const char *name, const char *path, const char *const *roots, size_t nroots,
                      struct err *err) {
    char real[PATH_MAX], root[PATH_MAX];
    if (path[0] == '/' && realpath(path, real))
        for (size_t i = 0; i < nroots; i++)
            if (realpath(roots[i], root) && is_below(real, root)) return 0;
    return err_set(err, "%s: not a path inside the folders that jobs may read (serve --job-root)", name);
}

static bool device_is_valid(const char *text) {
    size_t n = strlen(text);
    return n >= 1 && n <= 64 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-/_") == n;
}

static int check_member(const struct job_member *m, const json_t *value, const char *const *roots,
                        size_t nroots, struct err *err) {
    const char *text = json_string_value(value);
    if (m->type == JOB_COUNT) {
        double v = json_is_integer(value) ? (double)json_integer_value(value) : 0;
        return v >= m->least && v <= m->most
                   ? 0
                   : err_set(err, "%s must be a whole number from %g to %g", m->name, m->least, m->most);
    }
    if (!text) return err_set(err, "%s must be a text", m->name);
    if (m->type == JOB_PATH) return check_path(m->name, text, roots, nroots, err);
    if (m->type == JOB_CHOICE)
        return opt_is_choice(m->choices, text) ? 0
                                               : err_set(err, "%s must be one of %s", m->name, m->choices);
    return device_is_valid(text) ? 0 : err_set(err, "device must be auto, cpu, cuda:N or the UUID of a GPU");
}

int job_check(const json_t *root, const char *const *roots, size_t nroots, struct err *err) {
    const char *name;
    json_t *value;
    if (!json_is_object(root)) return err_set(err, "expected an object");
    json_object_foreach((json_t *)root, name, value) {
        const struct job_member *m = find_member(name);
        if (!m) return err_set(err, "unknown member '%.64s'", name);
        if (check_member(m, value, roots, nroots, err) < 0) return -1;
    }
    return 0;
}

int job_set_device(json_t *root, struct err *err) {
    char name[112];
    struct err ignored;
    struct nvml_inventory *inventory = xcalloc(1, sizeof *inventory);
    const char *want = jsonr_text(root, "device"), *engine = jsonr_text(root, "engine");
    bool nvml = nvml_inventory(inventory, &ignored) == 0;
    int rc =
        device_name(want ? want : "auto", engine ? engine : "native", nvml ? inventory : NULL, name, err);
    free(inventory);
    if (rc == 0) json_object_set_new(root, "device", json_string(name));
    return rc;
}

void job_command(const char *request, const char *out_dir, const char *run_id, struct strlist *words) {
    struct err ignored;
    json_t *root = jsonr_load_text(request, strlen(request), "job", &ignored);
    strlist_add(words, "profile");
    for (size_t i = 0; i < COUNTOF(members); i++) {
        const json_t *value = json_object_get(root, members[i].name);
        if (!value) continue;
        if (members[i].type == JOB_PATH) {
            strlist_add(words, "%s", members[i].word);
            strlist_add(words, "%s", json_string_value(value));
        } else if (members[i].type == JOB_COUNT)
            strlist_add(words, "%s%lld", members[i].word, (long long)json_integer_value(value));
        else
            strlist_add(words, "%s%s", members[i].word, json_string_value(value));
    }
    strlist_add(words, "output.dir=%s", out_dir);
    strlist_add(words, "output.run_id=%s", run_id);
    json_decref(root);
}

void job_write_request(struct jsonw *j, const json_t *root) {
    for (size_t i = 0; i < COUNTOF(members); i++) {
        const json_t *value = json_object_get(root, members[i].name);
        if (value && members[i].type == JOB_COUNT)
            jsonw_ku64(j, members[i].name, (uint64_t)json_integer_value(value));
        else if (value)
            jsonw_kstr(j, members[i].name, json_string_value(value));
    }
}

char *job_new_id(void) {
    char time_text[32];
    clock_format(clock_wall_ns(), "%Y%m%d-%H%M%S", 1, time_text, sizeof time_text);
    return xasprintf("%s-job-%06x", time_text, (unsigned)(random_u64() >> 40));
}

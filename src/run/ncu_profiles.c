#include "run/ncu_profiles.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/schema.h"

#define MAX_PROFILES_BYTES (256u << 20)

/* "(72, 4, 1)", or the product of the dimensions */
static void parse_dims(const char *text, uint32_t out[3]) {
    memset(out, 0, 3 * sizeof out[0]);
    if (!text) return;
    text += strspn(text, "( ");
    for (int i = 0; i < 3 && *text >= '0' && *text <= '9'; i++) {
        char *end;
        unsigned long v = strtoul(text, &end, 10);
        out[i] = v <= UINT32_MAX ? (uint32_t)v : 0;
        text = end + strspn(end, ", x");
    }
}

static void read_profile(struct ncu_profiles *p, const json_t *o) {
    struct kernel_profile k = { .name = jsonr_text(o, "name"),
                                .stall = jsonr_text(o, "stall"),
                                .bound = jsonr_text(o, "bound") };
    double launches = jsonr_number(o, "launches");
    if (!k.name) return;
    k.launches = launches > 0 && launches < 1e15 ? (uint64_t)launches : 0;
    parse_dims(jsonr_text(o, "grid"), k.grid);
    parse_dims(jsonr_text(o, "block"), k.block);
    for (int m = 0; m < KERNEL_PROFILE_METRIC_END; m++)
        k.value[m] = jsonr_number(o, kernel_profile_key((enum kernel_profile_metric)m));
    p->v[p->n++] = k;
}

static struct ncu_profiles *profiles_from_json(json_t *root, const char *what, struct err *err) {
    if (!root) return NULL;
    if (schema_version(jsonr_text(root, "schema"), SCHEMA_NCU) != 1) {
        err_set(err, "%s: not written by `inferprof import --into` (no \"schema\": \"" SCHEMA_NCU "\")",
                what);
        json_decref(root);
        return NULL;
    }
    struct ncu_profiles *p = xcalloc(1, sizeof *p);
    const json_t *kernels = jsonr_array(root, "kernels");
    p->root = root;
    p->v = xcalloc(json_array_size(kernels) + 1, sizeof *p->v);
    for (size_t i = 0; i < json_array_size(kernels); i++) read_profile(p, json_array_get(kernels, i));
    return p;
}

struct ncu_profiles *ncu_profiles_parse(const char *text, size_t n, const char *what, struct err *err) {
    return profiles_from_json(jsonr_load_text(text, n, what, err), what, err);
}

struct ncu_profiles *ncu_profiles_load(const char *dir, struct strlist *warnings) {
    char *path = file_join(dir, "ncu.json");
    struct ncu_profiles *p = NULL;
    struct err err;
    if (file_exists(path)) {
        p = profiles_from_json(jsonr_load_path(path, MAX_PROFILES_BYTES, &err), path, &err);
        if (!p) strlist_add(warnings, "%s", err.msg);
    }
    free(path);
    return p;
}

void ncu_profiles_close(struct ncu_profiles *p) {
    if (!p) return;
    free(p->v);
    json_decref(p->root);
    free(p);
}

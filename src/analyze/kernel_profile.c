#include "analyze/kernel_profile.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"

const char *kernel_profile_key(enum kernel_profile_metric m) {
    static const char *const keys[] = {
#define X(id, key) [KERNEL_PROFILE_##id] = key,
        KERNEL_PROFILE_METRICS(X)
#undef X
    };
    return keys[m];
}

const char *kernel_profile_match_name(enum kernel_profile_match m) {
    static const char *const names[] = { "none", "function", "name" };
    return names[m];
}

static uint64_t product(const uint32_t d[3]) {
    return (uint64_t)d[0] * (d[1] ? d[1] : 1) * (d[2] ? d[2] : 1);
}

/* Unknown sizes match any size. If the profile has only the product of its sizes, the products are
 * compared. */
static bool same_dims(const uint32_t profile[3], const uint32_t run[3]) {
    if (!profile[0] || !run[0]) return true;
    if (!profile[1]) return product(profile) == product(run);
    return memcmp(profile, run, 3 * sizeof run[0]) == 0;
}

static const struct timeline_shape *shape_of(const struct analysis *a, size_t kernel) {
    return &a->timeline->shapes[a->kernels[kernel].shape];
}

static bool same_geometry(const struct kernel_profile *p, const struct timeline_shape *s) {
    return same_dims(p->grid, s->grid) && same_dims(p->block, s->block);
}

struct matching {
    const struct analysis *a;
    const struct kernel_profile *v;
    size_t n;
    char **profile_names, **kernel_names; /* normalised: [n], [nkernels] */
};

static bool same_function(const char *a, const char *b) {
    size_t n = strcspn(a, "<");
    return n == strcspn(b, "<") && memcmp(a, b, n) == 0;
}

/* Returns true if the match is ambiguous: another kernel of the run, or another profile, has the same
 * function and geometry but another normalised name. */
static bool ambiguous(const struct matching *m, size_t profile, size_t kernel) {
    const struct timeline_shape *s = shape_of(m->a, kernel);
    for (size_t i = 0; i < m->a->nkernels; i++)
        if (strcmp(m->kernel_names[i], m->kernel_names[kernel]) != 0 &&
            same_function(m->kernel_names[i], m->kernel_names[kernel]) &&
            same_geometry(&m->v[profile], shape_of(m->a, i)))
            return true;
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->profile_names[i], m->profile_names[profile]) != 0 &&
            same_function(m->profile_names[i], m->profile_names[profile]) && same_geometry(&m->v[i], s))
            return true;
    return false;
}

static enum kernel_profile_match compare(const struct matching *m, size_t profile, size_t kernel) {
    const struct kernel_profile *p = &m->v[profile];
    const char *a = m->profile_names[profile], *b = m->kernel_names[kernel];
    if (!same_geometry(p, shape_of(m->a, kernel)) || !same_function(a, b)) return KERNEL_PROFILE_NO_MATCH;
    if (strcmp(a, b) == 0) return KERNEL_PROFILE_NAME;
    return p->grid[0] && p->block[0] && !ambiguous(m, profile, kernel) ? KERNEL_PROFILE_FUNCTION
                                                                       : KERNEL_PROFILE_NO_MATCH;
}

/* Selects the best profile for a kernel class; the first one of equally good matches. */
static void match_kernel(const struct matching *m, size_t kernel, struct analysis_profiles *out) {
    enum kernel_profile_match best = KERNEL_PROFILE_NO_MATCH;
    for (size_t i = 0; i < m->n; i++) {
        enum kernel_profile_match found = compare(m, i, kernel);
        if (found <= best) continue;
        best = found;
        out->of_kernel[kernel] = (uint32_t)i;
    }
    if (best == KERNEL_PROFILE_NO_MATCH) return;
    uint32_t profile = out->of_kernel[kernel];
    out->matches[profile] = MAX(out->matches[profile], best);
    out->covered_share += m->a->kernels[kernel].share;
}

static void free_texts(char **v, size_t n) {
    for (size_t i = 0; i < n; i++) free(v[i]);
    free(v);
}

struct analysis_profiles *kernel_profiles_match(const struct analysis *a, const struct kernel_profile *v,
                                                size_t n) {
    if (!n) return NULL;
    struct analysis_profiles *out = xcalloc(1, sizeof *out);
    struct matching m = { a, v, n, xcalloc(n, sizeof *m.profile_names),
                          xcalloc(a->nkernels + 1, sizeof *m.kernel_names) };
    out->profiles = v;
    out->n = n;
    out->matches = xcalloc(n, sizeof *out->matches);
    out->of_kernel = xcalloc(a->nkernels + 1, sizeof *out->of_kernel);
    for (size_t i = 0; i < n; i++) m.profile_names[i] = kernel_name_normalize(v[i].name);
    for (size_t i = 0; i < a->nkernels; i++) {
        m.kernel_names[i] = kernel_name_normalize(a->kernels[i].name);
        out->of_kernel[i] = ANALYSIS_NONE;
    }
    for (size_t i = 0; i < a->nkernels; i++) match_kernel(&m, i, out);
    for (size_t i = 0; i < n; i++) out->unmatched += out->matches[i] == KERNEL_PROFILE_NO_MATCH;
    free_texts(m.profile_names, n);
    free_texts(m.kernel_names, a->nkernels);
    return out;
}

void analyze_profiles(struct context *c) { analysis_set_profiles(c->a, c->in->profiles, c->in->nprofiles); }

void analysis_set_profiles(struct analysis *a, const struct kernel_profile *v, size_t n) {
    kernel_profiles_free(a->profiles);
    a->profiles = kernel_profiles_match(a, v, n);
}

void kernel_profiles_free(struct analysis_profiles *p) {
    if (!p) return;
    free(p->matches);
    free(p->of_kernel);
    free(p);
}

const struct kernel_profile *kernel_profile_of(const struct analysis *a, uint32_t kernel) {
    if (!a->profiles || a->profiles->of_kernel[kernel] == ANALYSIS_NONE) return NULL;
    return &a->profiles->profiles[a->profiles->of_kernel[kernel]];
}

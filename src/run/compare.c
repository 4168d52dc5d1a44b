#include "run/compare_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"

/* Joules and bytes cannot be faster or slower. */
static bool is_of_time(const char *unit) { return strcmp(unit, "ms") == 0 || strcmp(unit, "tok/s") == 0; }

const char *compare_verdict_name(const struct compare_row *r) {
    bool shown = r->verdict == COMPARE_FASTER || r->verdict == COMPARE_SLOWER;
    if (shown && !is_of_time(r->unit)) return r->verdict == COMPARE_FASTER ? "better" : "worse";
    static const char *const names[] = {
        [COMPARE_ONLY_A] = "only in A",         [COMPARE_ONLY_B] = "only in B",
        [COMPARE_UNKNOWN] = "unknown",          [COMPARE_FASTER] = "faster",
        [COMPARE_SAME] = "no difference shown", [COMPARE_SLOWER] = "slower",
        [COMPARE_CANNOT_TELL] = "cannot tell",  [COMPARE_DIFFERENT] = "different",
    };
    return names[r->verdict];
}

bool compare_same(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

const json_t *compare_find_stage(const json_t *stages, const char *name, const char *parent) {
    for (size_t i = 0; i < json_array_size(stages); i++) {
        const json_t *o = json_array_get(stages, i);
        if (compare_same(jsonr_text(o, "name"), name) && compare_same(jsonr_text(o, "parent"), parent))
            return o;
    }
    return NULL;
}

/* ---- kernels and operators, summed by name */
struct side {
    const char *name_key, *time_key; /* "short_name", "owned_ns" */
    bool with_category;
};

static void add_work(struct comparison *c, struct intern *keys, bool kernels, const json_t *list,
                     const struct side *s, bool is_b) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        const char *name = jsonr_text(o, s->name_key),
                   *category = s->with_category ? jsonr_text(o, "category") : NULL;
        if (!name) continue;
        char *key = xasprintf("%s\n%s", name, category ? category : "");
        uint32_t before = intern_count(keys), id = intern_str(keys, key);
        free(key);
        struct compare_work new_row = { xstrdup(name), category, NAN, NAN, NAN, NAN, NAN };
        if (id >= before && kernels)
            vec_push(&c->kernels, new_row);
        else if (id >= before)
            vec_push(&c->operators, new_row);
        else
            free(new_row.name);
        struct compare_work *w = kernels ? &c->kernels.v[id] : &c->operators.v[id];
        double *ns = is_b ? &w->b_ns : &w->a_ns, *calls = is_b ? &w->b_calls : &w->a_calls;
        double t = jsonr_number(o, s->time_key), k = jsonr_number(o, "calls");
        if (isfinite(t)) *ns = (isnan(*ns) ? 0 : *ns) + t;
        if (isfinite(k)) *calls = (isnan(*calls) ? 0 : *calls) + k;
    }
}

static double size_of_change(const struct compare_work *w) {
    return fabs((isnan(w->b_ns) ? 0 : w->b_ns) - (isnan(w->a_ns) ? 0 : w->a_ns));
}

static int by_change(const void *a, const void *b) {
    double x = size_of_change(a), y = size_of_change(b);
    if (x != y) return x < y ? 1 : -1;
    return strcmp(((const struct compare_work *)a)->name, ((const struct compare_work *)b)->name);
}

static void finish_work(const struct comparison *c, struct compare_work *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        v[i].a_ns /= (double)c->a_recorded; /* 0 runs: all are NaN */
        v[i].a_calls /= (double)c->a_recorded;
        v[i].b_ns /= (double)c->b_recorded;
        v[i].b_calls /= (double)c->b_recorded;
        v[i].change_ns = (isnan(v[i].b_ns) ? 0 : v[i].b_ns) - (isnan(v[i].a_ns) ? 0 : v[i].a_ns);
    }
    if (n) qsort(v, n, sizeof *v, by_change);
}

static size_t recorded_runs(const struct compare_side *side) {
    size_t n = 0;
    for (size_t i = 0; i < side->n; i++) {
        const json_t *root = side->runs[i]->root;
        n += json_array_size(jsonr_array(root, "kernels")) || json_array_size(jsonr_array(root, "operators"));
    }
    return n;
}

/* `key`: the name of the array in metrics.json. */
static void add_sides(struct comparison *c, const char *key, const struct side *s, bool kernels,
                      const struct compare_side *a, const struct compare_side *b) {
    struct intern *keys = intern_open();
    for (size_t i = 0; i < a->n; i++)
        add_work(c, keys, kernels, jsonr_array(a->runs[i]->root, key), s, false);
    for (size_t i = 0; i < b->n; i++) add_work(c, keys, kernels, jsonr_array(b->runs[i]->root, key), s, true);
    intern_close(keys);
}

static void compare_work(const struct compare_side *a, const struct compare_side *b, struct comparison *c) {
    const struct side kernel = { "short_name", "owned_ns", true }, op = { "name", "total_ns", false };
    c->a_recorded = recorded_runs(a);
    c->b_recorded = recorded_runs(b);
    add_sides(c, "kernels", &kernel, true, a, b);
    add_sides(c, "operators", &op, false, a, b);
    finish_work(c, c->kernels.v, c->kernels.n);
    finish_work(c, c->operators.v, c->operators.n);
}

/* ---- environment */
static const char *keep(struct comparison *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static const char *keep(struct comparison *c, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    vec_push(&c->texts, strbuf_detach(&s));
    return c->texts.v[c->texts.n - 1];
}

static void add_env(struct comparison *c, struct compare_env row) {
    for (size_t i = 0; i < c->env.n; i++) {
        const struct compare_env *e = &c->env.v[i];
        /* an earlier run differs equally, or the name of the GPU is already listed as the device */
        bool is_listed =
            strcmp(e->key, row.key) == 0 || (strcmp(e->key, "device") == 0 && strcmp(row.key, "Name") == 0);
        if (is_listed && compare_same(e->a, row.a) && compare_same(e->b, row.b)) return;
    }
    vec_push(&c->env, row);
}

/* "GPU", "GPU 0" and "GPU 0 to 7" are the same group. */
static bool is_gpu_group(const char *group) { return group && strncmp(group, "GPU", 3) == 0; }

/* Returns the value with this group and key, else that of the first GPU group with this key if the group is a
 * GPU group. NULL: neither exists. */
static const char *env_value(const struct saved_metrics *m, const struct run_kv *row) {
    const char *of_gpu = NULL;
    for (size_t i = 0; i < m->nenv; i++) {
        if (strcmp(m->env[i].key, row->key) != 0) continue;
        if (compare_same(m->env[i].group, row->group)) return m->env[i].value;
        if (!of_gpu && is_gpu_group(m->env[i].group) && is_gpu_group(row->group)) of_gpu = m->env[i].value;
    }
    return of_gpu;
}

/* Sets other_subject if model, engine or device differ. A difference in the source of the peaks is only
 * listed. */
static void compare_subject(const struct saved_metrics *a, const struct saved_metrics *b,
                            struct comparison *c) {
    static const struct {
        const char *object, *key, *name;
        /* false: only the measurement differs */
        bool subject;
    } rows[] = { { "run", "model", "model", true },
                 { "run", "engine", "engine", true },
                 { "device", "name", "device", true },
                 { "device", "peak_source", "peaks", false } };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        const char *x = jsonr_text(json_object_get(a->root, rows[i].object), rows[i].key),
                   *y = jsonr_text(json_object_get(b->root, rows[i].object), rows[i].key);
        if (compare_same(x, y)) continue;
        add_env(c, (struct compare_env){ rows[i].name, x, y });
        c->other_subject |= rows[i].subject && x && y;
    }
}

/* Returns the number of ranks with kernels. 0: at most one rank. */
static size_t count_ranks(const json_t *devices) {
    size_t n = 0;
    double last = NAN;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        double rank = jsonr_number(json_array_get(devices, i), "rank");
        if (!isfinite(rank) || rank == last || !(jsonr_number(json_array_get(devices, i), "kernels") > 0))
            continue;
        last = rank; /* devices of a rank are adjacent */
        n++;
    }
    return n > 1 ? n : 0;
}

/* If the number of ranks differs, times cannot be compared: kernel times are sums over the ranks. */
static void compare_ranks(const json_t *a, const json_t *b, struct comparison *c) {
    size_t x = count_ranks(a), y = count_ranks(b);
    if (x == y) return;
    struct compare_env row = { .key = "ranks",
                               .a = x ? keep(c, "%zu", x) : NULL,
                               .b = y ? keep(c, "%zu", y) : NULL };
    add_env(c, row);
    c->other_subject = true;
}

/* Finds stages that processed different numbers of tokens. Their times cannot show which side is faster. */
static void compare_tokens(const json_t *a, const json_t *b, const struct stop *stop, struct comparison *c) {
    for (size_t i = 0; i < json_array_size(a) && !stop_now(stop); i++) {
        const char *name = jsonr_text(json_array_get(a, i), "name");
        const char *parent = jsonr_text(json_array_get(a, i), "parent");
        const json_t *other = name ? compare_find_stage(b, name, parent) : NULL;
        double x = jsonr_number(json_array_get(a, i), "tokens"),
               y = other ? jsonr_number(other, "tokens") : NAN;
        if (!isfinite(x) || !isfinite(y) || x == y) continue;
        struct compare_env row = { .key = keep(c, "tokens of %s", name),
                                   .a = keep(c, "%g", x),
                                   .b = keep(c, "%g", y) };
        add_env(c, row);
        c->other_work = true;
    }
}

static void compare_environment(const struct saved_metrics *a, const struct saved_metrics *b,
                                const struct stop *stop, struct comparison *c) {
    compare_subject(a, b, c);
    compare_ranks(jsonr_array(a->root, "devices"), jsonr_array(b->root, "devices"), c);
    compare_tokens(jsonr_array(a->root, "stages"), jsonr_array(b->root, "stages"), stop, c);
    for (size_t i = 0; i < a->nenv && !stop_now(stop); i++) {
        const char *other = env_value(b, &a->env[i]);
        if (!compare_same(a->env[i].value, other))
            add_env(c, (struct compare_env){ a->env[i].key, a->env[i].value, other });
    }
    for (size_t i = 0; i < b->nenv && !stop_now(stop); i++) {
        const char *other = env_value(a, &b->env[i]);
        if (b->env[i].value && !compare_same(other, b->env[i].value))
            add_env(c, (struct compare_env){ b->env[i].key, other, b->env[i].value });
    }
}

/* ---- predicted and measured savings */
static const json_t *find_finding(const json_t *findings, const char *rule, const char *stage) {
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *f = json_array_get(findings, i);
        if (compare_same(jsonr_text(f, "rule"), rule) && compare_same(jsonr_text(f, "stage"), stage))
            return f;
    }
    return NULL;
}

/* Returns true if more than half of the runs with findings have this one. *saving_ms: the median of its
 * savings. */
static bool has_finding(const struct compare_side *side, const char *rule, const char *stage,
                        double *saving_ms) {
    double *savings = xcalloc(side->n, sizeof *savings);
    size_t with = 0, runs = 0;
    for (size_t i = 0; i < side->n; i++) {
        const json_t *findings = jsonr_array(side->runs[i]->root, "findings");
        const json_t *f = find_finding(findings, rule, stage);
        runs += json_array_size(findings) > 0;
        if (f) savings[with++] = jsonr_number(f, "saving_ms");
    }
    if (saving_ms) *saving_ms = stats_of(savings, with).median;
    free(savings);
    return 2 * with > runs;
}

static bool has_findings(const struct compare_side *side) {
    for (size_t i = 0; i < side->n; i++)
        if (json_array_size(jsonr_array(side->runs[i]->root, "findings"))) return true;
    return false;
}

static bool is_promised(const struct comparison *c, const char *rule, const char *stage) {
    for (size_t i = 0; i < c->promises.n; i++)
        if (compare_same(c->promises.v[i].rule, rule) && compare_same(c->promises.v[i].stage, stage))
            return true;
    return false;
}

static const struct compare_row *top_stage(const struct comparison *c, const char *name) {
    for (size_t i = 0; i < c->stages.n; i++)
        if (!c->stages.v[i].parent && compare_same(c->stages.v[i].name, name)) return &c->stages.v[i];
    return NULL;
}

static void add_promise(struct comparison *c, const struct compare_side *a, const struct compare_side *b,
                        const char *rule, const char *stage) {
    double bound;
    const struct compare_row *row = stage ? top_stage(c, stage) : NULL;
    if (!rule || !row || is_promised(c, rule, stage) || !has_finding(a, rule, stage, &bound) ||
        has_finding(b, rule, stage, NULL) || !isfinite(bound) || !isfinite(row->change))
        return;
    struct compare_promise p = { .stage = stage, .rule = rule, .bound_ms = bound };
    p.gain_ms = row->a - row->b;
    p.low_ms = -row->a * row->high;
    p.high_ms = -row->a * row->low;
    vec_push(&c->promises, p);
}

/* Both sides need findings: a run without a trace has none, but that does not mean that their causes were
 * fixed. With another device, model or number of tokens, the times differ for other reasons. */
static void compare_promises(const struct compare_side *a, const struct compare_side *b,
                             const struct stop *stop, struct comparison *c) {
    if (c->other_subject || c->other_work || !has_findings(a) || !has_findings(b)) return;
    for (size_t run = 0; run < a->n; run++) {
        const json_t *findings = jsonr_array(a->runs[run]->root, "findings");
        for (size_t i = 0; i < json_array_size(findings) && !stop_now(stop); i++) {
            const json_t *f = json_array_get(findings, i);
            add_promise(c, a, b, jsonr_text(f, "rule"), jsonr_text(f, "stage"));
        }
    }
}

/* Compares the first runs of both sides. The other runs of a side are compared with its first run, but only
 * by compare_subject(). */
static void compare_all_environments(const struct compare_side *a, const struct compare_side *b,
                                     const struct stop *stop, struct comparison *c) {
    compare_environment(a->runs[0], b->runs[0], stop, c);
    for (size_t i = 1; i < a->n; i++) compare_subject(a->runs[0], a->runs[i], c);
    for (size_t i = 1; i < b->n; i++) compare_subject(b->runs[0], b->runs[i], c);
}

/* ---- caveats */

static void add_caveat(struct comparison *c, const char *side, const char *text) {
    if (!text || strncmp(text, "Unstable:", 9) == 0) return;
    for (size_t i = 0; i < c->caveats.n; i++) {
        struct compare_caveat *known = &c->caveats.v[i];
        if (strcmp(known->text, text) != 0) continue;
        if (strcmp(known->side, side) != 0) known->side = "A and B";
        return;
    }
    vec_push(&c->caveats, ((struct compare_caveat){ side, text }));
}

/* Adds the warnings of the runs and of their analyses. */
static void compare_caveats(const struct compare_side *s, const char *side, const struct stop *stop,
                            struct comparison *c) {
    for (size_t i = 0; i < s->n; i++) {
        const struct saved_metrics *m = s->runs[i];
        const json_t *notes = jsonr_array(m->root, "notes");
        for (size_t k = 0; k < m->nwarnings && !stop_now(stop); k++) add_caveat(c, side, m->warnings[k]);
        for (size_t k = 0; k < json_array_size(notes) && !stop_now(stop); k++) {
            const json_t *note = json_array_get(notes, k);
            if (compare_same(jsonr_text(note, "severity"), "warning"))
                add_caveat(c, side, jsonr_text(note, "text"));
        }
    }
}

void compare_sides(const struct compare_side *a, const struct compare_side *b, struct comparison *c) {
    compare_sides_until(a, b, NULL, c);
}

bool compare_sides_until(const struct compare_side *a, const struct compare_side *b, const struct stop *stop,
                         struct comparison *c) {
    const struct saved_metrics *x = a->runs[0], *y = b->runs[0];
    *c = (struct comparison){ .a_runs = a->n, .b_runs = b->n };
    c->a_name = jsonr_text(json_object_get(x->root, "run"), "id");
    c->b_name = jsonr_text(json_object_get(y->root, "run"), "id");
    if (!compare_rows(a, b, stop, c)) return false;
    compare_all_environments(a, b, stop, c);
    compare_promises(a, b, stop, c);
    compare_work(a, b, c);
    compare_caveats(a, "A", stop, c);
    compare_caveats(b, "B", stop, c);
    return !stop_now(stop);
}

void compare_free(struct comparison *c) {
    for (size_t i = 0; i < c->kernels.n; i++) free(c->kernels.v[i].name);
    for (size_t i = 0; i < c->operators.n; i++) free(c->operators.v[i].name);
    free(c->stages.v);
    free(c->figures.v);
    free(c->kernels.v);
    free(c->operators.v);
    free(c->env.v);
    free(c->promises.v);
    free(c->caveats.v);
    for (size_t i = 0; i < c->texts.n; i++) free(c->texts.v[i]);
    free(c->texts.v);
    *c = (struct comparison){ 0 };
}

bool compare_has_common_stage(const struct comparison *c) {
    for (size_t i = 0; i < c->stages.n; i++)
        if (c->stages.v[i].verdict != COMPARE_ONLY_A && c->stages.v[i].verdict != COMPARE_ONLY_B &&
            c->stages.v[i].verdict != COMPARE_UNKNOWN)
            return true;
    return false;
}

const struct compare_row *compare_judged_stage(const struct comparison *c, const char **reason) {
    *reason = NULL;
    for (size_t i = 0; i < c->stages.n; i++) {
        const struct compare_row *r = &c->stages.v[i];
        if (r->parent) continue;
        if (r->verdict == COMPARE_SAME || r->verdict == COMPARE_FASTER || r->verdict == COMPARE_SLOWER)
            return r;
        if (!*reason) *reason = r->reason;
    }
    return NULL;
}

bool compare_is_regression(const struct compare_row *r, double allowed) {
    if (r->verdict != COMPARE_SLOWER) return false;
    /* A worse rate falls: its interval is below zero. */
    bool falls = r->change < 0;
    double certain = isfinite(r->low) ? (falls ? -r->high : r->low) : fabs(r->change);
    return certain > (isnan(allowed) ? 0 : allowed);
}

const struct compare_row *compare_regression(const struct comparison *c, double allowed) {
    const struct compare_row *worst = NULL;
    for (size_t i = 0; i < c->stages.n; i++) {
        const struct compare_row *r = &c->stages.v[i];
        if (r->parent || !compare_is_regression(r, allowed)) continue;
        if (!worst || r->change > worst->change) worst = r;
    }
    return worst;
}

/* Findings about the roles of the decode step, per token. */
#include <math.h>
#include <string.h>

#include "analyze/finding.h"

#define GOOD_SHARE 0.85 /* share of the memory bandwidth that a good kernel reaches with enough bytes */
#define POOR_SHARE 0.60 /* lower shares are reported */
#define FEWEST_SINGLE 8 /* minimum single-block launches per token */

/* Returns the bandwidth of a role as a share of the peak: measured, or computed from the model's bytes. */
static double attained(const struct anatomy_role *r, const char **source) {
    *source = isfinite(r->dram_pct) ? "hardware counters" : "the model's bytes";
    return isfinite(r->dram_pct) ? r->dram_pct / 100 : r->roof;
}

static bool reads_weights(const struct anatomy_role *r) {
    static const enum kernel_role roles[] = { ROLE_QKV,     ROLE_OUTPUT,         ROLE_ROUTER,
                                              ROLE_EXPERTS, ROLE_SHARED_EXPERTS, ROLE_MLP,
                                              ROLE_LM_HEAD };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(r->name, kernel_role_name(roles[i])) == 0) return true;
    return false;
}

/* Returns false if the role has no such finding. */
static bool find_slow_role(struct context *c, const struct finding_rule *rule, const struct finding_scope *f,
                           const struct anatomy_role *r) {
    const char *source;
    double share = attained(r, &source), at_good = r->ns * share / GOOD_SHARE;
    if (!(share < POOR_SHARE) || !(share > 0)) return false;
    finding_emit(
        c, rule, f, (r->ns - at_good) * 1e-6, isfinite(r->dram_pct) ? ANALYSIS_HIGH : ANALYSIS_MEDIUM,
        analysis_text(c, "%s: %.3g us per token at %.0f%% of the DRAM peak; at %.0f%% it would take %.3g us",
                      r->name, r->ns * 1e-3, 100 * share, 100 * GOOD_SHARE, at_good * 1e-3),
        analysis_text(
            c, "%.0f calls per step, bandwidth by %s; the mean of %s decode steps with the same kernels",
            r->calls, source, analysis_count(c, c->a->anatomy->steps)),
        "Use a kernel that keeps more bytes in flight: more blocks, split-K, wider loads, or one launch "
        "for several products.");
    return true;
}

static void find_single_blocks(struct context *c, const struct finding_rule *rule,
                               const struct finding_scope *f, const struct anatomy_role *r) {
    double ns = r->ns * r->single_block_calls / r->calls;
    if (!(r->single_block_calls >= FEWEST_SINGLE)) return;
    finding_emit(
        c, rule, f, ns * 1e-6, ANALYSIS_MEDIUM,
        analysis_text(c, "%.0f launches of one block per token for %s: %.3g us", r->single_block_calls,
                      strcmp(r->name, "other") == 0 ? "small work" : r->name, ns * 1e-3),
        analysis_text(c,
                      "one block uses one multiprocessor; %.0f of the %.0f calls of this role have one block",
                      r->single_block_calls, r->calls),
        "Fuse them into their neighbours: the kernel before or after has the data already.");
}

void find_roles(struct context *c, const struct finding_rule *rule, const struct finding_scope *f) {
    const struct anatomy *a = c->a->anatomy;
    if (!a || !c->a->recognised || strcmp(f->s->name, "decode") != 0) return;
    for (size_t i = 0; i < a->nroles; i++) {
        if (a->roles[i].idle) continue;
        bool slow = reads_weights(&a->roles[i]) && find_slow_role(c, rule, f, &a->roles[i]);
        if (!slow && strcmp(a->roles[i].name, kernel_role_name(ROLE_ATTENTION)) != 0)
            find_single_blocks(c, rule, f, &a->roles[i]);
    }
}

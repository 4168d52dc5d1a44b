/* `aggregates` of metrics.json: the figures that most scripts read, by fixed names. */
#include <string.h>

#include "report/metrics.h"
#include "report/view.h"
#include "run/vision.h"

static void write_mean(struct jsonw *j, const char *key, const struct stats *s) {
    jsonw_kobject(j, key);
    jsonw_knum(j, "mean", s->mean);
    jsonw_knum(j, "std", s->std);
    jsonw_end(j);
}

static struct stats stage_stats(const struct view *v, const char *name) {
    for (size_t i = 0; i < v->nstages; i++)
        if (strcmp(v->stages[i]->name, name) == 0 && !v->stages[i]->parent_name)
            return v->stages[i]->timing_ms;
    return stats_none();
}

static struct stats figure_stats(const struct view *v, const char *key) {
    for (size_t i = 0; i < v->run->nfigures; i++)
        if (strcmp(v->run->figures[i].key, key) == 0) return run_figure_stats(v->run, &v->run->figures[i]);
    return stats_none();
}

void metrics_aggregates(struct jsonw *j, const struct view *v) {
    if (!v->run->nfigures) return;
    const struct {
        const char *key;
        struct stats s;
    } rows[] = {
        { "prefill_ms", stage_stats(v, "prefill") },
        { "decode_ms", stage_stats(v, "decode") },
        { "vision_ms", figure_stats(v, "vision") },
        { "prefill_without_vision_ms", figure_stats(v, "prefill_without_vision") },
        { "tokens", figure_stats(v, "new_tokens") },
        { "prompt_tokens", figure_stats(v, "prompt_tokens") },
        { "tokens_per_s", figure_stats(v, "decode_tokens_per_s") },
    };
    struct run_vision vision = run_vision(v->run);
    jsonw_kobject(j, "aggregates");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) write_mean(j, rows[i].key, &rows[i].s);
    jsonw_knum(j, "mfu_model", view_model_mfu(v));
    jsonw_kobject(j, "mfu_stage");
    for (size_t i = 0; i < v->nstages; i++)
        if (!v->stages[i]->outside) jsonw_knum(j, v->stages[i]->name, v->stages[i]->mfu);
    if (vision.parts) jsonw_knum(j, "vision_total", vision.mfu);
    if (vision.parts) jsonw_knum(j, "prefill_without_vision", vision.rest_mfu);
    jsonw_end(j);
    jsonw_knum(j, "vision_flops", vision.flops);
    jsonw_end(j);
}

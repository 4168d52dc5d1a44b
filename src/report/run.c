#include "report/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include "llm/gpus.h"
#include "report/memory.h"
#include "report/profiles.h"
#include "report/text.h"
#include "report/view.h"
#include "trace/reader_files.h"

/* ---- which files */
/* A run may have no traces: repeats alone can be reported too. */
static int add_operand(struct report_run *r, const char *operand, struct err *err) {
    if (!file_exists(operand)) return err_set(err, "%s: no such run folder or trace", operand);
    bool traces = trace_files_add(&r->paths, operand);
    if (!file_is_dir(operand)) return 0;
    char *metrics = file_join(operand, "metrics.json");
    bool known = file_exists(metrics);
    if (!r->dir) r->dir = xstrdup(operand);
    free(metrics);
    if (!traces && !known)
        return err_set(err, "%s: neither traces (trace/*.ipt, *.ipt) nor a metrics.json in it", operand);
    return 0;
}

/* ---- what a trace says of its run, when no metrics.json does */
static void add_env(struct report_run *r, const char *group, const char *key, const char *value) {
    if (!value || !*value) return;
    strlist_add(&r->env_texts, "%s", value);
    r->env = realloc(r->env, (r->in.nenv + 1) * sizeof *r->env);
    if (!r->env) die("out of memory");
    r->env[r->in.nenv++] = (struct report_kv){ group, key, r->env_texts.v[r->env_texts.n - 1] };
    r->in.env = r->env;
}

static void env_from_trace(struct report_run *r) {
    static const char *const rows[][3] = {
        { "Program", "Command", "process.command" },    { "Program", "Host", "host" },
        { "Program", "Recorded by", "source" },         { "Software", "Driver", "cuda.driver" },
        { "Software", "CUDA runtime", "cuda.runtime" }, { "Software", "CUPTI", "cupti.version" },
    };
    const struct timeline *tl = r->timeline;
    for (size_t i = 0; i < COUNTOF(rows); i++)
        add_env(r, rows[i][0], rows[i][1], timeline_meta_value(tl, rows[i][2]));
    for (size_t i = 0; i < tl->ndevices; i++) {
        char text[64];
        const struct timeline_device *d = &tl->devices[i];
        add_env(r, "GPU", "Name", timeline_text(tl, d->name));
        if (d->cc_major) {
            snprintf(text, sizeof text, "%u.%u", d->cc_major, d->cc_minor);
            add_env(r, "GPU", "Compute capability", text);
        }
        if (d->sms) {
            snprintf(text, sizeof text, "%u", d->sms);
            add_env(r, "GPU", "SMs", text);
        }
        if (d->memory_bytes) add_env(r, "GPU", "Memory", text_bytes((double)d->memory_bytes).s);
    }
}

/* Adds the last line of the list again only if it was not there before: a second report must not say it
 * twice. */
static void keep_once(struct strlist *list) {
    for (size_t i = 0; i + 1 < list->n; i++)
        if (strcmp(list->v[i], list->v[list->n - 1]) == 0) {
            free(list->v[--list->n]);
            return;
        }
}
#define ADD_ONCE(list, ...) (strlist_add(list, __VA_ARGS__), keep_once(list))

void report_trace_problems(const struct timeline *tl, struct strlist *list) {
    for (size_t i = 0; i < tl->nproblems; i++) ADD_ONCE(list, "%s", timeline_text(tl, tl->problems[i]));
    for (int k = 0; k < TRACE_KIND_END; k++)
        if (tl->lost[k])
            ADD_ONCE(list, "%s %s records were lost while recording", text_count(tl->lost[k]).s,
                     trace_kind_name((unsigned)k) ? trace_kind_name((unsigned)k) : "unknown");
}

static char *title_from_trace(const struct report_run *r, const char *operand) {
    const char *command = timeline_meta_value(r->timeline, "process.command"),
               *device = view_trace_device(r->timeline);
    const char *what = command && *command ? command : file_basename(operand);
    return xasprintf("%.120s%s%s", what, device ? " on " : "", device ? device : "");
}

/* ---- analysis */
/* The device's peaks: as the run had them, else those of the device table, else none; the user's word over
 * all. */
static void find_peaks(struct report_run *r, const struct report_run_options *o,
                       struct analyze_input *input) {
    struct err ignored;
    const char *name = view_trace_device(r->timeline);
    const struct llm_gpu *g = NULL;
    if (isfinite(r->in.peak.flops_per_s)) {
        input->peak_flops_per_s = r->in.peak.flops_per_s;
        input->peak_bytes_per_s = r->in.peak.bytes_per_s;
        input->peak_source = r->in.peak.source;
    } else if (name && (g = llm_gpu_find(name, &ignored))) {
        input->peak_flops_per_s = llm_gpu_flop_per_s(g, LLM_BF16);
        input->peak_bytes_per_s = llm_gpu_bytes_per_s(g);
        snprintf(r->peak_source, sizeof r->peak_source, "datasheet of %.60s, dense bf16", g->name);
        input->peak_source = r->peak_source;
        r->in.peak.type = "bf16 dense";
    }
    if (o && o->peak_flops_per_s > 0) {
        input->peak_flops_per_s = o->peak_flops_per_s;
        input->peak_source = "given by the user";
    }
    if (o && o->peak_bytes_per_s > 0) {
        input->peak_bytes_per_s = o->peak_bytes_per_s;
        input->peak_source = "given by the user";
    }
    if (!r->timeline && !input->peak_source) return; /* as the run kept them */
    r->in.peak.flops_per_s = input->peak_flops_per_s;
    r->in.peak.bytes_per_s = input->peak_bytes_per_s;
    r->in.peak.source = input->peak_source;
}

/* From the first stage's start to the last one's end. False: the trace marks none, or has nothing outside
 * of them. */
static bool request_window(const struct analysis *a, uint64_t *from_ns, uint64_t *to_ns) {
    *from_ns = UINT64_MAX;
    *to_ns = 0;
    if (!a->noccurrences || a->stages[0].implicit || !a->stages[a->nstages - 1].kernels) return false;
    for (size_t i = 0; i < a->noccurrences; i++) {
        *from_ns = MIN(*from_ns, a->occurrences[i].start_ns);
        *to_ns = MAX(*to_ns, a->occurrences[i].wall_end_ns);
    }
    return true;
}

void report_keep_request(const struct strlist *paths, const struct analyze_input *input, struct timeline **tl,
                         struct analysis *a) {
    uint64_t from_ns, to_ns;
    struct err ignored;
    if (!input->one_run || !request_window(a, &from_ns, &to_ns)) return;
    struct timeline *cut =
        timeline_load_between((const char *const *)paths->v, paths->n, from_ns, to_ns, &ignored);
    if (!cut) return;
    analysis_free(a);
    timeline_close(*tl);
    *tl = cut;
    analyze_run(cut, input, a);
}

static void analyze(struct report_run *r, const struct report_run_options *o) {
    static const struct report_run_options none = { 0 };
    struct analyze_input input = { .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN };
    if (!o) o = &none;
    if (r->memory && (o->peak_flops_per_s > 0 || o->peak_bytes_per_s > 0))
        report_memory_drop_floors(r->memory);
    if (r->memory) input = report_memory_input(r->memory);
    input.llm = o->model;
    if (o->nrules) {
        input.rules = o->rules;
        input.nrules = o->nrules;
    }
    if (r->profiles) {
        input.profiles = r->profiles->v;
        input.nprofiles = r->profiles->n;
    }
    find_peaks(r, o, &input);
    r->input = input;
    analyze_run(r->timeline, &r->input, &r->analysis);
    if (r->timeline && !o->whole) report_keep_request(&r->paths, &r->input, &r->timeline, &r->analysis);
    r->in.analysis = &r->analysis;
    r->in.timeline = r->timeline;
}

#define MAX_CONFIG_BYTES (4u << 20)

static void read_config(struct report_run *r) {
    char *path = file_join(r->dir, "config.yaml");
    struct err ignored;
    if (file_exists(path) && file_read(path, MAX_CONFIG_BYTES, &r->config, &ignored) == 0)
        r->in.config = r->config.buf;
    free(path);
}

static int open_memory(struct report_run *r, struct err *err) {
    char *path = file_join(r->dir, "metrics.json");
    int rc = 0;
    if (file_exists(path)) {
        r->memory = report_memory_load(path, err);
        if (r->memory)
            report_memory_fill(r->memory, &r->in);
        else
            rc = err_wrap(
                err, "what the run kept cannot be read (without that file the traces alone are reported)");
    }
    free(path);
    if (rc == 0) read_config(r);
    return rc;
}

/* The mark of a run that was killed, or is still going on: its first line says which. */
static void add_mark(struct report_run *r) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *path = r->dir ? file_join(r->dir, "INCOMPLETE") : NULL;
    if (path && file_exists(path) && file_read(path, 4096, &text, &ignored) == 0) {
        text.buf[strcspn(text.buf, "\n")] = '\0';
        ADD_ONCE(&r->texts, "%s", *text.buf ? text.buf : "This run has not finished.");
    }
    strbuf_free(&text);
    free(path);
}

static void describe(struct report_run *r, const char *operand) {
    const struct timeline *tl = r->timeline;
    if (tl && !r->in.nenv) env_from_trace(r);
    if (tl && !r->in.started_wall_ns && tl->nprocesses && !tl->processes[0].relative_clock)
        r->in.started_wall_ns = tl->start_ns;
    if (!r->in.title && tl) r->in.title = r->title = title_from_trace(r, operand);
    if (!r->in.run_id) r->in.run_id = file_basename(operand);
    for (size_t i = 0; i < r->in.nproblems; i++) ADD_ONCE(&r->texts, "%s", r->in.problems[i]);
    add_mark(r);
    if (tl) report_trace_problems(tl, &r->texts);
    r->in.problems = (const char *const *)r->texts.v;
    r->in.nproblems = r->texts.n;
}

int report_run_open(struct report_run *r, const char *const *operands, size_t n,
                    const struct report_run_options *options, struct err *err) {
    memset(r, 0, sizeof *r);
    report_input_init(&r->in);
    r->config = (struct strbuf)STRBUF_INIT;
    for (size_t i = 0; i < n; i++)
        if (add_operand(r, operands[i], err) < 0) goto failed;
    if (n == 1 && r->dir && !(options && options->fresh) && open_memory(r, err) < 0) goto failed;
    if (r->paths.n) {
        r->timeline = timeline_load((const char *const *)r->paths.v, r->paths.n, err);
        if (!r->timeline && !r->memory) goto failed;
        if (!r->timeline) strlist_add(&r->texts, "The trace could not be read: %s", err->msg);
    }
    if (r->timeline && n == 1 && r->dir) r->profiles = report_profiles_load(r->dir, &r->texts);
    analyze(r, options);
    describe(r, operands[0]);
    return 0;
failed:
    report_run_close(r);
    return -1;
}

void report_run_close(struct report_run *r) {
    analysis_free(&r->analysis);
    timeline_close(r->timeline);
    report_memory_close(r->memory);
    report_profiles_close(r->profiles);
    strlist_free(&r->paths);
    strlist_free(&r->texts);
    strlist_free(&r->env_texts);
    strbuf_free(&r->config);
    free(r->env);
    free(r->title);
    free(r->dir);
    memset(r, 0, sizeof *r);
}

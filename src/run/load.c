#include "run/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "conf/secrets.h"
#include "llm/gpus.h"
#include "llm/peak_source.h"
#include "run/ncu_profiles.h"
#include "run/saved_metrics.h"
#include "run/trace_facts.h"
#include "session/rank_folder.h"
#include "trace/reader_files.h"

/* ---- which files */

/* A folder without traces is a run if it has a metrics.json, because its timed repeats can be reported. */
static int add_operand(struct loaded_run *r, const char *operand, struct err *err) {
    if (!file_exists(operand)) return err_set(err, "%s: no such run folder or trace", operand);
    bool has_traces = trace_files_add(&r->paths, operand);
    if (!file_is_dir(operand)) return 0;
    char *metrics = file_join(operand, "metrics.json");
    bool has_metrics = file_exists(metrics);
    if (!r->dir) r->dir = xstrdup(operand);
    free(metrics);
    if (!has_traces && !has_metrics)
        return err_set(err, "%s: contains neither traces (trace/*.ipt, *.ipt) nor a metrics.json", operand);
    return 0;
}

/* ---- environment from the traces */

static void add_env(struct loaded_run *r, const char *group, const char *key, const char *value) {
    if (!value || !*value) return;
    strlist_add(&r->env_texts, "%s", value);
    r->env = realloc(r->env, (r->info.nenv + 1) * sizeof *r->env);
    if (!r->env) die("out of memory");
    r->env[r->info.nenv++] = (struct run_kv){ group, key, r->env_texts.v[r->env_texts.n - 1] };
    r->info.env = r->env;
}

static void add_device_env(struct loaded_run *r, const char *group, const struct timeline_device *d) {
    char text[64];
    add_env(r, group, "Name", timeline_text(r->timeline, d->name));
    if (d->cc_major) {
        snprintf(text, sizeof text, "%u.%u", d->cc_major, d->cc_minor);
        add_env(r, group, "Compute capability", text);
    }
    if (d->sms) {
        snprintf(text, sizeof text, "%u", d->sms);
        add_env(r, group, "SMs", text);
    }
    if (d->memory_bytes) add_env(r, group, "Memory", units_bytes((double)d->memory_bytes, text, sizeof text));
}

static bool are_alike(const struct timeline_device *a, const struct timeline_device *b) {
    return a->name == b->name && a->cc_major == b->cc_major && a->cc_minor == b->cc_minor &&
           a->sms == b->sms && a->memory_bytes == b->memory_bytes;
}

/* Consecutive GPUs of one kind share a group: "GPU 0 to 7". */
static void add_devices_env(struct loaded_run *r) {
    const struct timeline *tl = r->timeline;
    for (size_t first = 0, last; first < tl->ndevices; first = last + 1) {
        char group[64] = "GPU";
        for (last = first; last + 1 < tl->ndevices && are_alike(&tl->devices[first], &tl->devices[last + 1]);)
            last++;
        if (last > first)
            snprintf(group, sizeof group, "GPU %.26s to %.26s", timeline_device_label(tl, first),
                     timeline_device_label(tl, last));
        else if (tl->ndevices > 1)
            snprintf(group, sizeof group, "GPU %.26s", timeline_device_label(tl, first));
        strlist_add(&r->env_texts, "%s", group);
        add_device_env(r, r->env_texts.v[r->env_texts.n - 1], &tl->devices[first]);
    }
}

static void env_from_trace(struct loaded_run *r) {
    static const char *const rows[][3] = {
        { "Program", "Command", "process.command" },    { "Program", "Host", "host" },
        { "Program", "Recorded by", "source" },         { "Software", "Driver", "cuda.driver" },
        { "Software", "CUDA runtime", "cuda.runtime" }, { "Software", "CUPTI", "cupti.version" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        add_env(r, rows[i][0], rows[i][1], timeline_meta_value(r->timeline, rows[i][2]));
    add_devices_env(r);
}

/* ---- analysis */

/* Replaces the peaks that the options give, and names the source of each peak. */
static void take_peak_options(struct loaded_run *r, const struct run_options *o,
                              struct analyze_input *input) {
    bool flops = o->peak_flops_per_s > 0, bytes = o->peak_bytes_per_s > 0;
    struct strbuf source = STRBUF_INIT;
    if (!flops && !bytes) return;
    if (flops) input->peak_flops_per_s = o->peak_flops_per_s;
    if (bytes) input->peak_bytes_per_s = o->peak_bytes_per_s;
    peak_source_add(input->peak_source, flops ? "the user" : NULL, bytes ? "the user" : NULL, &source);
    strlist_add(&r->env_texts, "%s", source.buf);
    strbuf_free(&source);
    input->peak_source = r->env_texts.v[r->env_texts.n - 1];
    r->info.peak.levels.n = 0;
}

#define NO_PEAKS "No roofs, MFU and MBU: "

static bool trace_is_of_cpu(const struct timeline *tl) {
    for (size_t i = 0; i < tl->ndevices; i++)
        if (!tl->devices[i].is_cpu && tl->devices[i].name) return false;
    return true;
}

static void name_datasheet(struct loaded_run *r, const struct llm_gpu *g, enum llm_dtype type,
                           const struct llm_pack *pack) {
    struct strbuf source = STRBUF_INIT;
    peak_source_of_gpu(g, type, pack, &source);
    snprintf(r->peak_source, sizeof r->peak_source, "%s", source.buf);
    strbuf_free(&source);
}

/* Returns the GPU that ran the kernels, as the table has it. NULL: unknown, or GPUs with different peaks. */
static const struct llm_gpu *find_gpu(const struct timeline *tl, const char *name, struct err *err) {
    const struct llm_gpu *g = llm_gpu_find(name, err);
    struct err unused;
    for (size_t i = 0; g && i < tl->ndevices; i++) {
        const struct timeline_device *d = &tl->devices[i];
        const char *other = d->name && d->kernel_count && !d->is_cpu ? timeline_text(tl, d->name) : name;
        if (strcmp(other, name) == 0 || llm_gpu_find(other, &unused) == g) continue;
        err_set(err, "the GPUs differ ('%.60s', '%.60s'); give --peak-tflops and --peak-gbps", name, other);
        return NULL;
    }
    return g;
}

/* Peaks of the device: from the options, else from metrics.json, else from the table of GPUs. Otherwise they
 * are unknown. */
static void find_peaks(struct loaded_run *r, const struct run_options *o, struct analyze_input *input) {
    struct err err;
    struct run_peak *kept = &r->info.peak;
    const char *name = run_trace_device(r->timeline);
    const struct llm_gpu *g =
        name && !trace_is_of_cpu(r->timeline) ? find_gpu(r->timeline, name, &err) : NULL;
    bool known = isfinite(kept->flops_per_s) || isfinite(kept->bytes_per_s),
         given = o->peak_flops_per_s > 0 && o->peak_bytes_per_s > 0,
         one_given = o->peak_flops_per_s > 0 || o->peak_bytes_per_s > 0;
    if (name && !g && !known && !given && !trace_is_of_cpu(r->timeline))
        snprintf(r->no_peaks, sizeof r->no_peaks, NO_PEAKS "%.280s.", err.msg);
    else if (r->timeline && o->model && !g && !known && !one_given)
        snprintf(r->no_peaks, sizeof r->no_peaks,
                 NO_PEAKS "the peaks of the device are unknown; give --peak-tflops and --peak-gbps.");
    if (*r->no_peaks) strlist_add(&r->warnings, "%s", r->no_peaks);
    input->read_bytes_per_s = kept->read_bytes_per_s;
    if (known) {
        input->peak_flops_per_s = kept->flops_per_s;
        input->peak_bytes_per_s = kept->bytes_per_s;
        input->peak_source = kept->source;
    } else if (g) {
        enum llm_dtype type = g->bf16 > 0 ? LLM_BF16 : LLM_F16;
        input->peak_flops_per_s = llm_gpu_flop_per_s(g, type);
        input->peak_bytes_per_s = llm_gpu_bytes_per_s(g);
        name_datasheet(r, g, type, &(struct llm_pack){ 0 });
        input->peak_source = r->peak_source;
        kept->type = type == LLM_BF16 ? "bf16 dense" : "fp16 dense";
    }
    if (!(o->peak_flops_per_s > 0) && peak_source_is_datasheet(input->peak_source)) input->gpu = g;
    take_peak_options(r, o, input);
    if (!r->timeline && !input->peak_source) return; /* keep the peaks of metrics.json */
    kept->flops_per_s = input->peak_flops_per_s;
    kept->bytes_per_s = input->peak_bytes_per_s;
    kept->source = input->peak_source;
}

/* The model of the program's weight files is not used if the user gave a model, or for runs of `profile`. */
static void find_model(struct loaded_run *r, const struct run_options *o) {
    if (!r->timeline || r->input.one_run || o->model) return;
    r->model = trace_model_find(r->timeline);
    const struct trace_model *m = &r->model;
    if (m->problem)
        strlist_add(&r->warnings, "The model of %s cannot be used: %s. Use report --model.", m->path,
                    m->problem);
    if (!m->model) return;
    r->model_from = m->files > 1 ? xasprintf("%zu files of %s, %s", m->files, m->path, m->how)
                                 : xasprintf("%s, %s", m->path, m->how);
    r->input.llm = m->model;
    r->input.llm_from = r->model_from;
}

/* Adds the type of quantised weights to the source of the peaks, if that is a datasheet. */
static void name_weights(struct loaded_run *r) {
    const struct llm_gpu *g = r->input.gpu;
    if (!g || !r->input.peak_source) return;
    enum llm_dtype type = g->bf16 > 0 ? LLM_BF16 : LLM_F16;
    name_datasheet(r, g, type, &(struct llm_pack){ 0 });
    if (strcmp(r->input.peak_source, r->peak_source) != 0) return;
    name_datasheet(r, g, type, &r->input.llm->pack);
    r->input.peak_source = r->analysis.peak_source = r->info.peak.source = r->peak_source;
}

/* Describes the model only if the analysis used it. */
static void describe_model(struct loaded_run *r) {
    if (!r->input.llm || r->input.one_run || r->analysis.model != r->input.llm->name) return;
    run_model_facts(r->input.llm, &r->info.facts);
    name_weights(r);
    r->info.facts.costs_from = r->input.llm_from ? "files of the program" : "given by the user";
}

/* Keeps only the steady steps in the trace of a program without stages. The report shows the rest
 * separately. */
static void cut_to_steady(struct loaded_run *r, const struct run_options *o) {
    if (!r->timeline || r->input.one_run || o->whole || o->whole_trace) return;
    if (!analyze_steady_window(r->timeline, &r->input, &r->phases)) return;
    r->input.phases = &r->phases;
    timeline_cut(r->timeline, r->phases.steady_from_ns, r->phases.steady_to_ns);
}

static void analyze(struct loaded_run *r, const struct run_options *o) {
    struct analyze_input input = { .peak_flops_per_s = NAN, .peak_bytes_per_s = NAN };
    uint64_t from_ns, to_ns;
    if (r->saved && (o->peak_flops_per_s > 0 || o->peak_bytes_per_s > 0)) saved_metrics_drop_floors(r->saved);
    if (r->saved) input = saved_metrics_input(r->saved);
    input.llm = o->model;
    input.tp = o->tp;
    input.dp = o->dp;
    input.pp = o->pp;
    input.ep = o->ep;
    if (o->nrules) {
        input.rules = o->rules;
        input.nrules = o->nrules;
    }
    if (r->profiles) {
        input.profiles = r->profiles->v;
        input.nprofiles = r->profiles->n;
    }
    input.no_steps = o->whole_trace;
    find_peaks(r, o, &input);
    r->input = input;
    if (r->timeline && input.one_run && !o->whole &&
        analyze_request_window(r->timeline, &input, &from_ns, &to_ns))
        timeline_cut(r->timeline, from_ns, to_ns);
    find_model(r, o);
    cut_to_steady(r, o);
    analyze_run(r->timeline, &r->input, &r->analysis);
    describe_model(r);
    r->info.analysis = &r->analysis;
    r->info.timeline = r->timeline;
}

void run_add_profiles(struct loaded_run *r) {
    struct ncu_profiles *old = r->profiles;
    r->profiles = ncu_profiles_load(r->dir, &r->warnings);
    r->input.profiles = r->profiles ? r->profiles->v : NULL;
    r->input.nprofiles = r->profiles ? r->profiles->n : 0;
    analysis_set_profiles(&r->analysis, r->input.profiles, r->input.nprofiles);
    ncu_profiles_close(old);
    r->info.warnings = (const char *const *)r->warnings.v;
    r->info.nwarnings = r->warnings.n;
}

/* ---- other files */

#define MISSING_LIST_BYTES 60 /* longer lists are shortened */
#define MAX_CONFIG_BYTES (4u << 20)

static void read_config(struct loaded_run *r) {
    char *path = file_join(r->dir, "config.yaml");
    struct err ignored;
    if (file_exists(path) && file_read(path, MAX_CONFIG_BYTES, &r->config, &ignored) == 0)
        conf_hide_secrets_in_text(&r->config);
    if (r->config.len) r->info.config = r->config.buf;
    free(path);
}

static int read_saved(struct loaded_run *r, struct err *err) {
    char *path = file_join(r->dir, "metrics.json");
    int rc = 0;
    if (file_exists(path)) {
        r->saved = saved_metrics_load(path, err);
        if (r->saved)
            saved_metrics_fill(r->saved, &r->info);
        else
            rc = err_wrap(err,
                          "cannot read the results of the run (delete that file to report only the traces)");
    }
    free(path);
    if (rc == 0) read_config(r);
    return rc;
}

/* The file INCOMPLETE marks a run that was killed or has not finished. Its first line becomes a warning. */
static void read_mark(struct loaded_run *r) {
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    char *path = r->dir ? file_join(r->dir, "INCOMPLETE") : NULL;
    if (path && file_exists(path) && file_read(path, 4096, &text, &ignored) == 0) {
        text.buf[strcspn(text.buf, "\n")] = '\0';
        run_add_warning(&r->warnings, *text.buf ? text.buf : "This run has not finished.");
    }
    strbuf_free(&text);
    free(path);
}

static bool has_rank(uint32_t rank, const void *timeline) {
    const struct timeline *tl = timeline;
    for (size_t i = 0; tl && i < tl->nprocesses; i++)
        if (tl->processes[i].rank == rank) return true;
    return false;
}

/* Returns the number of different ranks below `world` that have a trace. */
static uint32_t count_ranks(const struct timeline *tl, uint32_t world) {
    uint32_t n = 0;
    for (size_t i = 0; i < tl->nprocesses; i++) {
        uint32_t rank = tl->processes[i].rank;
        bool counted = rank >= world;
        for (size_t k = 0; k < i && !counted; k++) counted = tl->processes[k].rank == rank;
        n += !counted;
    }
    return n;
}

/* Adds a warning with the ranks that have no trace, if a launcher started the job. Imported traces have no
 * launcher: other ranks were left out on purpose. The trace may claim any size of the job. */
static void add_missing_ranks(const struct timeline *tl, struct strlist *out) {
    struct strbuf list = STRBUF_INIT;
    uint32_t world = 0;
    for (size_t i = 0; tl && i < tl->nprocesses; i++) {
        const struct timeline_process *p = &tl->processes[i];
        if (p->launcher && p->rank != TIMELINE_NONE && p->world_size != TIMELINE_NONE)
            world = MAX(world, p->world_size);
    }
    uint32_t missing = world ? world - count_ranks(tl, world) : 0;
    for (uint32_t rank = 0; rank < world && list.len < MISSING_LIST_BYTES; rank++)
        if (!has_rank(rank, tl)) strbuf_addf(&list, "%s%u", list.len ? ", " : "", rank);
    if (missing)
        strlist_add(out, "%u of %u ranks have no trace (%s%s): figures of the job do not include them.",
                    missing, world, list.buf, list.len < MISSING_LIST_BYTES ? "" : ", ...");
    strbuf_free(&list);
}

void run_rank_warnings(const struct loaded_run *r, struct strlist *out) {
    if (r->dir && rank_folder_warnings(r->dir, has_rank, r->timeline, out)) return;
    add_missing_ranks(r->timeline, out);
}

static void describe_run(struct loaded_run *r, const char *operand) {
    struct run_info *info = &r->info;
    const struct timeline *tl = r->timeline;
    if (tl && !info->nenv) env_from_trace(r);
    if (tl && !info->started_wall_ns && tl->nprocesses && !tl->processes[0].relative_clock)
        info->started_wall_ns = tl->start_ns;
    if (!info->title && tl) info->title = r->title = run_trace_title(tl, file_basename(operand));
    if (!info->run_id) info->run_id = file_basename(operand);
    /* Drops a stored warning about missing peaks. find_peaks() adds it again if they are still unknown. */
    for (size_t i = 0; i < info->nwarnings; i++)
        if (strncmp(info->warnings[i], NO_PEAKS, strlen(NO_PEAKS)) != 0)
            run_add_warning(&r->warnings, info->warnings[i]);
    read_mark(r);
    run_rank_warnings(r, &r->warnings);
    if (tl) run_trace_warnings(tl, &r->warnings);
    info->warnings = (const char *const *)r->warnings.v;
    info->nwarnings = r->warnings.n;
}

int run_load(struct loaded_run *r, const char *const *operands, size_t n, const struct run_options *options,
             struct err *err) {
    static const struct run_options none = { 0 };
    const struct run_options *o = options ? options : &none;
    memset(r, 0, sizeof *r);
    run_info_init(&r->info);
    r->config = (struct strbuf)STRBUF_INIT;
    for (size_t i = 0; i < n; i++)
        if (add_operand(r, operands[i], err) < 0) goto failed;
    if (n == 1 && r->dir && !o->fresh && read_saved(r, err) < 0) goto failed;
    if (r->paths.n) {
        struct timeline_options how = { .clocks = o->clocks, .traces = o->readers };
        r->timeline = timeline_load_with((const char *const *)r->paths.v, r->paths.n, &how, err);
        if (!r->timeline && !r->saved) goto failed;
        if (!r->timeline) strlist_add(&r->warnings, "Cannot read the trace: %s", err->msg);
    }
    if (r->timeline && n == 1 && r->dir) r->profiles = ncu_profiles_load(r->dir, &r->warnings);
    analyze(r, o);
    describe_run(r, operands[0]);
    return 0;
failed:
    run_unload(r);
    return -1;
}

void run_unload(struct loaded_run *r) {
    analysis_free(&r->analysis);
    timeline_close(r->timeline);
    saved_metrics_close(r->saved);
    ncu_profiles_close(r->profiles);
    trace_model_free(&r->model);
    free(r->model_from);
    strlist_free(&r->paths);
    strlist_free(&r->warnings);
    strlist_free(&r->env_texts);
    strbuf_free(&r->config);
    free(r->env);
    free(r->title);
    free(r->dir);
    memset(r, 0, sizeof *r);
}

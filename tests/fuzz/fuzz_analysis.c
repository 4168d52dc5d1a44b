/* Untrusted traces behind the reader: one to three traces are analysed and reported as by `report`, and also
 * exported, cut, or added up as by `stats`. The first bytes of the input select the options; see
 * trace_maker.h for the rest. Or the rest is the file itself, with correct checksums.
 *
 * For any traces: the JSON documents can be read again, no share is over 100%, parts add up to the whole, no
 * finding saves more than the time of its stage, no operator has more self time than time, and no text has
 * invalid or unsafe characters. */
#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/totals.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/log.h"
#include "base/util.h"
#include "base/utf8.h"
#include "base/words.h"
#include "cmd/command.h"
#include "cmd/rank_report.h"
#include "fuzz/fuzz.h"
#include "fuzz/scratch_folder.h"
#include "fuzz/sealed_trace.h"
#include "fuzz/trace_maker.h"
#include "report/export.h"
#include "report/report.h"
#include "report/stats.h"
#include "run/load.h"
#include "run/saved_metrics.h"
#include "trace/reader_cut.h"
#include "trace/reader_set.h"

/* src/cmd needs the table of subcommands, which main.c defines. */
const struct command *const commands[] = { NULL };
const size_t commands_n = 0;

#define FILES_MAX 3
#define DOCUMENT_BYTES ((size_t)64 << 20)

enum option_bits {
    RAW = 1,
    WHOLE_TRACE = 2,
    RULES = 4,
    MODEL = 8,
    PEAKS = 16,
    AGAIN = 32, /* report the folder of the first report */
    SLIM = 64,
    ANONYMOUS = 128
};
enum extra { EXTRA_NONE, EXTRA_STATS, EXTRA_EXPORT, EXTRA_CUT, EXTRAS };

static const char *folder;      /* of this process */
static struct llm_model *model; /* for MODEL */
static const struct analyze_rule rules[] = { { "mine", "aten::*" }, { "decode", "*step*" } };

static const char config[] = "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],"
                             "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
                             "\"num_key_value_heads\":2,\"intermediate_size\":128,\"vocab_size\":1000,"
                             "\"max_position_embeddings\":2048,\"torch_dtype\":\"bfloat16\"}";

static _Noreturn void fail(const char *what, const char *where) {
    fprintf(stderr, "fuzz_analysis: %s: %s\n", where, what);
    abort();
}

static void prepare(void) {
    struct err err;
    if (folder) return;
    folder = scratch_folder();
    log_set_level(LOG_ERROR);
    model = llm_model_parse(config, sizeof config - 1, "config", &(struct llm_load){ 0 }, &err);
    if (!model) fail(err.msg, "model");
}

/* ---- documents */

/* A number whose name ends in "share" is a part of a whole, except for the share of a peak: FLOPs of the
 * trace may exceed it. */
static void check_shares(const json_t *v, const char *key, const char *where) {
    const char *member;
    const json_t *child;
    size_t i;
    if (json_is_object(v))
        json_object_foreach((json_t *)(uintptr_t)v, member, child) check_shares(child, member, where);
    if (json_is_array(v)) json_array_foreach(v, i, child) check_shares(child, key, where);
    if (!json_is_number(v) || !key || !words_end_with(key, strlen(key), "share") ||
        strcmp(key, "peak_share") == 0)
        return;
    double share = json_number_value(v);
    if (!(share >= -1e-9 && share <= 1 + 1e-6)) {
        fprintf(stderr, "%s is %.17g\n", key, share);
        fail("a share is not in 0..1", where);
    }
}

static void check_json(const struct strbuf *text, const char *where) {
    struct err err;
    json_error_t why;
    /* exported ids may have 64 bits */
    json_t *root = file_has_ending(where, "export.json")
                       ? json_loadb(text->buf, text->len, JSON_DECODE_INT_AS_REAL, &why)
                       : jsonr_load_text(text->buf, text->len, where, &err);
    if (!root) fail(file_has_ending(where, "export.json") ? why.text : err.msg, where);
    check_shares(root, NULL, where);
    json_decref(root);
}

/* Names of the traces do not become markup, and no character can change the terminal or the direction. */
static void check_text(const struct strbuf *text, const char *where) {
    if (!utf8_valid(text->buf, text->len)) fail("invalid UTF-8", where);
    for (const char *p = text->buf, *end = p + text->len; p < end;) {
        uint32_t c = utf8_next(&p, end);
        if (utf8_is_unsafe(c) && c != '\n' && c != '\r' && c != '\t') fail("unsafe character", where);
    }
    bool marked_up =
        file_has_ending(where, ".html") || file_has_ending(where, ".md") || file_has_ending(where, ".svg");
    if (!marked_up) return;
    if (strstr(text->buf, "<script>alert(1)") || strstr(text->buf, "<img src=x"))
        fail("markup of a name", where);
}

static void check_document(const char *path) {
    struct strbuf text = STRBUF_INIT;
    struct err err;
    if (file_read(path, DOCUMENT_BYTES, &text, &err) < 0) fail(err.msg, path);
    if (file_has_ending(path, ".json")) check_json(&text, path);
    check_text(&text, path);
    strbuf_free(&text);
}

static void check_documents(const char *dir) {
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = file_join(dir, e->d_name);
        static const char *const endings[] = { ".json", ".md", ".html", ".csv", ".svg" };
        if (strcmp(e->d_name, "charts") == 0) check_documents(path);
        for (size_t i = 0; i < COUNTOF(endings); i++)
            if (file_has_ending(path, endings[i])) check_document(path);
        free(path);
    }
    if (d) closedir(d);
}

/* ---- the analysis */

static void check_near(double a, double b, double scale, const char *what) {
    if (fabs(a - b) <= 1e-6 * scale + 1e-3) return;
    fprintf(stderr, "%.17g, not %.17g\n", a, b);
    fail(what, "analysis");
}

static void check_devices(const struct analysis *a) {
    for (size_t d = 0; d < a->ndevices && a->stage_devices; d++) {
        const struct analysis_device *device = &a->devices[d];
        double sum = device->unrecorded_ns, parts = 0;
        if (!(device->timeline_ns > 0)) continue;
        for (size_t s = 0; s < a->nstages; s++) {
            const struct analysis_stage_device *on = analysis_stage_on(a, s, d);
            if (a->stages[s].parent == ANALYSIS_NONE) sum += on->busy_ns + on->idle_ns;
            if (!(on->busy_ns >= 0) || !(on->idle_ns >= 0)) fail("negative time of a stage", "analysis");
        }
        for (size_t i = 0; i < a->nparts; i++)
            if (a->parts[i].device == d) parts += a->parts[i].time_ns;
        check_near(sum, device->timeline_ns, device->timeline_ns, "stages do not add up to the timeline");
        if (parts > 0) check_near(parts, device->timeline_ns, device->timeline_ns, "parts of the timeline");
    }
}

static void check_analysis(const struct analysis *a) {
    const struct analysis_conservation *c = &a->conservation;
    double categories = 0, libraries = 0, roots = 0;
    check_near(c->kernel_residual, 0, c->busy, "kernels do not add up to the busy time");
    check_near(c->stage_residual, 0, c->busy, "stages do not add up to the busy time");
    check_near(c->operator_residual, 0, c->busy, "operators do not add up to the busy time");
    for (size_t i = 0; i < a->ncategories; i++) categories += a->categories[i].owned_ns;
    for (size_t i = 0; i < a->nlibraries; i++) libraries += a->libraries[i].owned_ns;
    for (size_t i = 0; i < a->nstages; i++)
        if (a->stages[i].parent == ANALYSIS_NONE) roots += a->stages[i].gpu_owned_ns;
    check_near(categories, c->busy, c->busy, "categories do not add up to the busy time");
    check_near(libraries, c->busy, c->busy, "libraries do not add up to the busy time");
    if (a->nstages) check_near(roots, c->busy, c->busy, "top-level stages do not add up to the busy time");
    check_devices(a);
    for (size_t i = 0; i < a->nfindings; i++) {
        const struct analysis_finding *f = &a->findings[i];
        if (f->stage == ANALYSIS_NONE || isnan(f->saving_ms)) continue;
        double most_ms = a->stages[f->stage].time_ms + f->outside_ms;
        if (f->saving_ms > most_ms * (1 + 1e-6) + 1e-9) fail("saves too much", f->rule);
    }
}

static void check_ranges(const struct totals_ranges *ranges) {
    for (size_t i = 0; i < ranges->n; i++) {
        const struct totals_range *r = &ranges->v[i];
        if (r->self_ns > r->total_ns) fail("self time over the time", r->name);
        if (r->self_device_ns > r->device_ns) fail("self device time over the device time", r->name);
    }
}

static void check_totals(const struct analysis_totals *t) {
    check_ranges(&t->operators);
    check_ranges(&t->annotations);
    for (size_t i = 0; i < t->ndevices; i++) {
        const struct totals_device *d = &t->devices[i];
        if (d->busy_ns > d->span_ns || d->kernel_busy_ns > d->busy_ns) fail("parts over the whole", d->label);
    }
    for (size_t i = 0; i < t->nranks; i++) {
        const struct totals_rank *r = &t->ranks[i];
        if (r->comm_hidden_ns > r->comm_ns || r->compute_ns > r->busy_ns)
            fail("parts over the whole", r->path);
    }
}

/* ---- what the commands do with the traces */

struct job {
    const char *operands[FILES_MAX];
    size_t n;
    uint8_t options, extra;
    struct trace_set *readers;
    struct rank_operands ranks;
    char out[96];
};

static void write_report(struct job *j, const struct run_options *o, const char *const *operands, size_t n) {
    struct loaded_run r;
    struct strbuf screen = STRBUF_INIT;
    struct view v;
    struct err err;
    if (run_load(&r, operands, n, o, &err) < 0) return;
    check_analysis(&r.analysis);
    r.info.version = "1.0";
    r.info.slim = j->options & SLIM;
    r.info.has_ranks = j->ranks.ranks > 1;
    view_init(&v, &r.info);
    if (file_mkdirs(j->out, &err) < 0 || report_write_all(j->out, &v, &err) < 0) fail(err.msg, "report");
    report_terminal(&v, &(struct report_screen){ .width = 100, .color = true }, &screen);
    if (!utf8_valid(screen.buf, screen.len)) fail("invalid UTF-8", "screen");
    strbuf_free(&screen);
    view_free(&v);
    run_unload(&r);
    check_documents(j->out);
}

static void report(struct job *j) {
    struct err err;
    struct run_options o = { .readers = j->readers, .whole_trace = j->options & WHOLE_TRACE };
    if (j->options & RULES) {
        o.rules = rules;
        o.nrules = COUNTOF(rules);
    }
    if (j->options & MODEL) o.model = model;
    if (j->options & PEAKS) {
        o.peak_flops_per_s = 1e15;
        o.peak_bytes_per_s = 4e12;
    }
    if (j->ranks.ranks > 1) o.clocks = &j->ranks.clocks;
    if (j->ranks.ranks > 1) {
        struct rank_report_options how = { .model = o.model,
                                           .link = j->options & PEAKS ? "450" : NULL,
                                           .title = "job",
                                           .peak_flops_per_s = o.peak_flops_per_s };
        if (rank_report_run(&j->ranks, j->out, &how, &err) == 0) check_documents(j->out);
    }
    write_report(j, &o, j->operands, j->n);
    if (!(j->options & AGAIN)) return;
    char *metrics = file_join(j->out, "metrics.json");
    struct saved_metrics *m = saved_metrics_load(metrics, &err);
    if (!m && file_exists(metrics)) fail(err.msg, metrics);
    saved_metrics_close(m);
    free(metrics);
    const char *again[] = { folder };
    snprintf(j->out, sizeof j->out, "%s", folder);
    write_report(j, &o, again, 1);
}

static void stats(struct job *j) {
    struct err err;
    struct timeline_options how = { .traces = j->readers };
    struct timeline *tl = timeline_load_with(j->operands, j->n, &how, &err);
    const struct analyze_input input = { .totals = true, .no_steps = true };
    struct analysis a;
    struct sums sums;
    struct strbuf out = STRBUF_INIT;
    const char *files[FILES_MAX] = { "a", "b", "c" };
    if (!tl) return;
    sums_init(&sums);
    analyze_run(tl, &input, &a);
    check_analysis(&a);
    check_totals(a.totals);
    sums_add_all(&sums, &a.totals->sums);
    sums_sort(&sums);
    struct stats_view v = { .sums = &sums,
                            .totals = a.totals,
                            .unrecorded = &a.unrecorded,
                            .files = files,
                            .top = 15,
                            .line_width = 100,
                            .job = j->ranks.ranks > 1 ? &j->ranks.job : NULL };
    stats_json(&v, &out);
    check_json(&out, "stats");
    strbuf_reset(&out);
    stats_text(&v, &out);
    check_text(&out, "stats.txt");
    strbuf_free(&out);
    sums_free(&sums);
    analysis_free(&a);
    timeline_close(tl);
}

static void export(struct job *j, uint8_t how) {
    static const char *const formats[] = { "perfetto",   "chrome",    "csv",  "sqlite",
                                           "speedscope", "collapsed", "pprof" };
    const char *format = formats[how % COUNTOF(formats)];
    struct run_options all = { .whole = true, .readers = j->readers };
    struct loaded_run r;
    struct export_job x;
    struct err err;
    char path[128];
    if (j->ranks.ranks > 1) all.clocks = &j->ranks.clocks;
    if (run_load(&r, j->operands, j->n, &all, &err) < 0) return;
    snprintf(path, sizeof path, "%s/export%s", j->out, strcmp(format, "csv") == 0 ? "" : ".json");
    export_open(&x, r.timeline, &r.analysis);
    x.readers = j->readers;
    if (file_mkdirs(j->out, &err) < 0) fail(err.msg, "export");
    bool cut = how & 128 && !export_is_stacks(format) && r.analysis.nstages;
    if (!cut || export_window(&x, r.analysis.stages[0].name, &err) == 0) {
        if (export_write(&x, format, path, &err) == 0 &&
            (strcmp(format, "chrome") == 0 || strcmp(format, "speedscope") == 0))
            check_document(path);
    }
    export_close(&x);
    run_unload(&r);
}

static void cut(const struct job *j, uint8_t how) {
    struct err err;
    struct trace_cut span = { .from_ns = 1000000000, .to_ns = 1000000000 + how * 10000u };
    char path[128];
    struct trace_reader *in = trace_reader_open(j->operands[0], &err);
    if (!in) return;
    span.anonymous = j->options & ANONYMOUS;
    if (how & 1) trace_cut_find(in, "decode", &span);
    snprintf(path, sizeof path, "%s/cut.ipt", folder);
    if (trace_cut_file(in, path, &span, &err) == 0) {
        const char *paths[] = { path };
        struct timeline *tl = timeline_load(paths, 1, &err);
        if (!tl) fail(err.msg, "cut");
        timeline_close(tl);
    }
    trace_reader_close(in);
}

static void run_job(struct job *j, uint8_t how) {
    const struct rank_options options = { .threads = 1,
                                          .no_steps = j->options & WHOLE_TRACE,
                                          .keep_kernels = !(j->options & SLIM) };
    struct err err;
    j->readers = trace_set_new();
    if (rank_operands_open(&j->ranks, j->operands, j->n, j->readers, &options, &err) < 0) j->ranks.ranks = 0;
    report(j);
    if (j->extra == EXTRA_STATS) stats(j);
    if (j->extra == EXTRA_EXPORT) export(j, how);
    if (j->extra == EXTRA_CUT) cut(j, how);
    rank_operands_close(&j->ranks);
    trace_set_free(j->readers);
}

/* ---- the input */

static void write_raw(const char *path, const uint8_t *data, size_t size) {
    struct strbuf s = STRBUF_INIT;
    struct err err;
    strbuf_add(&s, data, size);
    sealed_trace(&s);
    if (file_write_atomic(path, s.buf, s.len, &err) < 0) abort();
    strbuf_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char paths[FILES_MAX][128];
    static struct trace_maker m;
    struct err err;
    if (size < 3) return 0;
    prepare();
    struct job j = { .options = data[0], .extra = data[1] % EXTRAS };
    char dir[96];
    snprintf(dir, sizeof dir, "%s/trace", folder);
    snprintf(j.out, sizeof j.out, "%s%s", folder, j.options & AGAIN ? "" : "/out");
    if (file_mkdirs(dir, &err) < 0) abort();
    m = (struct trace_maker){ .p = data + 3, .end = data + size };
    do {
        snprintf(paths[j.n], sizeof *paths, "%s/%zu.ipt", dir, j.n);
        j.operands[j.n] = paths[j.n];
        if (j.options & RAW) {
            write_raw(paths[j.n++], data + 3, size - 3);
            break;
        }
        while (trace_maker_record(&m)) {}
        trace_maker_write(&m, paths[j.n++]);
    } while (m.p < m.end && j.n < FILES_MAX);
    run_job(&j, data[2]);
    scratch_clear(folder);
    return 0;
}

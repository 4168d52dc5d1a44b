#include "import/ncu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include "import/csv.h"
#include "import/ncu_unit.h"

#define NCU_BYTES_MAX (1u << 30)

const char *ncu_metric_key(enum ncu_metric m) {
    static const char *const keys[] = {
#define X(id, key) [NCU_##id] = key,
        NCU_METRICS(X)
#undef X
    };
    return keys[m];
}

/* Names of each metric on the details page, in sections and on the raw page. Metrics with the same name
 * differ in dimension: "Memory Throughput" is a percentage and a rate. If a file has several names of a
 * metric, the first one is used. */
static const struct {
    const char *name;
    enum ncu_metric metric;
    enum ncu_dimension dimension;
} metric_names[] = {
    { "Duration", NCU_DURATION, NCU_TIME },
    { "gpu__time_duration.sum", NCU_DURATION, NCU_TIME },
    { "gpu__time_duration.avg", NCU_DURATION, NCU_TIME },
    { "Elapsed Cycles", NCU_CYCLES, NCU_PLAIN },
    { "sm__cycles_elapsed.max", NCU_CYCLES, NCU_PLAIN },
    { "Compute (SM) Throughput", NCU_SM, NCU_PERCENT },
    { "Compute (SM) [%]", NCU_SM, NCU_PERCENT },
    { "SM [%]", NCU_SM, NCU_PERCENT },
    { "SOL SM", NCU_SM, NCU_PERCENT },
    { "sm__throughput.avg.pct_of_peak_sustained_elapsed", NCU_SM, NCU_PERCENT },
    { "Memory Throughput", NCU_MEMORY, NCU_PERCENT },
    { "Memory [%]", NCU_MEMORY, NCU_PERCENT },
    { "SOL Memory", NCU_MEMORY, NCU_PERCENT },
    { "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", NCU_MEMORY, NCU_PERCENT },
    { "DRAM Throughput", NCU_DRAM, NCU_PERCENT },
    { "SOL DRAM", NCU_DRAM, NCU_PERCENT },
    { "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", NCU_DRAM, NCU_PERCENT },
    { "dram__throughput.avg.pct_of_peak_sustained_elapsed", NCU_DRAM, NCU_PERCENT },
    { "Memory Throughput", NCU_DRAM_RATE, NCU_BANDWIDTH },
    { "dram__bytes.sum.per_second", NCU_DRAM_RATE, NCU_BANDWIDTH },
    { "dram__bytes.sum", NCU_DRAM_BYTES, NCU_BYTES },
    { "dram__bytes_read.sum", NCU_DRAM_READ, NCU_BYTES },
    { "dram__bytes_write.sum", NCU_DRAM_WRITE, NCU_BYTES },
    { "L1/TEX Hit Rate", NCU_L1_HIT, NCU_PERCENT },
    { "l1tex__t_sector_hit_rate.pct", NCU_L1_HIT, NCU_PERCENT },
    { "L2 Hit Rate", NCU_L2_HIT, NCU_PERCENT },
    { "lts__t_sector_hit_rate.pct", NCU_L2_HIT, NCU_PERCENT },
    { "Achieved Occupancy", NCU_OCCUPANCY, NCU_PERCENT },
    { "sm__warps_active.avg.pct_of_peak_sustained_active", NCU_OCCUPANCY, NCU_PERCENT },
    { "Theoretical Occupancy", NCU_OCCUPANCY_LIMIT, NCU_PERCENT },
    { "sm__maximum_warps_per_active_cycle_pct", NCU_OCCUPANCY_LIMIT, NCU_PERCENT },
    { "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", NCU_TENSOR, NCU_PERCENT },
    { "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", NCU_TENSOR, NCU_PERCENT },
    { "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", NCU_TENSOR, NCU_PERCENT },
    { "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", NCU_TENSOR, NCU_PERCENT },
    { "Executed Ipc Active", NCU_IPC, NCU_PLAIN },
    { "sm__inst_executed.avg.per_cycle_active", NCU_IPC, NCU_PLAIN },
    { "Registers Per Thread", NCU_REGISTERS, NCU_PLAIN },
    { "launch__registers_per_thread", NCU_REGISTERS, NCU_PLAIN },
    { "Waves Per SM", NCU_WAVES, NCU_PLAIN },
    { "launch__waves_per_multiprocessor", NCU_WAVES, NCU_PLAIN },
    { "SM Frequency", NCU_SM_CLOCK, NCU_FREQUENCY },
    { "gpc__cycles_elapsed.avg.per_second", NCU_SM_CLOCK, NCU_FREQUENCY },
    { "DRAM Frequency", NCU_DRAM_CLOCK, NCU_FREQUENCY },
    { "dram__cycles_elapsed.avg.per_second", NCU_DRAM_CLOCK, NCU_FREQUENCY },
    { "Warp Cycles Per Issued Instruction", NCU_WARP_CYCLES, NCU_PLAIN },
    { "smsp__average_warp_latency_per_inst_issued.ratio", NCU_WARP_CYCLES, NCU_PLAIN },
};

/* NCU_METRIC_END: not used */
static enum ncu_metric metric_of(const struct csv_field *name, enum ncu_dimension dimension) {
    for (size_t i = 0; i < COUNTOF(metric_names); i++)
        if (metric_names[i].dimension == dimension && csv_is(name, metric_names[i].name))
            return metric_names[i].metric;
    return NCU_METRIC_END;
}

void ncu_init(struct ncu *n) { *n = (struct ncu){ .texts = intern_open() }; }

void ncu_free(struct ncu *n) {
    intern_close(n->texts);
    free(n->launches.v);
    *n = (struct ncu){ 0 };
}

/* ---- Rows */

struct columns {
    int id, process, name, grid, block, device, cc, metric, unit, value, rule, advice;
};

static void find_columns(const struct csv *c, struct columns *at) {
    *at = (struct columns){ .id = csv_find(c, "ID"),
                            .process = csv_find(c, "Process ID"),
                            .name = csv_find(c, "Kernel Name"),
                            .grid = csv_find(c, "Grid Size"),
                            .block = csv_find(c, "Block Size"),
                            .device = csv_find(c, "Device"),
                            .cc = csv_find(c, "CC"),
                            .metric = csv_find(c, "Metric Name"),
                            .unit = csv_find(c, "Metric Unit"),
                            .value = csv_find(c, "Metric Value"),
                            .rule = csv_find(c, "Rule Name"),
                            .advice = csv_find(c, "Rule Description") };
    if (at->grid < 0) at->grid = csv_find(c, "launch__grid_size");
    if (at->block < 0) at->block = csv_find(c, "launch__block_size");
}

static uint32_t text_of(struct ncu *n, const struct csv *c, int column) {
    const struct csv_field *f = csv_at(c, column);
    return intern_id(n->texts, f->p, f->n);
}

/* Rows of a launch are usually adjacent, so the search begins at the end. */
static struct ncu_launch *launch_of(struct ncu *n, const struct csv *c, const struct columns *at) {
    struct ncu_launch k = { .name = text_of(n, c, at->name),
                            .process = text_of(n, c, at->process),
                            .id = text_of(n, c, at->id),
                            .grid = text_of(n, c, at->grid),
                            .block = text_of(n, c, at->block),
                            .device = text_of(n, c, at->device),
                            .cc = text_of(n, c, at->cc),
                            .launches = 1 };
    for (size_t i = n->launches.n; i-- > 0;) {
        struct ncu_launch *have = &n->launches.v[i];
        if (have->id == k.id && have->name == k.name && have->process == k.process) return have;
        if (n->launches.n - i > 4096) break; /* bounds the time for large files */
    }
    for (int m = 0; m < NCU_METRIC_END; m++) k.value[m] = NAN;
    for (int m = 0; m < NCU_STALL_END; m++) k.stall[m] = NAN;
    vec_push(&n->launches, k);
    return &n->launches.v[n->launches.n - 1];
}

/* Only the first source of stall data of a launch is used. */
static void take_stall(struct ncu_launch *k, enum ncu_stall stall, enum ncu_stall_source source, double v) {
    if (k->stall_source == NCU_STALL_NO_SOURCE) k->stall_source = source;
    if (k->stall_source == source && isnan(k->stall[stall])) k->stall[stall] = v;
}

static void take_advice(struct ncu_launch *k, const struct csv_field *text) {
    double cycles, total;
    enum ncu_stall stall = ncu_stall_of_rule(text->p, text->n, &cycles, &total);
    if (stall == NCU_STALL_END) return;
    take_stall(k, stall, NCU_STALL_RULE, cycles);
    if (isnan(k->value[NCU_WARP_CYCLES])) k->value[NCU_WARP_CYCLES] = total;
}

static void take_value(struct ncu *n, struct ncu_launch *k, const struct csv_field *name,
                       const struct csv_field *unit, const struct csv_field *value) {
    double factor, v;
    enum ncu_metric m = metric_of(name, ncu_unit(unit->p, unit->n, &factor));
    if (csv_is(value, "n/a")) n->not_measured++;
    if (!csv_number(value, &v)) return;
    enum ncu_stall_source source;
    enum ncu_stall stall =
        m == NCU_METRIC_END ? ncu_stall_of_metric(name->p, name->n, &source) : NCU_STALL_END;
    if (stall != NCU_STALL_END)
        take_stall(k, stall, source, v);
    else if (m != NCU_METRIC_END && isnan(k->value[m]))
        k->value[m] = v * factor;
}

/* The details page has one row per metric. Rows of rules have no metric. */
static void take_details(struct ncu *n, struct csv *c, const struct columns *at) {
    while (csv_next(c)) {
        n->rows++;
        if (!csv_at(c, at->name)->n) {
            n->bad_rows++;
            continue;
        }
        struct ncu_launch *k = launch_of(n, c, at);
        const struct csv_field *metric = csv_at(c, at->metric);
        if (metric->n)
            take_value(n, k, metric, csv_at(c, at->unit), csv_at(c, at->value));
        else if (csv_at(c, at->rule)->n) {
            n->rules++;
            take_advice(k, csv_at(c, at->advice));
        } else
            n->bad_rows++;
    }
}

struct head {
    struct csv_field *v;
    size_t n, cap;
};

/* The raw page has one row per launch, one column per metric, and a row of units below the heading. */
static void take_raw(struct ncu *n, struct csv *c, const struct columns *at) {
    struct head names = { 0 }, units = { 0 };
    for (size_t i = 0; i < c->n; i++) vec_push(&names, c->v[i]);
    while (csv_next(c)) {
        if (!csv_at(c, at->name)->n) {
            if (!units.n)
                for (size_t i = 0; i < c->n; i++) vec_push(&units, c->v[i]);
            else
                n->bad_rows++;
            continue;
        }
        n->rows++;
        struct ncu_launch *k = launch_of(n, c, at);
        static const struct csv_field none = { "", 0 };
        for (size_t i = 0; i < names.n && i < c->n; i++)
            take_value(n, k, &names.v[i], i < units.n ? &units.v[i] : &none, &c->v[i]);
    }
    free(names.v);
    free(units.v);
}

int ncu_read_text(struct ncu *n, char *text, size_t len, const char *name, struct err *err) {
    struct csv c;
    struct columns at = { .name = -1 };
    csv_open(&c, text, len);
    while (at.name < 0 && csv_next(&c)) find_columns(&c, &at); /* skip "==PROF==" lines */
    bool found = at.name >= 0;
    if (found && at.metric >= 0)
        take_details(n, &c, &at);
    else if (found)
        take_raw(n, &c, &at);
    csv_free(&c);
    if (!found)
        return err_set(
            err, "%s: no column \"Kernel Name\"; expected `ncu --csv --page details` or `--page raw`", name);
    return 0;
}

int ncu_read(struct ncu *n, const char *path, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    int rc = file_read(path, NCU_BYTES_MAX, &text, err);
    if (rc == 0) rc = ncu_read_text(n, text.buf, text.len, path, err);
    strbuf_free(&text);
    return rc;
}

/* ---- Evaluation */

/* NVIDIA's speed-of-light rule: below 60% of both peaks, a kernel is latency-bound. */
const char *ncu_bound(const struct ncu_launch *k) {
    double sm = k->value[NCU_SM],
           memory = fmax(k->value[NCU_MEMORY], k->value[NCU_DRAM]); /* fmax ignores NaN */
    if (isnan(sm) || isnan(memory)) return NULL;
    if (sm < 60 && memory < 60) return "latency";
    if (sm >= 60 && memory >= 60 && fabs(sm - memory) < 10) return "balanced";
    return sm > memory ? "compute" : "memory";
}

/* The values of a source add up to the total, except in advice texts: they contain only the largest reasons
 * and a separate total. */
const char *ncu_top_stall(const struct ncu_launch *k, double *pct) {
    double sum = 0;
    int top = -1;
    for (int m = 0; m < NCU_STALL_END; m++) {
        if (isnan(k->stall[m])) continue;
        sum += k->stall[m];
        if (m != NCU_STALL_SELECTED && (top < 0 || k->stall[m] > k->stall[top])) top = m;
    }
    if (k->stall_source == NCU_STALL_RULE) sum = k->value[NCU_WARP_CYCLES];
    *pct = top >= 0 && sum > 0 ? k->stall[top] / sum * 100 : NAN;
    return top >= 0 && k->stall[top] > 0 ? ncu_stall_name((enum ncu_stall)top) : NULL;
}

static double total_ns(const struct ncu_launch *k) {
    return isnan(k->value[NCU_DURATION]) ? 0 : k->value[NCU_DURATION] * (double)k->launches;
}

static int longest_first(const void *pa, const void *pb) {
    double a = total_ns(pa), b = total_ns(pb);
    return (a < b) - (a > b);
}

static int by_name_and_shape(const void *pa, const void *pb) {
    const struct ncu_launch *a = pa, *b = pb;
    if (a->name != b->name) return a->name < b->name ? -1 : 1;
    if (a->grid != b->grid) return a->grid < b->grid ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

/* Sets the rate of DRAM from bytes and duration if the file does not contain it. */
static void find_dram_rate(struct ncu_launch *k) {
    double *v = k->value;
    if (isnan(v[NCU_DRAM_BYTES])) v[NCU_DRAM_BYTES] = v[NCU_DRAM_READ] + v[NCU_DRAM_WRITE];
    if (isnan(v[NCU_DRAM_RATE]) && v[NCU_DURATION] > 0)
        v[NCU_DRAM_RATE] = v[NCU_DRAM_BYTES] / (v[NCU_DURATION] / 1e9);
}

/* Returns true for amounts of a launch. All other metrics are ratios to its time. */
static bool is_amount(int metric) {
    static const bool amounts[NCU_METRIC_END] = {
        [NCU_DURATION] = true,   [NCU_CYCLES] = true,    [NCU_DRAM_BYTES] = true, [NCU_DRAM_READ] = true,
        [NCU_DRAM_WRITE] = true, [NCU_REGISTERS] = true, [NCU_WAVES] = true
    };
    return amounts[metric];
}

/* Returns the metric that weights the launches: duration or, if it is not known of each of them, cycles.
 * NCU_METRIC_END: neither is known; all launches count the same. */
static enum ncu_metric find_weight(const struct ncu_launch *v, size_t n) {
    static const enum ncu_metric weights[] = { NCU_DURATION, NCU_CYCLES };
    for (size_t w = 0; w < COUNTOF(weights); w++) {
        size_t known = 0;
        while (known < n && v[known].value[weights[w]] > 0) known++;
        if (known == n) return weights[w];
    }
    return NCU_METRIC_END;
}

struct mean {
    double sum, weight;
};
static void mean_add(struct mean *m, double v, double weight) {
    if (!isnan(v)) {
        m->sum += v * weight;
        m->weight += weight;
    }
}
static double mean_of(const struct mean *m) { return m->weight > 0 ? m->sum / m->weight : NAN; }

/* Averages each metric over the launches in which it was measured: a percentage of a long launch counts more
 * than that of a short one. Stalls are averaged over the launches with the first known stall source; numbers
 * of samples already grow with the duration. */
static struct ncu_launch average(const struct ncu_launch *v, size_t n) {
    struct ncu_launch out = v[0];
    struct mean values[NCU_METRIC_END] = { 0 }, stalls[NCU_STALL_END] = { 0 };
    enum ncu_metric by = find_weight(v, n);
    out.launches = n;
    for (size_t i = 0; i < n && !out.stall_source; i++) out.stall_source = v[i].stall_source;
    for (size_t i = 0; i < n; i++) {
        double weight = by == NCU_METRIC_END ? 1 : v[i].value[by];
        for (int m = 0; m < NCU_METRIC_END; m++)
            mean_add(&values[m], v[i].value[m], is_amount(m) ? 1 : weight);
        for (int m = 0; m < NCU_STALL_END && v[i].stall_source == out.stall_source; m++)
            mean_add(&stalls[m], v[i].stall[m], out.stall_source == NCU_STALL_SAMPLES ? 1 : weight);
    }
    for (int m = 0; m < NCU_METRIC_END; m++) out.value[m] = mean_of(&values[m]);
    for (int m = 0; m < NCU_STALL_END; m++) out.stall[m] = mean_of(&stalls[m]);
    return out;
}

void ncu_classes(const struct ncu *n, struct ncu_launches *classes) {
    struct ncu_launches sorted = { 0 };
    *classes = (struct ncu_launches){ 0 };
    for (size_t i = 0; i < n->launches.n; i++) {
        vec_push(&sorted, n->launches.v[i]);
        find_dram_rate(&sorted.v[i]);
    }
    if (sorted.n) qsort(sorted.v, sorted.n, sizeof *sorted.v, by_name_and_shape);
    for (size_t i = 0, next; i < sorted.n; i = next) {
        for (next = i + 1; next < sorted.n && by_name_and_shape(&sorted.v[i], &sorted.v[next]) == 0;) next++;
        vec_push(classes, average(&sorted.v[i], next - i));
    }
    free(sorted.v);
    if (classes->n) qsort(classes->v, classes->n, sizeof *classes->v, longest_first);
}

int ncu_into_run(const char *const *csv_paths, size_t n, const char *run_dir, struct err *err) {
    struct ncu ncu;
    int rc = 0;
    ncu_init(&ncu);
    for (size_t i = 0; i < n && rc == 0; i++) rc = ncu_read(&ncu, csv_paths[i], err);
    if (rc == 0) rc = ncu_write_run(&ncu, run_dir, err);
    ncu_free(&ncu);
    return rc;
}

static int read_sums(const char *path, import_sum_fn *row, void *ctx, uint64_t *bad_rows, struct err *err) {
    struct ncu n;
    ncu_init(&n);
    int rc = ncu_read(&n, path, err);
    for (size_t i = 0; rc == 0 && i < n.launches.n; i++) {
        const struct ncu_launch *k = &n.launches.v[i];
        double ns = total_ns(k);
        row(ctx, intern_text(n.texts, k->name), intern_len(n.texts, k->name), k->launches,
            ns > 0 && ns < 1e18 ? (uint64_t)(ns + 0.5) : 0);
    }
    *bad_rows += n.bad_rows;
    ncu_free(&n);
    return rc;
}

static bool is_ncu(const struct import_head *h) {
    return strstr(h->bytes, "Kernel Name") && (strstr(h->bytes, "Metric Name") || strstr(h->bytes, "__"));
}

const struct import_format ncu_format = { .name = "Nsight Compute CSV",
                                          .detect = is_ncu,
                                          .read_sums = read_sums };

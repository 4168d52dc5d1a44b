#include "report/export.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/util.h"
#include "report/view.h"

/* Process ids start here if the recorded ids repeat. GPUs use small ids in Chrome's format. */
#define PIDS_FROM 1000000

static uint32_t pid_or_number(const struct timeline *tl, uint32_t process) {
    return tl->processes[process].pid == TIMELINE_NONE ? process + 1 : tl->processes[process].pid;
}

/* Processes of different nodes may have the same id. */
static bool pids_repeat(const struct timeline *tl) {
    for (uint32_t i = 0; i < tl->nprocesses; i++)
        for (uint32_t k = 0; k < i; k++)
            if (tl->processes[i].pid == tl->processes[k].pid || pid_or_number(tl, i) == pid_or_number(tl, k))
                return true;
    return false;
}

/* A globalPid has 24 bits for the pid, and 0 means that there is none. */
static bool fits_sqlite(uint32_t pid) { return pid && pid < 1u << 24; }

static bool pids_fit_sqlite(const struct export_job *x) {
    for (uint32_t i = 0; i < x->tl->nprocesses; i++)
        if (!fits_sqlite(export_pid(x, i))) return false;
    return true;
}

/* Devices of several files may have the same number. SQLite files store the number in a byte. */
static bool device_numbers_repeat(const struct timeline *tl) {
    bool used[256] = { false };
    for (size_t i = 0; i < tl->ndevices; i++) {
        uint32_t number = tl->devices[i].index;
        if (number >= COUNTOF(used) || used[number]) return true;
        used[number] = true;
    }
    return false;
}

void export_open(struct export_job *x, const struct timeline *tl, const struct analysis *a) {
    *x = (struct export_job){ .tl = tl,
                              .a = a,
                              .from_ns = 0,
                              .to_ns = UINT64_MAX,
                              .number_pids = pids_repeat(tl),
                              .number_devices = device_numbers_repeat(tl) };
    x->number_sqlite_pids = !pids_fit_sqlite(x);
}

void export_close(struct export_job *x) {
    free(x->has_launch);
    x->has_launch = NULL;
}

uint32_t export_pid(const struct export_job *x, uint32_t process) {
    if (x->number_pids) return PIDS_FROM + process;
    return process < x->tl->nprocesses ? pid_or_number(x->tl, process) : process + 1;
}

uint32_t export_sqlite_pid(const struct export_job *x, uint32_t process) {
    return x->number_sqlite_pids ? PIDS_FROM + process : export_pid(x, process);
}

const char *export_process_name(const struct export_job *x, uint32_t process, char *buf, size_t cap) {
    const struct timeline_process *p = &x->tl->processes[process];
    const char *command = timeline_text(x->tl, p->command), *node = timeline_text(x->tl, p->node);
    if (p->rank == TIMELINE_NONE) return *command ? command : file_basename(timeline_text(x->tl, p->path));
    if (!*node) node = timeline_text(x->tl, p->host);
    snprintf(buf, cap, "rank %u%s%.60s%s%.160s", p->rank, *node ? " on " : "", node, *command ? ": " : "",
             command);
    return buf;
}

uint32_t export_device_number(const struct export_job *x, uint32_t device) {
    return x->number_devices || device >= x->tl->ndevices ? device : x->tl->devices[device].index;
}

const char *export_device_name(const struct export_job *x, uint32_t device, char *buf, size_t cap) {
    const struct timeline_device *d = &x->tl->devices[device];
    const char *name = timeline_text(x->tl, d->name);
    if (export_device_process(x, device) != TIMELINE_NONE)
        snprintf(buf, cap, "GPU %u %.120s", d->index, name);
    else
        snprintf(buf, cap, "GPU %s %.120s", timeline_device_label(x->tl, device), name);
    return buf;
}

uint32_t export_device_process(const struct export_job *x, uint32_t device) {
    uint32_t found = TIMELINE_NONE;
    for (size_t i = 0; i < x->tl->nlanes; i++) {
        if (x->tl->lanes[i].device != device) continue;
        if (found != TIMELINE_NONE && found != x->tl->lanes[i].process) return TIMELINE_NONE;
        found = x->tl->lanes[i].process;
    }
    return found < x->tl->nprocesses && x->tl->processes[found].rank != TIMELINE_NONE && x->tl->nprocesses > 1
               ? found
               : TIMELINE_NONE;
}

const char *export_copy_name(unsigned copy_kind) {
    const char *name = trace_copy_kind_name(copy_kind);
    if (copy_kind == TRACE_COPY_MEMSET) return "Memset";
    return name && copy_kind != TRACE_COPY_UNKNOWN ? name : "Unknown";
}

const char *export_kernel_name(const struct export_job *x, size_t kernel) {
    uint32_t shape = x->tl->kernels.shape[kernel];
    if (x->a && x->a->shape_kernel) return x->a->kernels[x->a->shape_kernel[shape]].name;
    return timeline_text(x->tl, x->tl->shapes[shape].name);
}

/* A launch is exported if it, its kernel or its copy overlaps the window. */
static void mark_launches(struct export_job *x) {
    const struct timeline *tl = x->tl;
    x->has_launch = xcalloc(tl->launches.n + 1, 1);
    for (size_t i = 0; i < tl->launches.n; i++)
        x->has_launch[i] = export_has(x, tl->launches.start_ns[i], tl->launches.end_ns[i]);
    for (size_t i = 0; i < tl->kernels.n; i++)
        if (tl->kernels.launch[i] != TIMELINE_NONE &&
            export_has(x, tl->kernels.start_ns[i], tl->kernels.end_ns[i]))
            x->has_launch[tl->kernels.launch[i]] = 1;
    for (size_t i = 0; i < tl->copies.n; i++)
        if (tl->copies.launch[i] != TIMELINE_NONE &&
            export_has(x, tl->copies.start_ns[i], tl->copies.end_ns[i]))
            x->has_launch[tl->copies.launch[i]] = 1;
}

/* ---- the window */
static uint32_t find_stage(const struct analysis *a, const char *name, size_t len, struct err *err) {
    struct suggest near;
    char word[128];
    snprintf(word, sizeof word, "%.*s", (int)MIN(len, sizeof word - 1), name);
    suggest_start(&near, word);
    for (uint32_t i = 0; i < a->nstages; i++) {
        if (a->stages[i].outside) continue;
        if (strcmp(a->stages[i].name, word) == 0 || strcmp(a->stages[i].path, word) == 0) return i;
        suggest_try(&near, a->stages[i].name);
    }
    struct strbuf names = STRBUF_INIT;
    for (uint32_t i = 0; i < a->nstages && !near.best; i++)
        if (!a->stages[i].outside) strbuf_addf(&names, "%s'%s'", names.len ? ", " : "", a->stages[i].name);
    if (near.best) strbuf_addf(&names, "'%s'", near.best);
    err_set(err, "--window: no stage '%s' in the trace; there is %s", word, names.len ? names.buf : "none");
    strbuf_free(&names);
    return ANALYSIS_NONE;
}

/* Parses a number with an optional unit of time. *is_time: there was a unit, and *value is in ns. Returns
 * false if there is no digit. */
static bool parse_bound(const char **p, double *value, bool *is_time) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
    char *end;
    if (!isdigit((unsigned char)**p)) return false;
    *value = strtod(*p, &end);
    if (end > *p && end[-1] == '.') end--; /* "2..5": strtod takes one dot */
    *is_time = false;
    for (size_t i = 0; i < COUNTOF(units) && !*is_time; i++) {
        size_t n = strlen(units[i].unit);
        if (strncmp(end, units[i].unit, n) == 0 && !isalpha((unsigned char)end[n])) {
            *value *= units[i].ns;
            *is_time = true;
            end += n;
        }
    }
    *p = end;
    return true;
}

static int occurrences_bounds(struct export_job *x, uint32_t stage, double from, double to, struct err *err) {
    double at = 0;
    bool any = false;
    for (size_t i = 0; i < x->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &x->a->occurrences[i];
        if (o->stage != stage) continue;
        if (at >= from && at <= to) {
            if (!any) {
                x->from_ns = o->start_ns;
                x->to_ns = o->wall_end_ns;
            }
            x->to_ns = MAX(x->to_ns, o->wall_end_ns);
            any = true;
        }
        at++;
    }
    if (!any)
        return err_set(err, "--window: %s occurs %.0f time%s, counted from 0", x->a->stages[stage].name, at,
                       at == 1 ? "" : "s");
    return 0;
}

static int time_bounds(struct export_job *x, uint32_t stage, double from_ns, double to_ns, struct err *err) {
    for (size_t i = 0; i < x->a->noccurrences; i++) {
        if (x->a->occurrences[i].stage != stage) continue;
        x->from_ns = x->a->occurrences[i].start_ns + (uint64_t)from_ns;
        x->to_ns = x->a->occurrences[i].start_ns + (uint64_t)to_ns;
        return 0;
    }
    return err_set(err, "--window: %s does not occur in the trace", x->a->stages[stage].name);
}

int export_window_parse(const char *text, struct export_stretch *out, struct err *err) {
    const char *colon = strchr(text, ':'), *p = colon ? colon + 1 : NULL;
    bool to_time;
    *out = (struct export_stretch){ .stage_len = strcspn(text, ":") };
    if (!out->stage_len)
        return err_set(err, "--window: '%s' does not name a stage; expected STAGE[:FROM..TO]", text);
    if (!p) return 0;
    bool good = out->bounded = parse_bound(&p, &out->from, &out->is_time);
    if (good && strncmp(p, "..", 2) == 0) {
        p += 2;
        good = parse_bound(&p, &out->to, &to_time);
    } else { /* a single occurrence */
        out->to = out->from;
        to_time = out->is_time;
        good = good && !to_time;
    }
    if (!good || *p || out->is_time != to_time || out->to < out->from || out->to > 1e18)
        return err_set(
            err, "--window: '%s' is not a valid window; expected occurrences (2..5) or times (10ms..25ms)",
            colon + 1);
    return 0;
}

int export_window(struct export_job *x, const char *text, struct err *err) {
    struct export_stretch w;
    if (export_window_parse(text, &w, err) < 0) return -1;
    uint32_t stage = find_stage(x->a, text, w.stage_len, err);
    if (stage == ANALYSIS_NONE) return -1;
    if (w.bounded) {
        int rc = w.is_time ? time_bounds(x, stage, w.from, w.to, err)
                           : occurrences_bounds(x, stage, w.from, w.to, err);
        if (rc < 0) return -1;
    } else if (!analysis_window(x->a, stage, SIZE_MAX, &x->from_ns, &x->to_ns)) {
        return err_set(err, "--window: %s does not occur in the trace", x->a->stages[stage].name);
    }
    free(x->has_launch);
    mark_launches(x);
    return 0;
}

bool export_is_stacks(const char *format) {
    return strcmp(format, "speedscope") == 0 || strcmp(format, "collapsed") == 0 ||
           strcmp(format, "pprof") == 0;
}

int export_write(struct export_job *x, const char *format, const char *path, struct err *err) {
    if (strcmp(format, "perfetto") == 0) return export_perfetto(x, path, err);
    if (strcmp(format, "chrome") == 0) return export_chrome(x, path, err);
    if (strcmp(format, "csv") == 0) return export_csv(x, path, err);
    if (strcmp(format, "sqlite") == 0) return export_sqlite(x, path, err);
    if (strcmp(format, "speedscope") == 0) return export_speedscope(x, path, err);
    if (strcmp(format, "collapsed") == 0) return export_collapsed(x, path, err);
    if (strcmp(format, "pprof") == 0) return export_pprof(x, path, err);
    return err_set(err, "unknown format '%s'; expected one of %s", format, EXPORT_FORMATS);
}

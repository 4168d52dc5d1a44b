#include "ranks/inputs.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/util.h"
#include "base/vec.h"
#include "ranks/digest.h"
#include "trace/reader_files.h"
#include "trace/reader_set.h"

#define DEVICES_MAX 64 /* GPUs of a node whose uuids are compared */

/* A value on which all files must agree: the first one found, and its file. */
struct agreed {
    char *value, *file;
};
/* A file with the power of all GPUs of a node. */
struct power_file {
    char *path;
    struct strlist devices; /* uuids */
};
struct finder {
    struct rank_inputs *in;
    struct strlist traces, digests;
    struct {
        struct power_file *v;
        size_t n, cap;
    } powers;
    struct agreed world, job;
    bool twice; /* two files are of the same rank */
    struct err *err;
};

/* ---- files */

static int by_name(const void *pa, const void *pb) { return strcmp(*(char *const *)pa, *(char *const *)pb); }

/* Adds the digests of the folder and returns their number. */
static size_t add_digests(struct finder *f, const char *folder) {
    DIR *dir = opendir(folder);
    size_t first = f->digests.n;
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (!file_has_ending(e->d_name, RANK_DIGEST_ENDING)) continue;
        char *path = file_join(folder, e->d_name);
        strlist_add(&f->digests, "%s", path);
        free(path);
    }
    closedir(dir);
    size_t n = f->digests.n - first;
    if (n) qsort(f->digests.v + first, n, sizeof *f->digests.v, by_name);
    return n;
}

static int add_operand(struct finder *f, const char *operand) {
    if (!file_exists(operand)) return err_set(f->err, "%s: no such folder, trace or digest", operand);
    if (!file_is_dir(operand)) {
        strlist_add(file_has_ending(operand, RANK_DIGEST_ENDING) ? &f->digests : &f->traces, "%s", operand);
        return 0;
    }
    char *inside = file_join(operand, RANK_DIGEST_FOLDER);
    size_t digests = add_digests(f, operand) + add_digests(f, inside);
    free(inside);
    if (!trace_files_add(&f->traces, operand) && !digests)
        return err_set(f->err, "%s: contains neither traces (trace/*.ipt, *.ipt) nor digests (*%s)", operand,
                       RANK_DIGEST_ENDING);
    return 0;
}

/* ---- contents of a file */

struct facts {
    uint32_t rank, world_size;
    char *job; /* NULL: unknown */
    bool has_kernels, has_power;
    bool is_empty;              /* a trace without any record or property: cut after its header */
    struct strlist devices;     /* uuids of the GPUs that the trace describes */
    struct rank_digest *digest; /* NULL: the file is a trace, or the digest was taken */
};

static void free_facts(struct facts *x) {
    rank_digest_free(x->digest);
    free(x->job);
    strlist_free(&x->devices);
}

static uint32_t number_or_none(const char *text) {
    char *end;
    if (!text || !*text) return RANK_NONE;
    unsigned long v = strtoul(text, &end, 10);
    return *end || *text == '-' || v >= RANK_NONE ? RANK_NONE : (uint32_t)v;
}

static int trace_facts(struct trace_set *readers, const char *path, struct facts *out, struct err *err) {
    struct trace_reader *r = trace_set_take(readers, path, err);
    if (!r) return -1;
    *out = (struct facts){ .rank = number_or_none(trace_reader_meta(r, "rank")),
                           .world_size = number_or_none(trace_reader_meta(r, "world_size")) };
    const char *first, *value, *job = trace_reader_meta(r, "job");
    out->is_empty = !trace_reader_chunks(r) && !trace_reader_meta_at(r, 0, &first, &value);
    if (job && *job) out->job = xstrdup(job);
    for (size_t i = 0; i < trace_reader_chunks(r) && !out->has_kernels; i++) {
        const struct trace_chunk *c = trace_reader_chunk(r, i);
        out->has_kernels = c->kind == TRACE_KERNEL || c->kind == TRACE_COLLECTIVE;
        out->has_power |= c->kind == TRACE_POWER;
    }
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        char key[32];
        snprintf(key, sizeof key, "device.%u.uuid", i);
        const char *uuid = trace_reader_meta(r, key);
        if (uuid && *uuid) strlist_add(&out->devices, "%s", uuid);
    }
    trace_set_give(readers, r);
    return 0;
}

static int digest_facts(const char *path, struct facts *out, struct err *err) {
    struct rank_digest *d = rank_digest_read(path, err);
    if (!d) return -1;
    *out = (struct facts){ .rank = d->rank,
                           .world_size = d->world_size,
                           .job = d->job ? xstrdup(d->job) : NULL,
                           .has_kernels = true,
                           .digest = d };
    return 0;
}

/* ---- one job */

/* Checks that a file has the same value as the first file that had one. */
static int agree(struct finder *f, struct agreed *a, const char *what, const char *value, const char *file) {
    if (!a->value) {
        *a = (struct agreed){ xstrdup(value), xstrdup(file) };
        return 0;
    }
    if (strcmp(a->value, value) == 0) return 0;
    return err_set(f->err,
                   "%s has %s %s, but %s has %s %s: these are files of different jobs; give the files of one",
                   a->file, what, a->value, file, what, value);
}

static int check_facts(struct finder *f, const struct facts *x, const char *path) {
    char text[16];
    if (x->world_size != RANK_NONE) {
        snprintf(text, sizeof text, "%u", x->world_size);
        if (agree(f, &f->world, "world size", text, path) < 0) return -1;
        f->in->world_size = x->world_size;
        if (x->rank != RANK_NONE && x->rank >= x->world_size)
            return err_set(f->err, "%s: rank %u of a world of %u ranks; ranks count from 0", path, x->rank,
                           x->world_size);
    }
    return x->job ? agree(f, &f->job, "job", x->job, path) : 0;
}

static struct rank_input *input_of(struct rank_inputs *in, uint32_t rank) {
    for (size_t i = in->n; i-- > 0;) /* from the end, because files are mostly in order of rank */
        if (in->v[i].rank == rank) return &in->v[i];
    vec_push(in, ((struct rank_input){ .rank = rank }));
    return &in->v[in->n - 1];
}

static int add_trace(struct finder *f, const char *path, const struct facts *x) {
    if (x->is_empty) {
        strlist_add(&f->in->warnings, "%s: nothing could be read from this trace: it is cut or damaged",
                    path);
        return 0;
    }
    struct rank_input *r = input_of(f->in, x->rank);
    if (r->digest) return 0; /* the rank's digest is used instead */
    bool twice = x->has_kernels && r->has_kernels && x->rank != RANK_NONE;
    f->twice |= twice;
    if (twice)
        return err_set(f->err, "two traces of rank %u have GPU work: %s and %s; give only one of them",
                       x->rank, r->traces.v[0], path);
    strlist_add(&r->traces, "%s", path);
    for (size_t i = 0; i < x->devices.n; i++) strlist_add(&r->devices, "%s", x->devices.v[i]);
    if (x->has_kernels && !r->has_kernels) {
        char *main_trace = r->traces.v[r->traces.n - 1];
        r->traces.v[r->traces.n - 1] = r->traces.v[0];
        r->traces.v[0] = main_trace;
        r->has_kernels = true;
    }
    return 0;
}

static int add_digest(struct finder *f, const char *path, struct facts *x) {
    struct rank_input *r = input_of(f->in, x->rank);
    f->twice |= r->digest != NULL;
    if (r->digest)
        return err_set(f->err, "two digests of rank %u: %s and %s; give only one of them", x->rank, r->digest,
                       path);
    r->digest = xstrdup(path);
    r->loaded = x->digest;
    x->digest = NULL;
    r->has_kernels = true;
    return 0;
}

/* Files to read, shared by the threads. */
struct reading {
    char *const *paths; /* [n] */
    struct trace_set *readers;
    bool are_digests;
    struct facts *facts; /* [n] */
    struct err *errs;    /* [n]; valid if failed[i] */
    bool *failed;        /* [n] */
};

static void read_file(void *arg, size_t i) {
    struct reading *r = arg;
    int rc = r->are_digests ? digest_facts(r->paths[i], &r->facts[i], &r->errs[i])
                            : trace_facts(r->readers, r->paths[i], &r->facts[i], &r->errs[i]);
    r->failed[i] = rc < 0;
}

static int add_facts(struct finder *f, const char *path, bool is_digest, struct facts *x) {
    if (check_facts(f, x, path) < 0) return -1;
    return is_digest ? add_digest(f, path, x) : add_trace(f, path, x);
}

/* Reads n files on several threads, then adds them in their order. */
static int add_files(struct finder *f, char *const *paths, size_t n, bool are_digests, unsigned threads) {
    struct reading r = { .paths = paths,
                         .readers = f->in->readers,
                         .are_digests = are_digests,
                         .facts = xcalloc(n + 1, sizeof *r.facts),
                         .errs = xcalloc(n + 1, sizeof *r.errs),
                         .failed = xcalloc(n + 1, sizeof *r.failed) };
    int rc = 0;
    parallel_for(n, threads, read_file, &r);
    for (size_t i = 0; i < n; i++) {
        if (r.failed[i])
            strlist_add(&f->in->warnings, "%s", r.errs[i].msg);
        else if (rc == 0)
            rc = add_facts(f, paths[i], are_digests, &r.facts[i]);
        free_facts(&r.facts[i]);
    }
    free(r.facts);
    free(r.errs);
    free(r.failed);
    return rc;
}

/* ---- power */

/* `run` samples the power of all GPUs of a node into one file, nvml.ipt or nvml-NODE.ipt. Moves these files
 * from the traces to `powers`, so that all parts of a job can use them. */
static void take_power_files(struct finder *f) {
    size_t kept = 0;
    for (size_t i = 0; i < f->traces.n; i++) {
        char *path = f->traces.v[i];
        struct facts x = { 0 };
        struct err ignored;
        bool is_power = strstr(file_basename(path), "nvml") &&
                        trace_facts(f->in->readers, path, &x, &ignored) == 0 && x.rank == RANK_NONE &&
                        x.has_power && !x.has_kernels;
        if (is_power) {
            vec_push(&f->powers, ((struct power_file){ path, x.devices }));
            x.devices = (struct strlist){ 0 };
        } else {
            f->traces.v[kept++] = path;
        }
        free_facts(&x);
    }
    f->traces.n = kept;
}

static bool have_common(const struct strlist *a, const struct strlist *b) {
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++)
            if (strcmp(a->v[i], b->v[k]) == 0) return true;
    return false;
}

/* Adds the power files to the ranks whose GPUs they contain. */
static void add_powers(struct finder *f) {
    for (size_t i = 0; i < f->in->n; i++)
        for (size_t k = 0; k < f->powers.n && !f->in->v[i].digest; k++)
            if (have_common(&f->in->v[i].devices, &f->powers.v[k].devices))
                strlist_add(&f->in->v[i].traces, "%s", f->powers.v[k].path);
}

static void free_powers(struct finder *f) {
    for (size_t i = 0; i < f->powers.n; i++) {
        free(f->powers.v[i].path);
        strlist_free(&f->powers.v[i].devices);
    }
    free(f->powers.v);
}

/* ---- the list of ranks */

static int by_rank(const void *pa, const void *pb) {
    const struct rank_input *a = pa, *b = pb;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void free_input(struct rank_input *r) {
    strlist_free(&r->traces);
    strlist_free(&r->devices);
    free(r->digest);
    rank_digest_free(r->loaded);
}

/* Removes files without a rank, such as those of a launcher or a helper process, if other files have one. A
 * single file without a rank is a job of one rank; several are an error. */
static int settle_unranked(struct finder *f) {
    struct rank_inputs *in = f->in;
    if (!in->n)
        return err_set(f->err, "%s",
                       in->warnings.n ? in->warnings.v[0] : "no traces or digests in the given folders");
    struct rank_input *last = &in->v[in->n - 1];
    if (last->rank != RANK_NONE) return 0;
    if (in->n == 1 && last->traces.n > 1)
        return err_set(
            f->err,
            "%s and %s do not say which rank they are: record them with a launcher that sets the rank, "
            "or import them together",
            last->traces.v[0], last->traces.v[1]);
    if (in->n == 1) return 0;
    if (last->has_kernels)
        strlist_add(&in->warnings, "%s: has GPU work but no rank, and is left out of the job",
                    last->digest ? last->digest : last->traces.v[0]);
    free_input(last);
    in->n--;
    return 0;
}

static bool is_in_part(const struct rank_filter *filter, size_t i) {
    return !filter->parts || i % filter->parts == filter->part;
}

static int add_traces(struct finder *f, const struct rank_filter *filter) {
    char **paths = xcalloc(f->traces.n + 1, sizeof *paths);
    size_t n = 0;
    for (size_t i = 0; i < f->traces.n; i++)
        if (is_in_part(filter, i)) paths[n++] = f->traces.v[i];
    int rc = add_files(f, paths, n, false, filter->threads);
    free(paths);
    return rc;
}

int rank_inputs_find(struct rank_inputs *in, const char *const *operands, size_t n,
                     const struct rank_filter *filter, struct err *err) {
    struct finder f = { .in = in, .err = err };
    int rc = 0;
    *in = (struct rank_inputs){ .world_size = RANK_NONE, .readers = filter->readers };
    for (size_t i = 0; i < n && rc == 0; i++) rc = add_operand(&f, operands[i]);
    if (filter->traces_only) strlist_free(&f.digests);
    take_power_files(&f);
    if (rc == 0) rc = add_files(&f, f.digests.v, f.digests.n, true, filter->threads);
    if (rc == 0) rc = add_traces(&f, filter);
    if (in->n) qsort(in->v, in->n, sizeof *in->v, by_rank);
    in->files = f.digests.n + f.traces.n;
    if (rc == 0 && (in->n || in->warnings.n || !in->files || is_in_part(filter, 0))) rc = settle_unranked(&f);
    if (rc == 0) add_powers(&f);
    free_powers(&f);
    strlist_free(&f.traces);
    strlist_free(&f.digests);
    free(f.world.value);
    free(f.world.file);
    free(f.job.value);
    free(f.job.file);
    if (rc < 0) {
        rank_inputs_free(in);
        in->twice = f.twice;
    }
    return rc;
}

void rank_inputs_free(struct rank_inputs *in) {
    for (size_t i = 0; i < in->n; i++) free_input(&in->v[i]);
    free(in->v);
    strlist_free(&in->warnings);
    *in = (struct rank_inputs){ 0 };
}

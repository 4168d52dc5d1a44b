#include "ranks/trace_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/intern.h"
#include "base/util.h"
#include "base/vec.h"
#include "trace/reader.h"

#define PIECE_TOLERANCE_NS 2000 /* largest error of the time of a step */

/* The period between two steps, in times that the clock showed. */
struct piece {
    uint64_t begin_ns, end_ns; /* first and last time; 0 and UINT64_MAX at the ends of the trace */
    int64_t shift_ns;          /* sum of the steps before it */
    uint64_t tolerance_ns;     /* a time this much before begin_ns can belong to the piece */
};

#define RECENT 8 /* number of records whose intervals and durations are compared with the next one */
#define DISORDER_NS 1000.0 /* records can be out of order by this much */
/* the later of two possible times is used if it fits better by more than this share of their difference */
#define CLEARLY 0.2
#define LAUNCHES_NEAR_NS 1e9       /* launches within this distance of a step are kept */
#define READ_BEFORE TRACE_KIND_END /* key of the launches that read_launches() reads */

/* The latest records of one kind on one thread or stream; also of one name, if the kind has names. Steps are
 * removed from the times. */
struct sequence {
    uint64_t last_ns;                            /* end of the latest record */
    double intervals[RECENT], durations[RECENT]; /* between the ends of two records; of a record */
    size_t n;                                    /* number of records */
};

struct trace_clock {
    struct trace_clock_rank rank;
    struct piece *pieces; /* [rank.nsteps + 1] */
    size_t npieces;
    bool repeats; /* a step is backward: some times belong to two pieces */
    struct intern *keys;
    struct {
        struct sequence *v;
        size_t n, cap;
    } sequences; /* [keys] */
    /* correlation ids and starts of launches near a backward step; steps are removed from the starts */
    struct intern *launch_ids;
    struct {
        uint64_t *v;
        size_t n, cap;
    } launches;
};

static uint64_t moved(uint64_t ns, int64_t by) {
    return by < 0 && (uint64_t)-by > ns ? 0 : ns + (uint64_t)by;
}

void trace_clock_close(void *state) {
    struct trace_clock *c = state;
    if (!c) return;
    intern_close(c->keys);
    intern_close(c->launch_ids);
    free(c->sequences.v);
    free(c->launches.v);
    free(c->pieces);
    free(c);
}

/* ---- pieces */

static bool contains(const struct trace_clock *c, size_t k, uint64_t ns) {
    const struct piece *p = &c->pieces[k];
    return ns + p->tolerance_ns >= p->begin_ns && ns <= p->end_ns;
}

/* Returns the first piece that contains the time; if a forward step skipped the time, the closest piece. */
static size_t first_piece(const struct trace_clock *c, uint64_t ns) {
    size_t best = 0;
    uint64_t least = UINT64_MAX;
    for (size_t k = 0; k < c->npieces; k++) {
        const struct piece *p = &c->pieces[k];
        uint64_t distance = ns < p->begin_ns ? p->begin_ns - ns : ns > p->end_ns ? ns - p->end_ns : 0;
        if (distance >= least) continue;
        least = distance;
        best = k;
    }
    return best;
}

static uint64_t without_steps(const struct trace_clock *c, size_t piece, uint64_t ns) {
    return moved(ns, -c->pieces[piece].shift_ns);
}

static uint64_t to_job(const struct trace_clock *c, uint64_t ns) {
    return c->rank.clock ? rank_clock_to_job(c->rank.clock, ns) : ns;
}

uint64_t trace_clock_time(void *state, uint64_t own_ns) {
    const struct trace_clock *c = state;
    return to_job(c, without_steps(c, first_piece(c, own_ns), own_ns));
}

/* ---- choice between two possible times */

static double distance(const double *recent, size_t n, double value) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < MIN(n, (size_t)RECENT); i++) {
        low = fmin(low, recent[i]);
        high = fmax(high, recent[i]);
    }
    return n ? fmax(0, fmax(low - value, value - high)) : 0;
}

static double signed_ns(uint64_t from_ns, uint64_t to_ns) { return (double)(int64_t)(to_ns - from_ns); }

/* Returns how far the interval and the duration of a record are outside of the recent ones, in ns. */
static double unusual(const struct sequence *s, uint64_t start_ns, uint64_t end_ns) {
    if (!s || !s->n) return 0;
    return distance(s->intervals, s->n - 1, signed_ns(s->last_ns, end_ns)) +
           distance(s->durations, s->n, signed_ns(start_ns, end_ns));
}

static void add_record(struct sequence *s, uint64_t start_ns, uint64_t end_ns) {
    if (!s) return;
    if (s->n) s->intervals[(s->n - 1) % RECENT] = signed_ns(s->last_ns, end_ns);
    s->durations[s->n % RECENT] = signed_ns(start_ns, end_ns);
    s->last_ns = end_ns;
    s->n++;
}

struct period {
    uint64_t start_ns, end_ns;
};

/* Removes the steps from a period; of several possible times, the earliest. */
static struct period earliest(const struct trace_clock *c, struct period own) {
    return (struct period){ without_steps(c, first_piece(c, own.start_ns), own.start_ns),
                            without_steps(c, first_piece(c, own.end_ns), own.end_ns) };
}

/* Removes the steps from a period. If several results are possible, returns the one that fits best to `lane`,
 * the records of its thread or stream, and to `named`, those of its name (NULL: no name). The period does not
 * start before launched_ns. */
static struct period most_usual(const struct trace_clock *c, struct period own, const struct sequence *lane,
                                const struct sequence *named, uint64_t launched_ns) {
    struct period best = earliest(c, own);
    double least = INFINITY;
    for (size_t e = 0; e < c->npieces; e++) {
        if (!contains(c, e, own.end_ns)) continue;
        uint64_t end = without_steps(c, e, own.end_ns);
        bool in_order = !lane->n || signed_ns(lane->last_ns, end) >= -DISORDER_NS;
        for (size_t s = 0; s <= e; s++) {
            uint64_t start = without_steps(c, s, own.start_ns);
            if (!contains(c, s, own.start_ns) || start > end) continue;
            bool possible = in_order && signed_ns(launched_ns, start) >= -DISORDER_NS;
            double cost = unusual(lane, start, end) + unusual(named, start, end) + (possible ? 0 : 1e18);
            if (cost + CLEARLY * signed_ns(best.end_ns, end) >= least) continue;
            least = cost;
            best = (struct period){ start, end };
        }
    }
    return best;
}

/* ---- records */

/* Returns the index of the sequence in c->sequences. */
static size_t sequence_of(struct trace_clock *c, unsigned kind, size_t field, uint64_t lane, uint64_t name) {
    uint64_t key[4] = { kind, field, lane, name };
    uint32_t i = intern_id(c->keys, (const char *)key, sizeof key);
    if (i == c->sequences.n) vec_push(&c->sequences, ((struct sequence){ 0 }));
    return i;
}

static const struct trace_field *find_field(const struct trace_schema *schema, const char *a, const char *b) {
    for (size_t f = 0; f < schema->nfields; f++)
        if (strcmp(schema->fields[f].name, a) == 0 || strcmp(schema->fields[f].name, b) == 0)
            return &schema->fields[f];
    return NULL;
}

static uint64_t *time_at(char *record, const struct trace_field *f) {
    return (uint64_t *)(void *)(record + f->offset);
}

/* The fields of a record kind that identify its sequences and its launch; NULL: it has no such field. */
struct identity {
    const struct trace_field *lane, *name, *launch;
};

static struct identity identity_of(unsigned kind) {
    const struct trace_schema *schema = trace_schema(kind);
    return (struct identity){ find_field(schema, "thread", "stream"), find_field(schema, "name", "api"),
                              kind == TRACE_LAUNCH ? NULL : find_field(schema, "correlation", "") };
}

static struct period remove_steps(struct trace_clock *c, unsigned kind, size_t field,
                                  const struct identity *id, const char *record, struct period own,
                                  uint64_t launched_ns) {
    if (!c->repeats) return earliest(c, own);
    uint64_t lane = id->lane ? trace_field_get(record, id->lane) : 0;
    size_t all = sequence_of(c, kind, field, lane, 0), same = SIZE_MAX;
    if (id->name) same = sequence_of(c, kind, field, lane, 1 + trace_field_get(record, id->name));
    struct sequence *named = same == SIZE_MAX ? NULL : &c->sequences.v[same];
    struct period p = most_usual(c, own, &c->sequences.v[all], named, launched_ns);
    add_record(&c->sequences.v[all], p.start_ns, p.end_ns);
    add_record(named, p.start_ns, p.end_ns);
    return p;
}

static void add_launch(struct trace_clock *c, const struct identity *id, const struct trace_launch *l) {
    struct period own = { l->start_ns, l->end_ns };
    if (!own.start_ns || !own.end_ns) return;
    struct period p = remove_steps(c, READ_BEFORE, 0, id, (const char *)l, own, 0);
    bool near = false;
    for (size_t k = 0; k + 1 < c->npieces; k++) {
        double back = fabs((double)(c->pieces[k + 1].shift_ns - c->pieces[k].shift_ns));
        near |= fabs(signed_ns(c->pieces[k].end_ns, l->start_ns)) < 3 * back + LAUNCHES_NEAR_NS;
    }
    if (!near ||
        intern_find(c->launch_ids, (const char *)&l->correlation, sizeof l->correlation) != INTERN_NONE)
        return;
    intern_id(c->launch_ids, (const char *)&l->correlation, sizeof l->correlation);
    vec_push(&c->launches, p.start_ns);
}

/* Returns when a record was launched; 0: unknown. */
static uint64_t launched_at(const struct trace_clock *c, const struct identity *id, const char *record) {
    if (!c->repeats || !id->launch) return 0;
    uint64_t launch = trace_field_get(record, id->launch);
    uint32_t i = intern_find(c->launch_ids, (const char *)&launch, sizeof launch);
    return i == INTERN_NONE ? 0 : c->launches.v[i];
}

/* Converts the time in field f, and the end of the same period if the next field contains one. A time of 0 is
 * unknown and stays 0. */
static void convert_field(struct trace_clock *c, const struct trace_batch *batch, size_t f) {
    const struct trace_schema *schema = trace_schema(batch->kind);
    const struct trace_field *start = &schema->fields[f], *end = start + 1;
    const struct identity id = identity_of(batch->kind);
    if (f + 1 == schema->nfields || end->type != TRACE_FIELD_AFTER) end = start;
    char *record = (char *)(uintptr_t)batch->records;
    for (size_t i = 0; i < batch->n; i++, record += schema->record_bytes) {
        uint64_t *from = time_at(record, start), *to = time_at(record, end);
        if (!*from || !*to) continue;
        struct period p = remove_steps(c, batch->kind, f, &id, record, (struct period){ *from, *to },
                                       launched_at(c, &id, record));
        *from = to_job(c, p.start_ns);
        *to = to_job(c, p.end_ns);
    }
}

void trace_clock_convert(void *state, const struct trace_batch *batch) {
    const struct trace_schema *schema = trace_schema(batch->kind);
    for (size_t f = 0; schema && f < schema->nfields; f++)
        if (schema->fields[f].type == TRACE_FIELD_TIME) convert_field(state, batch, f);
}

/* Reads the launches near backward steps, before any record is converted. */
static void read_launches(struct trace_clock *c, const char *path) {
    const struct identity id = identity_of(TRACE_LAUNCH);
    struct trace_batch batch = { 0 };
    struct err err;
    struct trace_reader *r = trace_reader_open(path, &err);
    for (size_t i = 0; r && i < trace_reader_chunks(r); i++) {
        if (trace_reader_chunk(r, i)->kind != TRACE_LAUNCH || trace_reader_decode(r, i, &batch, &err) < 0)
            continue;
        for (size_t k = 0; k < batch.n; k++) add_launch(c, &id, &batch.launch[k]);
    }
    trace_batch_free(&batch);
    if (r) trace_reader_close(r);
}

void *trace_clock_open(const struct trace_clock_rank *rank, const char *path) {
    struct trace_clock *c = xcalloc(1, sizeof *c);
    c->rank = *rank;
    c->npieces = rank->nsteps + 1;
    c->pieces = xcalloc(c->npieces, sizeof *c->pieces);
    c->keys = intern_open();
    c->launch_ids = intern_open();
    for (size_t i = 0; i < rank->nsteps; i++) {
        const struct rank_clock_step *s = &rank->steps[i];
        int64_t step = llround(s->step_ns);
        c->pieces[i].end_ns = s->at_ns;
        c->pieces[i + 1].begin_ns = moved(s->at_ns, step);
        c->pieces[i + 1].shift_ns = c->pieces[i].shift_ns + step;
        c->pieces[i + 1].tolerance_ns = PIECE_TOLERANCE_NS + (uint64_t)(3 * s->error_ns);
        c->repeats |= step < 0;
    }
    c->pieces[rank->nsteps].end_ns = UINT64_MAX;
    if (c->repeats) read_launches(c, path);
    return c;
}

static void *open_rank(const void *rank, const char *path) { return trace_clock_open(rank, path); }

struct timeline_clocks trace_clock_functions(const struct trace_clock_rank *rank) {
    return (struct timeline_clocks){ rank, open_rank, trace_clock_convert, trace_clock_time,
                                     trace_clock_close };
}

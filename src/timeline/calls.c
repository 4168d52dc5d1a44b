/* Finds the launches of the open process by correlation id. Ids usually ascend in the launches and in the
 * work on devices, so a search starts where the previous search ended. */
#include <stdlib.h>

#include "base/bisect.h"
#include "base/util.h"
#include "timeline/build.h"

#define SAME_ID 256 /* launches with one id that are examined; more are in damaged files only */

void build_calls_open(struct build_calls *c, const struct timeline_builder *b) {
    size_t first = b->segment.first[TRACE_LAUNCH], n = b->launches.n - first;
    *c = (struct build_calls){ .correlation = n ? b->launches.correlation + first : NULL,
                               .first = first,
                               .n = n };
    if (n) c->order = columns_order(c->correlation, n);
}

void build_calls_close(struct build_calls *c) { free(c->order); }

uint64_t build_calls_id(const struct build_calls *c, size_t i) {
    return c->correlation[c->order ? c->order[i] : i];
}

uint32_t build_calls_launch(const struct build_calls *c, size_t i) {
    return (uint32_t)(c->first + (c->order ? c->order[i] : i));
}

struct wanted_id {
    const struct build_calls *calls;
    uint64_t id;
};

static bool is_lower(const void *arg, size_t i) {
    const struct wanted_id *w = arg;
    return build_calls_id(w->calls, i) < w->id;
}

/* Returns the first position whose id is at least `id`; n if there is none. Searches exponentially from the
 * hint, then bisects. */
static size_t find_id(struct build_calls *c, uint64_t id) {
    size_t lo = 0, hi = c->n, step = 1, at = MIN(c->hint, c->n);
    if (at < c->n && build_calls_id(c, at) < id) {
        for (lo = at + 1; lo + step < c->n && build_calls_id(c, lo + step) < id; step *= 2) lo += step + 1;
        hi = MIN(c->n, lo + step + 1);
    } else {
        for (hi = at; step < hi && build_calls_id(c, hi - step) >= id; step *= 2) hi -= step;
        lo = hi > step ? hi - step : 0;
    }
    return c->hint = bisect(lo, hi, is_lower, &(struct wanted_id){ c, id });
}

size_t build_calls_find(struct build_calls *c, uint64_t id, size_t *end) {
    size_t at = id ? find_id(c, id) : c->n;
    for (*end = at; *end < MIN(c->n, at + SAME_ID) && build_calls_id(c, *end) == id;) ++*end;
    return at;
}

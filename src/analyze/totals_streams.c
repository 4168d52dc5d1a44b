/* Busy time per stream. Streams with the same number in two contexts share one row. */
#include <stdlib.h>

#include "analyze/totals_internal.h"
#include "base/die.h"
#include "base/intern.h"

/* Sets file, device and stream of the rows. Returns the row of each lane; the caller frees it. */
static uint32_t *stream_rows(struct analysis_totals *t, const struct timeline *tl) {
    uint32_t *row_of_lane = xmalloc((tl->nlanes + 1) * sizeof *row_of_lane);
    struct intern *ids = intern_open();
    for (size_t i = 0; i < tl->nlanes; i++) {
        const struct timeline_lane *l = &tl->lanes[i];
        uint32_t key[3] = { l->process, tl->devices[l->device].index, l->stream };
        uint32_t row = row_of_lane[i] = intern_id(ids, (const char *)key, sizeof key);
        t->streams[row] = (struct totals_stream){ .file = key[0], .device = key[1], .stream = key[2] };
    }
    t->nstreams = intern_count(ids);
    intern_close(ids);
    return row_of_lane;
}

static int stream_order(const void *pa, const void *pb) {
    const struct totals_stream *a = pa, *b = pb;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

void totals_streams(struct analysis_totals *t, const struct analysis *a) {
    const struct timeline *tl = a->timeline;
    uint64_t overlaps = 0;
    t->streams = xcalloc(tl->nlanes + 1, sizeof *t->streams);
    uint32_t *row_of_lane = stream_rows(t, tl);
    struct interval_union *busy = xcalloc(t->nstreams + 1, sizeof *busy);
    for (size_t d = 0; d < tl->ndevices; d++) {
        struct work_walk walk = work_walk_device(tl, d);
        for (struct work w; work_walk_next(&walk, &w);) {
            uint32_t row = row_of_lane[w.lane];
            overlaps += w.start_ns < busy[row].end_ns;
            interval_union_add(&busy[row], w.start_ns, w.end_ns);
            *(w.is_kernel ? &t->streams[row].kernels : &t->streams[row].copies) += 1;
        }
    }
    for (size_t i = 0; i < t->nstreams; i++) t->streams[i].busy_ns = busy[i].total_ns;
    qsort(t->streams, t->nstreams, sizeof *t->streams, stream_order);
    sums_add_problem(&t->sums, "overlap_on_stream", overlaps);
    free(busy);
    free(row_of_lane);
}

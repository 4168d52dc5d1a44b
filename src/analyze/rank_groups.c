#include "analyze/rank_groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/group_name.h"
#include "base/util.h"

static const char *process_meta(const struct timeline *tl, uint32_t process, unsigned group,
                                const char *what) {
    char key[64];
    snprintf(key, sizeof key, "group.%u.%s", group, what);
    for (size_t i = 0; i < tl->nmeta; i++)
        if (tl->meta[i].process == process && strcmp(timeline_text(tl, tl->meta[i].key), key) == 0)
            return timeline_text(tl, tl->meta[i].value);
    return NULL;
}

/* Returns true if the list "0,1,2" contains the rank, or if the list or the rank is unknown. */
static bool is_member(const char *ranks, uint32_t rank) {
    if (!ranks || rank == TIMELINE_NONE) return true;
    for (const char *p = ranks; *p; p += *p == ',') {
        char *end;
        if (strtoull(p, &end, 10) == rank && end != p) return true;
        p = end + strcspn(end, ",");
    }
    return false;
}

/* Reads the sizes of the groups of a process by kind. Returns false and sets *conflict if two groups of one
 * kind have different sizes. */
static bool read_groups(const struct timeline *tl, uint32_t process, uint64_t sizes[GROUP_KINDS],
                        enum group_kind *conflict) {
    const char *name;
    for (unsigned g = 0; (name = process_meta(tl, process, g, "name")); g++) {
        const char *size = process_meta(tl, process, g, "size");
        uint64_t n = size ? strtoull(size, NULL, 10) : 0;
        enum group_kind kind = group_kind_of(name);
        if (kind == GROUP_KINDS || !n) continue;
        if (!is_member(process_meta(tl, process, g, "ranks"), tl->processes[process].rank)) continue;
        if (sizes[kind] && sizes[kind] != n) {
            *conflict = kind;
            return false;
        }
        sizes[kind] = n;
    }
    return true;
}

bool rank_groups_split(struct context *c, struct rank_split *out, const char **why) {
    const struct timeline *tl = c->tl;
    uint64_t sizes[GROUP_KINDS] = { 0 }, ranks = 0, product = 1;
    enum group_kind conflict;
    bool named = false;
    *why = NULL;
    for (uint32_t p = 0; p < tl->nprocesses; p++) {
        if (tl->processes[p].world_size != TIMELINE_NONE) ranks = MAX(ranks, tl->processes[p].world_size);
        if (read_groups(tl, p, sizes, &conflict)) continue;
        *why = analysis_text(c, "the trace has %s groups of different sizes: give --tp, --pp or --ep",
                             group_kind_name(conflict));
        return false;
    }
    for (int k = 0; k < GROUP_KINDS; k++) {
        named |= sizes[k] > 0;
        /* experts are spread over the ranks of the other groups */
        if (k != GROUP_EXPERT && sizes[k]) product *= sizes[k];
    }
    if (!named) return false;
    if (product != ranks) {
        *why = analysis_text(c,
                             "the groups that the trace names have %llu ranks together, the job has %llu: "
                             "give --tp, --pp or --ep",
                             (unsigned long long)product, (unsigned long long)ranks);
        return false;
    }
    *out = (struct rank_split){ MAX(1, sizes[GROUP_TENSOR]), MAX(1, sizes[GROUP_PIPELINE]),
                                sizes[GROUP_EXPERT], sizes[GROUP_DATA] };
    return true;
}

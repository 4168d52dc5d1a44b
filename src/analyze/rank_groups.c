#include "analyze/rank_groups.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum group_kind { GROUP_TENSOR, GROUP_PIPELINE, GROUP_EXPERT, GROUP_DATA, GROUP_CONTEXT, GROUP_KINDS };
static const char *const kind_names[] = { "tp", "pp", "ep", "dp", "cp" };

/* Whole words in the name of a group, as written by Megatron ("TENSOR_MODEL_PARALLEL_GROUP"), torch's
 * DeviceMesh ("mesh_tp") and inference servers. The first matching row is used. */
static const struct {
    const char *word;
    enum group_kind kind;
} words[] = {
    { "tensor", GROUP_TENSOR }, { "tp", GROUP_TENSOR },       { "pipeline", GROUP_PIPELINE },
    { "pp", GROUP_PIPELINE },   { "ep", GROUP_EXPERT },       { "data", GROUP_DATA },
    { "dp", GROUP_DATA },       { "replicate", GROUP_DATA },  { "shard", GROUP_DATA },
    { "fsdp", GROUP_DATA },     { "context", GROUP_CONTEXT }, { "cp", GROUP_CONTEXT },
};

static bool has_word(const char *name, const char *word) {
    size_t n = strlen(word);
    for (const char *p = name; *p; p++) {
        bool starts = p == name || !isalnum((unsigned char)p[-1]);
        if (starts && strncasecmp(p, word, n) == 0 && !isalnum((unsigned char)p[n])) return true;
    }
    return false;
}

/* Returns GROUP_KINDS for a group that does not show how the model is shared: the default group, or a
 * union of two. */
static enum group_kind kind_of(const char *name) {
    if (has_word(name, "and")) return GROUP_KINDS;
    if (has_word(name, "expert"))
        return has_word(name, "tensor") || has_word(name, "data") ? GROUP_KINDS : GROUP_EXPERT;
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (has_word(name, words[i].word)) return words[i].kind;
    return GROUP_KINDS;
}

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

/* Reads the sizes of a process's groups by kind. Returns false if two groups of one kind have different
 * sizes. */
static bool read_groups(const struct timeline *tl, uint32_t process, uint64_t sizes[GROUP_KINDS],
                        enum group_kind *conflict) {
    const char *name;
    for (unsigned g = 0; (name = process_meta(tl, process, g, "name")); g++) {
        const char *size = process_meta(tl, process, g, "size");
        uint64_t n = size ? strtoull(size, NULL, 10) : 0;
        enum group_kind kind = kind_of(name);
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
                             kind_names[conflict]);
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

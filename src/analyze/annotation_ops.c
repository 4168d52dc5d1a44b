/* Annotations of the program that look like operators. emit_nvtx names an operator "aten::mm, seq = 7" and
 * a record_function "decode, op_id = 7", and programs write "decode, seq = 512". Importers and the
 * collector take all of these for operators, and remove the numbers. An operator of PyTorch has a
 * namespace. An annotation has none, is outside of PyTorch's operators, and contains some of them; in a
 * trace without such operators, the name did not come from emit_nvtx. */
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"

enum { IS_TORCH = 1, INSIDE_TORCH = 2, CONTAINS_TORCH = 4 };

static bool is_operator(const struct timeline *tl, size_t range) {
    return tl->ranges.category[range] == TRACE_CATEGORY_OP && !(tl->ranges.flags[range] & TRACE_RANGE_MARK);
}

/* Marks the ranges around a range. Ranges around one that is marked already are marked too. */
static void mark_around(const struct timeline_ranges *r, uint32_t range, uint8_t *seen) {
    for (uint32_t p = r->parent[range]; p != TIMELINE_NONE && !(seen[p] & CONTAINS_TORCH); p = r->parent[p])
        seen[p] |= CONTAINS_TORCH;
}

bool *annotation_ops(const struct timeline *tl) {
    const struct timeline_ranges *r = &tl->ranges;
    uint8_t *seen = xcalloc(r->n + 1, sizeof *seen);
    bool *annotates = xcalloc(r->n + 1, sizeof *annotates), any = false;
    for (uint32_t i = 0; i < r->n; i++) { /* parents come before their children */
        if (r->parent[i] != TIMELINE_NONE && seen[r->parent[i]] & (IS_TORCH | INSIDE_TORCH))
            seen[i] |= INSIDE_TORCH;
        if (!is_operator(tl, i) || !strstr(timeline_text(tl, r->name[i]), "::")) continue;
        seen[i] |= IS_TORCH;
        any = true;
        mark_around(r, i, seen);
    }
    for (size_t i = 0; i < r->n; i++)
        annotates[i] = is_operator(tl, i) && !(seen[i] & (IS_TORCH | INSIDE_TORCH)) &&
                       (!any || seen[i] & CONTAINS_TORCH);
    free(seen);
    return annotates;
}

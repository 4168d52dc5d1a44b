#include "analyze/inductor_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/util.h"

/* Operators without arithmetic in the generated kernel: they move or cast data, or another kernel runs them
 * (mm, bmm, attention, moe_forward). If one name is a prefix of another, the longer name comes first. */
static const char *const moves[] = {
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_cudnn_attention",
    "_to_copy",
    "_unsafe_view",
    "alias",
    "as_strided",
    "bmm",
    "cat",
    "clone",
    "constant_pad_nd",
    "copy_",
    "copy",
    "detach",
    "expand",
    "flip",
    "index_select",
    "moe_forward",
    "mm",
    "permute",
    "repeat",
    "roll",
    "select_scatter",
    "select",
    "slice_scatter",
    "slice",
    "split_with_sizes",
    "split",
    "squeeze",
    "stack",
    "transpose",
    "t",
    "unbind",
    "unsqueeze",
    "view",
};

/* Returns the length of the operator name at p if it is in the table and followed by '_' or the end;
 * otherwise 0. */
static size_t move_at(const char *p) {
    for (size_t i = 0; i < COUNTOF(moves); i++) {
        size_t n = strlen(moves[i]);
        if (strncmp(p, moves[i], n) == 0 && (!p[n] || p[n] == '_')) return n;
    }
    return 0;
}

/* Returns true if `operators`, such as "_to_copy_transpose_view_3", names at least one operator, and all
 * named operators are in the table. */
static bool only_moves(const char *operators) {
    bool any = false;
    for (const char *p = operators; *p;) {
        size_t n = move_at(p);
        if (!n && isdigit((unsigned char)*p)) n = strcspn(p, "_"); /* the index of the kernel */
        if (!n) return false;
        any = any || !isdigit((unsigned char)*p);
        p += n;
        p += *p == '_';
    }
    return any;
}

enum kernel_category inductor_category(const char *function) {
    if (strncmp(function, "triton_", 7) != 0) return KERNEL_CATEGORY_OTHER;
    const char *kind = function + 7, *operators = strstr(function, "_fused_");
    bool pointwise = strncmp(kind, "poi_", 4) == 0 || strncmp(kind, "for_", 4) == 0,
         reduction = strncmp(kind, "red_", 4) == 0 || strncmp(kind, "per_", 4) == 0;
    if (!operators || (!pointwise && !reduction)) return KERNEL_CATEGORY_OTHER;
    operators += strlen("_fused_");
    if (strstr(operators, "vector_norm")) return KERNEL_CATEGORY_REDUCTION;
    if (strstr(operators, "_norm") || strstr(operators, "rsqrt")) return KERNEL_CATEGORY_NORM;
    if (strstr(operators, "softmax")) return KERNEL_CATEGORY_SOFTMAX;
    if (strstr(operators, "argmax")) return KERNEL_CATEGORY_SAMPLING;
    if (strstr(operators, "embedding")) return KERNEL_CATEGORY_EMBEDDING;
    if (reduction) return KERNEL_CATEGORY_REDUCTION;
    return only_moves(operators) ? KERNEL_CATEGORY_COPY : KERNEL_CATEGORY_ELEMENTWISE;
}

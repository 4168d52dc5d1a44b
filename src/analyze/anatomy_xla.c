/* The names of XLA's generated kernels do not describe their work. In a decode step they follow a fixed
 * order: the write into the KV cache, then attention as four reductions (scores, maximum, sum, values). Other
 * reductions are matrix-vector products (several blocks) or norms (one block). */
#include <string.h>

#include "analyze/anatomy_internal.h"

#define ATTENTION_REDUCTIONS 4

static bool is_reduction(const struct anatomy_kernel *k) {
    return k->is_kernel && (k->category == KERNEL_CATEGORY_REDUCTION || k->category == KERNEL_CATEGORY_GEMM ||
                            k->category == KERNEL_CATEGORY_GEMV);
}

static bool writes_cache(const struct anatomy_kernel *k) {
    return k->is_kernel && strstr(k->name, "dynamic_update_slice");
}

static bool is_xla_step(const struct anatomy_kernel *k, size_t n) {
    bool writes = false;
    for (size_t i = 0; i < n; i++) {
        if (k[i].is_kernel && k[i].category == KERNEL_CATEGORY_ATTENTION) return false;
        writes |= writes_cache(&k[i]);
    }
    return writes;
}

/* Returns true if the kernel multiplies the weights with the vector, before the reduction that adds up the
 * products. */
static bool prepares_product(const struct anatomy_kernel *k, size_t i, size_t n) {
    return i + 1 < n && k[i].is_kernel && strstr(k[i].name, "multiply") && k[i].blocks > 1 &&
           k[i + 1].is_kernel && k[i + 1].category == KERNEL_CATEGORY_REDUCTION && k[i + 1].blocks > 1;
}

/* Returns the index of the last matrix product; n if there is none. Reductions after this product choose the
 * token. */
static size_t last_product(const struct anatomy_kernel *k, size_t n) {
    size_t last = n;
    for (size_t i = 0; i < n; i++)
        if (k[i].is_kernel && k[i].category == KERNEL_CATEGORY_GEMM) last = i;
    return last;
}

void anatomy_read_xla(struct anatomy_kernel *k, size_t n) {
    size_t left = 0, head = last_product(k, n);
    if (!is_xla_step(k, n)) return;
    for (size_t i = 0; i < n; i++) {
        if (!k[i].is_kernel) continue;
        bool reduction = is_reduction(&k[i]);
        if (writes_cache(&k[i])) {
            k[i].category = KERNEL_CATEGORY_KV_CACHE;
            left = ATTENTION_REDUCTIONS;
        } else if (left) {
            k[i].category = KERNEL_CATEGORY_ATTENTION;
            left -= reduction;
        } else if (head != n && i > head) {
            k[i].category = KERNEL_CATEGORY_SAMPLING;
        } else if (prepares_product(k, i, n)) {
            k[i].category = KERNEL_CATEGORY_QUANT; /* anatomy_roles.c counts QUANT with the next product */
        } else if (reduction && k[i].category == KERNEL_CATEGORY_REDUCTION) {
            k[i].category = k[i].blocks > 1 ? KERNEL_CATEGORY_GEMV : KERNEL_CATEGORY_NORM;
        } else if (strstr(k[i].name, "multiply")) {
            k[i].category = KERNEL_CATEGORY_NORM; /* scales by the norm */
        }
    }
}

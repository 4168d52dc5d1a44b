/* Assigns a role to each kernel of a decode step, by category and position. The parts of a layer come in a
 * fixed order: QKV, attention, output projection, then the MLP or router and experts. */
#include "analyze/anatomy_internal.h"

#include <string.h>

#include "base/util.h"

const char *kernel_role_name(enum kernel_role role) {
    static const char *const names[ROLE_END] = {
#define X(id, name) [ROLE_##id] = name,
        KERNEL_ROLES(X)
#undef X
    };
    return (unsigned)role < ROLE_END ? names[role] : "idle";
}

static bool is_product(const struct anatomy_kernel *k) {
    return k->is_kernel && (k->category == KERNEL_CATEGORY_GEMM || k->category == KERNEL_CATEGORY_GEMV);
}
/* Returns true for kernels that belong to a product: the reduction of a split-K product, or the quantisation
 * of its input. */
static bool helps_product(const struct anatomy_kernel *k) {
    return k->is_kernel && (k->category == KERNEL_CATEGORY_QUANT || strstr(k->name, "splitKreduce") ||
                            strstr(k->name, "splitk_reduce"));
}
/* Returns true for the native engine's products between latent attention and the output projection, which
 * compute the values of the heads. */
static bool expands_latent(const struct anatomy_kernel *k) {
    return is_product(k) &&
           (strncmp(k->name, "latent_end_", 11) == 0 || strncmp(k->name, "latent_value_", 13) == 0);
}
static bool is_category(const struct anatomy_kernel *k, enum kernel_category c) {
    return k->is_kernel && k->category == c;
}
static bool routes(const struct anatomy_kernel *k) {
    return is_category(k, KERNEL_CATEGORY_MOE) || is_category(k, KERNEL_CATEGORY_SORT) ||
           (k->is_kernel && strstr(k->name, "argsort"));
}

/* Sets the role if the category alone determines it. Returns false for other categories. */
static bool plain_role(const struct anatomy_kernel *k, uint8_t *role) {
    if (!k->is_kernel)
        *role = ROLE_COPY;
    else if (k->category == KERNEL_CATEGORY_NORM)
        *role = ROLE_NORM;
    else if (k->category == KERNEL_CATEGORY_ROPE)
        *role = ROLE_ROTARY;
    else if (k->category == KERNEL_CATEGORY_KV_CACHE)
        *role = ROLE_KV_WRITE;
    else if (k->category == KERNEL_CATEGORY_ATTENTION)
        *role = ROLE_ATTENTION;
    else if (k->category == KERNEL_CATEGORY_COMMUNICATION)
        *role = ROLE_COMMUNICATION;
    else
        return false;
    return true;
}

/* Marks norms that consist of several kernels: a reduction and the kernels around it, up to the next product
 * or kernel with a role. */
static void mark_norms(struct anatomy_kernel *k, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        if (!is_category(&k[i], KERNEL_CATEGORY_REDUCTION)) continue;
        for (size_t j = i; j-- > first && !is_product(&k[j]) && k[j].role == ROLE_OTHER;)
            k[j].role = ROLE_NORM;
        for (size_t j = i; j < end && !is_product(&k[j]) && k[j].role == ROLE_OTHER; j++)
            k[j].role = ROLE_NORM;
    }
}

/* Assigns roles before attention: QKV, then positions and the cache. */
static void roles_before(struct anatomy_kernel *k, size_t first, size_t end) {
    bool product = false;
    for (size_t i = first; i < end; i++) {
        if (k[i].role != ROLE_OTHER) continue;
        if (is_product(&k[i])) {
            k[i].role = ROLE_QKV;
            product = true;
        } else if (helps_product(&k[i])) {
            k[i].role = ROLE_QKV;
        } else if (product && is_category(&k[i], KERNEL_CATEGORY_COPY)) {
            k[i].role = ROLE_KV_WRITE;
        } else if (product && is_category(&k[i], KERNEL_CATEGORY_ELEMENTWISE)) {
            k[i].role = ROLE_ROTARY;
        }
    }
}

#define PRODUCTS_MAX 8 /* with more products after the router, shared experts are not looked for */

/* Returns the first product of the shared experts if they run after the experts; otherwise `end`. Both have
 * at least two products, or one kernel computes all products of the experts. The products of the experts
 * run in other kernels than those of the shared experts, and may differ from each other. */
static size_t shared_after(const struct anatomy_kernel *k, size_t route, size_t end) {
    size_t products[PRODUCTS_MAX], n = 0, experts = 1;
    for (size_t i = route; i < end; i++) {
        if (!is_product(&k[i]) || helps_product(&k[i])) continue;
        if (n == PRODUCTS_MAX) return end;
        products[n++] = i;
    }
    for (size_t i = 1; i < n; i++)
        if (strcmp(k[products[0]].short_name, k[products[i]].short_name) == 0) experts = i + 1;
    if (experts == 1 && n != 3) experts = 2; /* two different kernels; three products: one and two */
    return experts + 2 <= n ? products[experts] : end;
}

/* Assigns roles after attention: the output projection, then MLP, or router and experts. */
static void roles_after(struct anatomy_kernel *k, size_t first, size_t end) {
    size_t output = end, route = end, router = end, last = first, ffn_first = end;
    for (size_t i = first; i < end; i++) {
        if (route == end && output != end && routes(&k[i])) route = i;
        if (!is_product(&k[i]) || expands_latent(&k[i])) continue;
        if (output == end)
            output = i;
        else if (!helps_product(&k[i]) && route == end)
            router = i;
        last = i;
    }
    for (size_t i = end; i-- > first && output != end;)
        if (i > output && i != router && is_product(&k[i]) && !helps_product(&k[i])) ffn_first = i;
    if (route == end) ffn_first = MIN(ffn_first, router);
    size_t shared = route == end ? end : shared_after(k, route, end);
    for (size_t i = first; i < end; i++) {
        if (k[i].role != ROLE_OTHER) continue;
        uint8_t ffn = route == end ? ROLE_MLP : i < route || i >= shared ? ROLE_SHARED_EXPERTS : ROLE_EXPERTS;
        if (output == end) continue;
        if (i <= output || (i == output + 1 && helps_product(&k[i])))
            k[i].role = ROLE_OUTPUT;
        else if (route != end && (i == router || routes(&k[i]) || (i > router && i < route)))
            k[i].role = ROLE_ROUTER;
        else if (is_product(&k[i]) || helps_product(&k[i]))
            k[i].role = ffn;
        else if (i > ffn_first && i < last && is_category(&k[i], KERNEL_CATEGORY_ELEMENTWISE))
            k[i].role = ffn;
    }
}

/* Assigns roles after the last layer: the LM head is the last product, and the kernels without a role after
 * it are sampling. */
static void roles_of_head(struct anatomy_kernel *k, size_t first, size_t end) {
    size_t head = end;
    for (size_t i = first; i < end; i++)
        if (is_product(&k[i]) && !strstr(k[i].name, "splitKreduce")) head = i;
    for (size_t i = first; i < end; i++) {
        if (k[i].role != ROLE_OTHER) continue;
        if (i == head || helps_product(&k[i]))
            k[i].role = ROLE_LM_HEAD;
        else if (head != end && i > head)
            k[i].role = ROLE_SAMPLING;
    }
}

/* Returns the number of kernels before the attention of a layer: the longest run of kernels directly before
 * attention whose categories are the same in the first two layers. 0: there is only one layer. */
static size_t lead_of(const struct anatomy_kernel *k, const size_t *anchor, size_t n) {
    size_t lead = 0, most = n > 1 ? MIN(anchor[0], anchor[1] - anchor[0] - 1) : anchor[0];
    while (n > 1 && lead < most && k[anchor[0] - lead - 1].is_kernel == k[anchor[1] - lead - 1].is_kernel &&
           k[anchor[0] - lead - 1].category == k[anchor[1] - lead - 1].category)
        lead++;
    return lead;
}

/* Returns the first kernel of a layer, at most `lead` kernels before its attention. The first layer may
 * lack a kernel that others have; `lead` is then too short to reach the QKV product, and the layer begins
 * with that product and the norm before it. */
static size_t layer_start(const struct anatomy_kernel *k, const size_t *anchor, size_t layer, size_t lead) {
    size_t start = anchor[layer] - lead, after = layer ? anchor[layer - 1] + 1 : 0, product;
    for (size_t i = start; i < anchor[layer]; i++)
        if (is_product(&k[i])) return start;
    for (product = start; product > after && !is_product(&k[product - 1]);) product--;
    if (product == after) return start;
    product--;
    while (product > after &&
           (is_category(&k[product - 1], KERNEL_CATEGORY_NORM) || helps_product(&k[product - 1])))
        product--;
    return product;
}

/* Returns the end of the last layer. After its attention, this layer has as many products as the previous
 * layer, but it may have other kernels, such as the choice of the rows to sample. It ends at the next norm,
 * product or copy after these products. If there are fewer products, it is as long as the previous layer. */
static size_t last_layer_end(const struct anatomy_kernel *k, size_t n, const size_t *anchor, size_t layers,
                             size_t lead) {
    size_t products = 0, end;
    for (size_t i = anchor[layers - 2]; i < layer_start(k, anchor, layers - 1, lead); i++)
        products += is_product(&k[i]) && !helps_product(&k[i]);
    for (end = anchor[layers - 1]; end < n && products; end++)
        products -= is_product(&k[end]) && !helps_product(&k[end]);
    if (products) return MIN(n, 2 * anchor[layers - 1] - anchor[layers - 2] - lead);
    while (end < n && k[end].is_kernel && !is_category(&k[end], KERNEL_CATEGORY_NORM) &&
           (!is_product(&k[end]) || helps_product(&k[end])))
        end++;
    return end;
}

void anatomy_assign_roles(struct anatomy_kernel *k, size_t n, const size_t *anchor, size_t layers) {
    size_t lead = layers ? lead_of(k, anchor, layers) : 0;
    size_t last_end = layers > 1 ? last_layer_end(k, n, anchor, layers, lead) : layers ? anchor[0] - lead : 0;
    for (size_t i = 0; i < n; i++) {
        k[i].role = ROLE_OTHER;
        k[i].layer = ANATOMY_NO_LAYER;
        plain_role(&k[i], &k[i].role);
    }
    mark_norms(k, 0, n);
    for (size_t l = 0; l < layers; l++) {
        size_t first = layer_start(k, anchor, l, lead),
               end = l + 1 < layers ? layer_start(k, anchor, l + 1, lead) : last_end;
        for (size_t i = first; i < end; i++) k[i].layer = (uint32_t)l;
        roles_before(k, first, anchor[l]);
        roles_after(k, anchor[l], end);
        if (l + 1 == layers) roles_of_head(k, end, n);
    }
    for (size_t i = 0; layers && i < layer_start(k, anchor, 0, lead); i++)
        if (is_category(&k[i], KERNEL_CATEGORY_EMBEDDING)) k[i].role = ROLE_EMBEDDING;
}

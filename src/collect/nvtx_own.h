/* Text prefixes that give ranges and marks a meaning, for programs that can only pass a text: PyTorch's NVTX
 * binding has no domains, categories or payloads.
 *     inferprof:stage prefill     inferprof:module model.layers.0     inferprof:op attention         (ranges)
 *     inferprof:consumed 501      inferprof:made 1                                                   (marks)
 * The meanings are those of the categories of the domain `inferprof` (nvtx.h). */
#ifndef COLLECT_NVTX_OWN_H
#define COLLECT_NVTX_OWN_H

#include <stdbool.h>
#include <stdint.h>

#define NVTX_OWN_DOMAIN "inferprof"
enum nvtx_own { NVTX_OWN_STAGE = 1, NVTX_OWN_MODULE, NVTX_OWN_OP, NVTX_OWN_CONSUMED, NVTX_OWN_MADE };

struct nvtx_own_text {
    enum nvtx_own kind;
    const char *name; /* points into the text */
    double count;     /* tokens; NaN for ranges */
};

/* Returns false if there is no such prefix, or no valid name or count after it. */
bool nvtx_own_split(const char *text, struct nvtx_own_text *out);

#endif

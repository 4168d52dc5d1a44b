/* Texts by which a program that can say nothing but a text tells what its ranges and marks mean. PyTorch's
 * NVTX has neither domains nor categories nor payloads:
 *     inferprof:stage prefill     inferprof:module model.layers.0     inferprof:op attention         (ranges)
 *     inferprof:consumed 501      inferprof:made 1                                                   (marks)
 * They mean what the categories of the domain `inferprof` mean. */
#ifndef COLLECT_NVTX_OWN_H
#define COLLECT_NVTX_OWN_H

#include <stdbool.h>
#include <stdint.h>

#define NVTX_OWN_DOMAIN "inferprof"
enum nvtx_own { NVTX_OWN_STAGE = 1, NVTX_OWN_MODULE, NVTX_OWN_OP, NVTX_OWN_CONSUMED, NVTX_OWN_MADE };

struct nvtx_own_text {
    enum nvtx_own kind;
    const char *name; /* into the text, behind the prefix */
    double count;     /* of tokens; NaN for ranges */
};

/* False: it is an ordinary text. */
bool nvtx_own_split(const char *text, struct nvtx_own_text *out);

#endif

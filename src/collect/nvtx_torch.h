/* Names that PyTorch's emit_nvtx gives to ranges. They carry a number of the call, so each is unique:
 *     aten::mm, seq = 12, op_id = 1014, sizes = [[501, 4096], [4096, 4096]], input_op_ids = [(1012,0), (1008,0)]
 * Every field after the name is optional but one number; their order is fixed. */
#ifndef COLLECT_NVTX_TORCH_H
#define COLLECT_NVTX_TORCH_H

#include <stdbool.h>
#include <stddef.h>

/* Pieces of the text they were found in. */
struct torch_name {
    size_t name_len;    /* from the start: "aten::mm" */
    const char *detail; /* "sizes = [[501, 4096], [4096, 4096]]"; not terminated */
    size_t detail_len;  /* 0: it has no sizes */
};

/* False: the text is not of that shape from its first to its last byte, and is to be taken as it is. */
bool torch_name_split(const char *text, struct torch_name *out);

#endif

/* Splits the range names of PyTorch's emit_nvtx. They contain a number per call, so every name is unique:
 *     aten::mm, seq = 12, op_id = 1014, sizes = [[501, 4096], [4096, 4096]], input_op_ids = [(1012,0)]
 * The order of the fields is fixed. All fields are optional, but seq or op_id is present. inferprof's engine
 * hf adds the types of the tensors and ", stack = FRAME;FRAME". */
#ifndef COLLECT_NVTX_TORCH_H
#define COLLECT_NVTX_TORCH_H

#include <stdbool.h>
#include <stddef.h>

/* Pointers into the text, and lengths. */
struct torch_name {
    size_t name_len;    /* "aten::mm", at the start */
    const char *detail; /* "sizes = [[501, 4096], [4096, 4096]]"; not terminated */
    size_t detail_len;  /* 0: no sizes */
    const char *stack;  /* rest of the text; NULL: none */
};

/* Returns false if the text has another format. Use the text unchanged then. */
bool torch_name_split(const char *text, struct torch_name *out);

#endif

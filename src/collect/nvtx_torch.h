/* Splits the range names of PyTorch's emit_nvtx. They contain a number per call, so every name is unique:
 *     aten::mm, seq = 12, op_id = 1014, sizes = [[501, 4096], [4096, 4096]], input_op_ids = [(1012,0)]
 * The order of the fields is fixed. All fields after the name are optional, but at least one of seq and
 * op_id is present. inferprof's engine hf adds the types of the tensors and ", stack = FRAME;FRAME". */
#ifndef COLLECT_NVTX_TORCH_H
#define COLLECT_NVTX_TORCH_H

#include <stdbool.h>
#include <stddef.h>

/* Parts of the text, as lengths and pointers into it. */
struct torch_name {
    size_t name_len;    /* length of the name at the start: "aten::mm" */
    const char *detail; /* "sizes = [[501, 4096], [4096, 4096]]"; not terminated */
    size_t detail_len;  /* 0: no sizes */
    const char *stack;  /* call path up to the end of the text; NULL: none */
};

/* Returns false if the text does not have the format above; the text must then be used unchanged. */
bool torch_name_split(const char *text, struct torch_name *out);

#endif

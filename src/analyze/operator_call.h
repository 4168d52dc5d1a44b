/* One call of a PyTorch operator: shapes of its tensors and its other arguments, as the profiler recorded
 * them (import/kineto_args.h):
 *     "[32,3,224,224]bf16 [64,3,7,7]bf16; [2,2] [3,3] [1,1] False [0,0] 1"
 * The format of PyTorch's emit_nvtx, "sizes = [[8944, 1024], [1024, 2816]]", is accepted too; it has neither
 * types nor other arguments. */
#ifndef ANALYZE_OPERATOR_CALL_H
#define ANALYZE_OPERATOR_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "llm/dtype.h"

#define OPERATOR_TENSORS_MAX 16
#define OPERATOR_DIMS_MAX 8
#define OPERATOR_VALUES_MAX 16

struct operator_tensor {
    double dims[OPERATOR_DIMS_MAX];
    size_t ndims;
    double element_bytes; /* 0: unknown */
    enum llm_dtype type;
};

struct operator_call {
    /* tensors with at least one dimension; others, and missing optional tensors, are left out */
    struct operator_tensor tensors[OPERATOR_TENSORS_MAX];
    /* values of lists such as "[2,2]" (stride, padding); booleans are 1 and 0 */
    double lists[OPERATOR_VALUES_MAX][OPERATOR_DIMS_MAX];
    size_t list_lens[OPERATOR_VALUES_MAX];
    bool flags[OPERATOR_VALUES_MAX];      /* values of True and False arguments, in order */
    double integers[OPERATOR_VALUES_MAX]; /* numbers without a decimal point, in order */
    /* index of the first integer after the first number with a decimal point, which is the dropout
     * probability in calls of attention; nintegers: none */
    size_t after_fraction;
    size_t ntensors, nlists, nflags, nintegers;
    bool has_values; /* there are arguments that are not tensors */
};

/* Returns false if the text is not valid. */
bool operator_call_read(const char *detail, struct operator_call *c);

double operator_tensor_elements(const struct operator_tensor *t);
double operator_tensor_bytes(const struct operator_tensor *t);         /* NaN: unknown type */
double operator_tensor_element_bytes(const struct operator_tensor *t); /* NaN: unknown type */

#endif

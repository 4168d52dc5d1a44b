/* Kernels that torch.compile generates: "triton_poi_fused_add_mul_silu_3". The prefix is the kind of loop
 * (poi: pointwise, red and per: reductions, tem: a template such as a GEMM), the rest lists the operators
 * whose nodes were fused. Operators that only produce an input (mm, attention) are listed too, so the rules
 * for other names would call such a kernel a GEMM or attention. */
#ifndef ANALYZE_INDUCTOR_NAME_H
#define ANALYZE_INDUCTOR_NAME_H

#include "analyze/kernel_name.h"

/* KERNEL_CATEGORY_OTHER if the name is none of these, or a template. */
enum kernel_category inductor_category(const char *function);

#endif

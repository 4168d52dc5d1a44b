/* Names of kernels that torch.compile generates: "triton_poi_fused_add_mul_silu_3". The prefix is the kind
 * of loop (poi: pointwise; red, per: reductions; tem: a template such as a GEMM). The rest lists the fused
 * operators. Operators that only produce an input (mm, attention) are listed too, so the rules for other
 * names would classify such a kernel as GEMM or attention. */
#ifndef ANALYZE_INDUCTOR_NAME_H
#define ANALYZE_INDUCTOR_NAME_H

#include "analyze/kernel_name.h"

/* Returns KERNEL_CATEGORY_OTHER for templates and all other names. */
enum kernel_category inductor_category(const char *function);

#endif

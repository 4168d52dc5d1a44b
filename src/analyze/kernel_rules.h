/* The one table that says which library a kernel comes from and what it does. */
#ifndef ANALYZE_KERNEL_RULES_H
#define ANALYZE_KERNEL_RULES_H

#include "analyze/kernel_name.h"

/* `function` is the qualified name without template arguments, `whole` has them. */
void kernel_rules_apply(const char *function, const char *whole, enum kernel_library *library,
                        enum kernel_category *category);

#endif

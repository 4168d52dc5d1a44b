/* Maps kernel names to libraries and categories. */
#ifndef ANALYZE_KERNEL_RULES_H
#define ANALYZE_KERNEL_RULES_H

#include "analyze/kernel_name.h"

/* `function` is the qualified name without template arguments; `whole` includes them. */
void kernel_rules_apply(const char *function, const char *whole, enum kernel_library *library,
                        enum kernel_category *category);

#endif

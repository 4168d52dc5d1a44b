/* Memory for the program's threads. It does not come from malloc(): a signal handler that uses NVTX may have
 * interrupted malloc() on the same thread, and would wait for its lock forever. */
#ifndef COLLECT_PAGES_H
#define COLLECT_PAGES_H

#include <stddef.h>

void *pages_map(size_t bytes); /* zeroed, never freed; NULL: no memory */

#endif

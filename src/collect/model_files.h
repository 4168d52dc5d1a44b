/* Records which weight files (GGUF and safetensors) the program uses: path, size, description (model_head.h)
 * and config.json. They are found in the program's arguments, descriptors and memory map, on a thread of our
 * own. The thread scans every 10 ms at first and less often later. It uses at most 2% of a core. */
#ifndef COLLECT_MODEL_FILES_H
#define COLLECT_MODEL_FILES_H

#include <stdint.h>

void model_files_start(void);
void model_files_stop(uint64_t until_ns); /* Waits for a running scan, up to the deadline. */
void model_files_after_fork(void);

#endif

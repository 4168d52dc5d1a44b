/* Records which weight files of models the program uses (GGUF and safetensors): path, size and description
 * (model_head.h), and the config.json that belongs to them. The files are found in the program's arguments,
 * descriptors and memory map, on a thread of our own with its own descriptor table. The thread scans every 10
 * ms at first, and less often later, usually at least every 2 s. It uses at most 2% of a core. */
#ifndef COLLECT_MODEL_FILES_H
#define COLLECT_MODEL_FILES_H

#include <stdint.h>

void model_files_start(void);
void model_files_stop(uint64_t until_ns); /* waits until the deadline for a scan that is under way */
void model_files_after_fork(void);

#endif

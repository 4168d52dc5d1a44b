/* Between the files of `doctor`: adding rows, and the checks each file brings. */
#ifndef SESSION_DOCTOR_INTERNAL_H
#define SESSION_DOCTOR_INTERNAL_H

#include "session/doctor.h"

/* Adds a row; `remedy` NULL or "" for none. Returns it, to be changed until the next is added. */
struct doctor_row *doctor_add(struct doctor *d, const char *check, enum doctor_status status,
                              const char *remedy, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void doctor_gpu(struct doctor *d);                      /* driver, CUDA, CUPTI, NVML, GPUs, counters */
void doctor_software(struct doctor *d);                 /* ncu, nsys, Python */
void doctor_machine(struct doctor *d, const char *dir); /* inferprof, collector, CPU, disk */

#endif

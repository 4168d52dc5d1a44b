/* Internal to the doctor files. */
#ifndef SESSION_DOCTOR_INTERNAL_H
#define SESSION_DOCTOR_INTERNAL_H

#include "session/doctor.h"

/* Adds a row; `remedy` is NULL or "" if none. The returned pointer is valid until the next row is added. */
struct doctor_row *doctor_add(struct doctor *d, const char *check, enum doctor_status status,
                              const char *remedy, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

void doctor_gpu(struct doctor *d);      /* driver, NVML, CUDA, GPU kernels, CUPTI, GPUs, counters */
void doctor_software(struct doctor *d); /* ncu, nsys, Python and its packages */

#endif

/* The collector's service thread opens the trace and closes it at the end. A thread of the program cannot do
 * this: its stack may be too small, and it may call exit() inside our own code. If the system supports it,
 * the service thread has its own descriptor table. It never calls CUPTI or the driver. */
#ifndef COLLECT_SERVICE_H
#define COLLECT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

enum service_job { SERVICE_OPEN = 1, SERVICE_END = 2 };
typedef void (*service_work)(uint64_t until_ns); /* until_ns: deadline on CLOCK_MONOTONIC */

void service_set(service_work open, service_work end); /* before the first job */
int service_start(void);                               /* 0, or an error number */
/* Runs the job on the service thread and waits up to the deadline. Returns false if there is no thread or the
 * job is not finished. Each job runs once. */
bool service_run(enum service_job job, uint64_t until_ns);
void service_after_fork(void);

#endif

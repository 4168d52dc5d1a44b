/* The collector's service thread, one per process: opens the trace and ends it. Neither may run on a thread
 * of the program: its stack may be too small, and the end must be bounded even if the thread that calls
 * exit() was interrupted inside our own code. The thread has a descriptor table of its own where the system
 * allows it, which the writer's thread shares. It never calls CUPTI or the driver. */
#ifndef COLLECT_SERVICE_H
#define COLLECT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

enum service_job { SERVICE_OPEN = 1, SERVICE_END = 2 };
typedef void (*service_work)(uint64_t until_ns); /* a deadline on CLOCK_MONOTONIC */

void service_set(service_work open, service_work end); /* before the first job */
int service_start(void); /* starts the thread; returns an error number, 0: it runs */
/* Has the job done, and waits for it up to the deadline. True: done. False: there is no thread, or the job is
 * still under way. Each job is done once. */
bool service_run(enum service_job job, uint64_t until_ns);
void service_after_fork(void);

#endif

/* The collector's service thread, one per process: opens the trace and closes it at the end. Neither job may
 * run on a thread of the program: the stack of that thread may be too small, and the end must be bounded even
 * if the thread that calls exit() was interrupted inside our own code. If the system supports it, the thread
 * has its own descriptor table, which it shares with the writer's thread. It never calls CUPTI or the
 * driver. */
#ifndef COLLECT_SERVICE_H
#define COLLECT_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

enum service_job { SERVICE_OPEN = 1, SERVICE_END = 2 };
typedef void (*service_work)(uint64_t until_ns); /* until_ns is a deadline on CLOCK_MONOTONIC */

void service_set(service_work open, service_work end); /* before the first job */
int service_start(void);                               /* starts the thread; returns 0 or an error number */
/* Requests the job and waits for it up to the deadline. Returns true if it is done; false if there is no
 * thread or the job is not finished. Each job runs once. */
bool service_run(enum service_job job, uint64_t until_ns);
void service_after_fork(void);

#endif

/* The end of a program whose main thread calls pthread_exit(). Its process ends with its last thread, in
 * which the C library calls exit(0). Our threads would keep such a process alive for ever. Therefore, when
 * the thread ends that started the collector, a thread is started that calls exit(0) as soon as the main
 * thread has ended and only our threads are left. */
#ifndef COLLECT_LAST_THREAD_H
#define COLLECT_LAST_THREAD_H

void last_thread_start(void); /* on a thread of the program, before our threads are started */
void last_thread_after_fork(void);

#endif

/* The end of a program whose main thread calls pthread_exit(). Its process ends with its last thread, in
 * which the C library calls exit(0). Our threads would keep such a process alive for ever. Therefore, when
 * the main thread ends, a thread is started that calls exit(0) as soon as only our threads are left. If the
 * main thread never called the collector, the first end of another thread starts it. */
#ifndef COLLECT_LAST_THREAD_H
#define COLLECT_LAST_THREAD_H

void last_thread_registered(void); /* on a thread of the program that uses the collector from now on */
void last_thread_ends(void);       /* on such a thread, at its end */
void last_thread_after_fork(void);

#endif

/* A thread pool for the inner loops of the engine: the caller works too, and waits until all tasks are done.
 *     struct threads *t = threads_open(0);               -- 0: one per usable core
 *     threads_run(t, row_task, &job, ntasks);            -- tasks start in order
 *     threads_close(t);
 * One caller at a time. Idle workers spin for a short time, then sleep. */
#ifndef ENGINE_COMPUTE_THREADS_H
#define ENGINE_COMPUTE_THREADS_H

struct threads;
/* `worker` (0 .. threads_count() - 1) identifies the thread, for example as an index into scratch memory. */
typedef void threads_fn(void *job, int task, int worker);

struct threads *threads_open(int count);
void threads_close(struct threads *t); /* accepts NULL */
int threads_count(const struct threads *t);
void threads_run(struct threads *t, threads_fn *fn, void *job, int ntasks);

#endif

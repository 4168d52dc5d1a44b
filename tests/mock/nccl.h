/* A mock of NCCL that drives the profiler plugin named by NCCL_PROFILER_PLUGIN (nccl.c). */
#ifndef MOCK_NCCL_H
#define MOCK_NCCL_H

/* n all-reduces of 1000 bf16 elements, two sends to and one receive from rank 2, with version 6 also a
 * collective of the copy engines. Exits with status 91 if the plugin misses something. */
void mock_nccl_run(int version, int n);
/* Calls in a wrong order, twice, with NULL, with unknown types, with handles that do not exist. */
void mock_nccl_misbehave(int version);
/* `threads` threads use one communicator and start n operations each. */
void mock_nccl_threads(int version, int threads, int n);

#endif

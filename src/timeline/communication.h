/* Names of kernels that communicate between GPUs: one list for the table of collectives and for the
 * classification of kernels (analyze/kernel_rules.c). */
#ifndef TIMELINE_COMMUNICATION_H
#define TIMELINE_COMMUNICATION_H

/* X(part of the name, library as in KERNEL_LIBRARIES). A kernel of these libraries runs collectives, sends or
 * receives. RCCL uses the names of NCCL. Mangled names contain these words, too. */
#define COLLECTIVE_KERNELS(X) \
    X("nccl", NCCL)           \
    X("rccl", NCCL)           \
    X("msccl", ROCM)

#endif

/* Gives the calling thread, and the threads that it starts, their own empty descriptor table. The program
 * then cannot close or replace our descriptors. Only for threads that never use the program's files. */
#ifndef BASE_PRIVATE_FDS_H
#define BASE_PRIVATE_FDS_H

#include <stdbool.h>

/* Returns false if a system call filter forbids it: the table stays shared. */
bool private_fds(void);

#endif

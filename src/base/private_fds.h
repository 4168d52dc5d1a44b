/* Gives the calling thread its own empty descriptor table, which is shared with the threads that it
 * starts. The program then cannot see, close or replace our descriptors, and ours do not occupy numbers in
 * its table. Only for threads that never use the program's files. */
#ifndef BASE_PRIVATE_FDS_H
#define BASE_PRIVATE_FDS_H

#include <stdbool.h>

/* returns false if a system call filter does not permit it; the table is then still shared */
bool private_fds(void);

#endif

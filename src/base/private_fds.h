/* Gives the calling thread a descriptor table of its own, empty, which the threads that it starts share. The
 * program around us can then neither see nor close nor replace a descriptor of ours, and ours take no number
 * that the program would get. For threads of our own that never touch the program's files. */
#ifndef BASE_PRIVATE_FDS_H
#define BASE_PRIVATE_FDS_H

#include <stdbool.h>

bool private_fds(void); /* false: not supported (before Linux 5.9) or forbidden; the table is still shared */

#endif

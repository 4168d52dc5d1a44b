/* Random numbers for names that no other process uses. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

uint64_t random_u64(void); /* not for secrets: without random numbers of the system, it is the time */

#endif

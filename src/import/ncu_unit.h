/* Units of Nsight Compute. They vary from row to row with the size of the number. */
#ifndef IMPORT_NCU_UNIT_H
#define IMPORT_NCU_UNIT_H

#include <stddef.h>

enum ncu_dimension {
    NCU_PLAIN, /* a count, a ratio, or an unknown unit */
    NCU_PERCENT,
    NCU_TIME,      /* ns */
    NCU_BYTES,     /* bytes */
    NCU_BANDWIDTH, /* bytes/s */
    NCU_FREQUENCY, /* Hz */
};
/* Returns the dimension of the unit, and the factor that converts a value to the base unit listed above. */
enum ncu_dimension ncu_unit(const char *unit, size_t len, double *factor);

#endif

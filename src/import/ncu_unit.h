/* Units of Nsight Compute. They vary from row to row with the size of the number. */
#ifndef IMPORT_NCU_UNIT_H
#define IMPORT_NCU_UNIT_H

#include <stddef.h>

enum ncu_dimension {
    NCU_PLAIN, /* count, ratio or unknown unit */
    NCU_PERCENT,
    NCU_TIME,      /* ns */
    NCU_BYTES,     /* bytes */
    NCU_BANDWIDTH, /* bytes/s */
    NCU_FREQUENCY, /* Hz */
};
/* *factor converts a value to the unit in the comments above. */
enum ncu_dimension ncu_unit(const char *unit, size_t len, double *factor);

#endif

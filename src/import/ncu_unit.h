/* Units of Nsight Compute, which change from row to row with the size of a number. */
#ifndef IMPORT_NCU_UNIT_H
#define IMPORT_NCU_UNIT_H

#include <stddef.h>

enum ncu_dimension {
    NCU_PLAIN, /* a count, a ratio, or a unit we do not know */
    NCU_PERCENT,
    NCU_TIME,      /* ns */
    NCU_BYTES,     /* bytes */
    NCU_BANDWIDTH, /* bytes/s */
    NCU_FREQUENCY, /* Hz */
};
/* What a value in this unit is multiplied with to be in the unit above. */
enum ncu_dimension ncu_unit(const char *unit, size_t len, double *factor);

#endif

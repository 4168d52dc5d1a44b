/* Writes the unrecorded time of the devices of a run. */
#ifndef REPORT_UNRECORDED_H
#define REPORT_UNRECORDED_H

#include "base/strbuf.h"

/* Unrecorded time of several devices. */
struct text_unrecorded {
    size_t devices;                       /* number of devices with unrecorded time */
    double ns;                            /* sum over these devices */
    double least_limit_ns, most_limit_ns; /* smallest and largest limit of these devices */
};
/* Ignores a device without unrecorded time. */
void text_unrecorded_add(struct text_unrecorded *u, double ns, double limit_ns);
/* Writes the sum and the limit in one sentence. Writes nothing without unrecorded time. */
void text_unrecorded(struct strbuf *out, const struct text_unrecorded *u);

#endif

/* Writes the unrecorded time of the devices of a run. */
#ifndef REPORT_UNRECORDED_H
#define REPORT_UNRECORDED_H

#include "analyze/analyze.h"
#include "base/strbuf.h"

/* Writes the sum and the limit in one sentence. Writes nothing without unrecorded time. */
void text_unrecorded(struct strbuf *out, const struct analysis_unrecorded *u);

#endif

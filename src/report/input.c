#include <math.h>
#include <string.h>

#include "report/report.h"

void report_input_init(struct report_input *in) {
    memset(in, 0, sizeof *in);
    in->peak.flops_per_s = in->peak.bytes_per_s = NAN;
}

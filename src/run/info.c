#include "run/info.h"

#include <math.h>
#include <string.h>

void run_info_init(struct run_info *in) {
    memset(in, 0, sizeof *in);
    in->peak.flops_per_s = in->peak.bytes_per_s = NAN;
}

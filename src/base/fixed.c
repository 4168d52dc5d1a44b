#include "base/fixed.h"

#include <stdio.h>

const char *fixed_text(double v, unsigned decimals, char *text) {
    long long scale = 1;
    for (unsigned i = 0; i < decimals; i++) scale *= 10;
    if (!(v > -9e12 && v < 9e12)) {
        snprintf(text, FIXED_MAX, "?");
        return text;
    }
    long long n = (long long)((v < 0 ? -v : v) * (double)scale + 0.5);
    const char *sign = v < 0 && n ? "-" : "";
    if (decimals)
        snprintf(text, FIXED_MAX, "%s%lld.%0*lld", sign, n / scale, (int)decimals, n % scale);
    else
        snprintf(text, FIXED_MAX, "%s%lld", sign, n);
    return text;
}

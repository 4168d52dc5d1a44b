#include "base/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/util.h"

#define DASH "\xe2\x80\x93" /* en dash */

static const char *scaled(double v, const char *const *suffixes, size_t n, char *out, size_t cap) {
    if (!isfinite(v)) {
        snprintf(out, cap, DASH);
        return out;
    }
    size_t i = 0;
    while (i + 1 < n && fabs(v) >= 999.5) {
        v /= 1000;
        i++;
    }
    int decimals = i == 0 && v == floor(v) ? 0 : fabs(v) < 9.995 ? 2 : fabs(v) < 99.95 ? 1 : 0;
    snprintf(out, cap, "%.*f%s%s", decimals, v, suffixes[i][0] ? " " : "", suffixes[i]);
    return out;
}

const char *units_bytes(double bytes, char *out, size_t cap) {
    static const char *const s[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    return scaled(bytes, s, COUNTOF(s), out, cap);
}

const char *units_count(double n, char *out, size_t cap) {
    static const char *const s[] = { "", "k", "M", "G", "T", "P" };
    return scaled(n, s, COUNTOF(s), out, cap);
}

const char *units_flops(double flops, char *out, size_t cap) {
    static const char *const s[] = { "F", "kF", "MF", "GF", "TF", "PF", "EF" };
    return scaled(flops, s, COUNTOF(s), out, cap);
}

const char *units_duration_ns(double ns, char *out, size_t cap) {
    static const char *const s[] = { "ns", "us", "ms", "s" };
    if (isfinite(ns) && ns >= 59.995e9) {
        uint64_t sec = (uint64_t)(ns * 1e-9 + 0.5);
        if (sec >= 3600)
            snprintf(out, cap, "%" PRIu64 " h %02u m", sec / 3600, (unsigned)(sec / 60 % 60));
        else
            snprintf(out, cap, "%" PRIu64 " m %02u s", sec / 60, (unsigned)(sec % 60));
        return out;
    }
    return scaled(ns, s, COUNTOF(s), out, cap);
}

const char *units_grouped(uint64_t n, char *out, size_t cap) {
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < cap; i++) {
        if (i > 0 && (len - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

int units_parse_bytes(const char *text, uint64_t *out, struct err *err) {
    static const struct {
        const char *suffix;
        double factor;
    } rows[] = {
        { "", 1 },          { "b", 1 },
        { "k", 1e3 },       { "kb", 1e3 },
        { "kib", 1024 },    { "m", 1e6 },
        { "mb", 1e6 },      { "mib", 1 << 20 },
        { "g", 1e9 },       { "gb", 1e9 },
        { "gib", 1 << 30 }, { "t", 1e12 },
        { "tb", 1e12 },     { "tib", 1099511627776.0 },
    };
    char *end;
    double v = isdigit((unsigned char)text[0]) ? strtod(text, &end) : -1;
    for (size_t i = 0; v >= 0 && i < COUNTOF(rows); i++) {
        if (strcasecmp(end, rows[i].suffix) != 0) continue;
        if (v * rows[i].factor > 9.2e18) return err_set(err, "%s is too large", text);
        *out = (uint64_t)(v * rows[i].factor);
        return 0;
    }
    return err_set(err, "'%s' is not a size: expected a number with B, kB, MB, GB, KiB, MiB or GiB", text);
}

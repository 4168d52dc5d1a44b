#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/units.h"

#define DASH "\xe2\x80\x93"

static struct text dash(void) { return (struct text){ DASH }; }

struct text text_num(double v, int decimals) {
    if (!isfinite(v)) return dash();
    if (fabs(v) > 1e15) { /* would overflow the buffer */
        struct text big;
        snprintf(big.s, sizeof big.s, "%.3g", v);
        return big;
    }
    char plain[40];
    int n = snprintf(plain, sizeof plain, "%.*f", decimals > 9 ? 9 : decimals, v);
    const char *point = strchr(plain, '.');
    int whole = point ? (int)(point - plain) : n, sign = plain[0] == '-';
    struct text t = { "" };
    size_t at = 0;
    for (int i = 0; i < n && at + 2 < sizeof t.s; i++) {
        if (i > sign && i < whole && (whole - i) % 3 == 0) t.s[at++] = ',';
        t.s[at++] = plain[i];
    }
    t.s[at] = '\0';
    return t;
}

struct text text_ms_number(double ms) {
    double a = fabs(ms);
    return text_num(ms, a >= 1000 ? 0 : a >= 100 ? 1 : a >= 1 || a == 0 ? 2 : a >= 0.1 ? 3 : 4);
}

struct text text_us_number(double ns) {
    double us = ns / 1e3, a = fabs(us);
    return text_num(us, a >= 1000 ? 0 : a >= 100 ? 1 : 2);
}

struct text text_ms(double ms) {
    struct text t = text_ms_number(ms);
    if (isfinite(ms)) strncat(t.s, " ms", sizeof t.s - strlen(t.s) - 1);
    return t;
}

struct text text_percent(double fraction) {
    double p = fraction * 100, a = fabs(p);
    struct text t = text_num(p, a != 0 && a < 0.095 ? 3 : a < 9.95 ? 2 : 1);
    if (isfinite(fraction)) strncat(t.s, "%", sizeof t.s - strlen(t.s) - 1);
    return t;
}

struct text text_times(double ratio) {
    struct text t = text_num(ratio, ratio >= 99.5 ? 0 : ratio >= 9.95 ? 1 : 2);
    if (isfinite(ratio)) strncat(t.s, "x", sizeof t.s - strlen(t.s) - 1);
    return t;
}

struct text text_count(uint64_t n) {
    struct text t = { "" };
    units_grouped(n, t.s, sizeof t.s);
    return t;
}

struct text text_bytes(double bytes) {
    struct text t = { "" };
    units_bytes(bytes, t.s, sizeof t.s);
    return t;
}

struct text text_flops(double flops) {
    struct text t = { "" };
    units_flops(flops, t.s, sizeof t.s);
    return t;
}

struct text text_units(double n) {
    struct text t = { "" };
    units_count(n, t.s, sizeof t.s);
    return t;
}

struct text text_seconds(double s) {
    struct text t = { "" };
    units_duration_ns(s * 1e9, t.s, sizeof t.s);
    return t;
}

struct text text_raw(double v) {
    struct text t = { "" };
    if (!isfinite(v)) return t;
    for (int digits = 6; digits <= 17; digits++) {
        double back;
        snprintf(t.s, sizeof t.s, "%.*g", digits, v);
        if (sscanf(t.s, "%lf", &back) == 1 && back == v) break;
    }
    return t;
}

struct text text_date(uint64_t wall_ns) {
    struct text t = { "" };
    if (wall_ns == 0) return dash();
    clock_format(wall_ns, "%Y-%m-%d %H:%M UTC", 1, t.s, sizeof t.s);
    return t;
}

const char *text_or_dash(const char *s) { return s && *s ? s : DASH; }

void text_markdown(struct strbuf *out, const char *s) { escape_markdown(out, s); }

void text_markdown_block(struct strbuf *out, const char *language, const char *s) {
    escape_markdown_block(out, language, s, strlen(s));
}

/* Arithmetic, comparisons and conversions of PTX, and exchanges between lanes. Frequent instructions have a
 * loop over the lanes that compilers turn into vector instructions; the others go lane by lane. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "ptx/ptx.h"

/* ---- numbers of 16 and 8 bits */
float ptx_half(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 0) return (sign ? -1.0f : 1.0f) * ldexpf((float)m, -24);
    union {
        uint32_t u;
        float f;
    } v = { sign | (e == 31 ? 0x7f800000 : (e + 112) << 23) | m << 13 };
    return v.f;
}

/* To the nearest number, of two the even one. */
static uint16_t nearest_even(uint32_t bits, int drop) {
    uint32_t kept = bits >> drop, rest = bits & ((1u << drop) - 1), half = 1u << (drop - 1);
    return (uint16_t)(kept + (rest > half || (rest == half && (kept & 1))));
}
uint16_t ptx_to_half(float v) {
    union {
        float f;
        uint32_t u;
    } x = { v };
    uint16_t sign = (uint16_t)(x.u >> 16 & 0x8000);
    float size = fabsf(v);
    if (isnan(v)) return 0x7fff;
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 6.103515625e-05f) return sign | (uint16_t)lrintf(size * 16777216.0f); /* steps of 2^-24 */
    return sign | nearest_even((x.u & 0x7fffffff) - (112u << 23), 13);
}
uint16_t ptx_to_bf16(float v) {
    union {
        float f;
        uint32_t u;
    } x = { v };
    return isnan(v) ? 0x7fff : nearest_even(x.u, 16);
}
/* E4M3: 1, 4 and 3 bits; no infinity, 0x7f is NaN. */
static float e4m3(uint8_t b) {
    int e = b >> 3 & 15, m = b & 7;
    float size = (b & 0x7f) == 0x7f ? NAN : e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
    return b & 0x80 ? -size : size;
}

/* ---- registers */
uint64_t ptx_get(const struct ptx_warp *w, const struct ptx_operand *o, int lane) {
    switch (o->kind) {
    case O_PARAM: return (uint64_t)(uintptr_t)w->block->launch->params + o->at + (uint64_t)o->plus;
    case O_LOCAL:
        return (uint64_t)(uintptr_t)w->local + (uint64_t)lane * w->kernel->local_bytes + o->at +
               (uint64_t)o->plus;
    case O_TIMER: return clock_wall_ns();
    case O_NOTHING: return 0;
    default: break;
    }
    const void *row = ptx_row(w, o);
    if (o->pred) return *(const uint32_t *)row >> lane & 1;
    return (o->wide ? ((const uint64_t *)row)[lane] : ((const uint32_t *)row)[lane]) + (uint64_t)o->plus;
}
void ptx_put(struct ptx_warp *w, const struct ptx_operand *o, int lane, uint64_t value) {
    if (o->kind == O_NOTHING) return;
    void *row = w->regs + o->at;
    if (o->pred)
        *(uint32_t *)row = (*(uint32_t *)row & ~(1u << lane)) | (uint32_t)(value & 1) << lane;
    else if (o->wide)
        ((uint64_t *)row)[lane] = value;
    else
        ((uint32_t *)row)[lane] = (uint32_t)value;
}

/* ---- values by type */
static bool is_float(int t) { return t == T_F32 || t == T_F64; }
static bool is_signed(int t) { return t >= T_S8 && t <= T_S64; }
static int bits_of(int t) { return t == T_PRED ? 1 : 8 * ptx_type_bytes((enum ptx_type)t); }
static uint64_t cut(uint64_t v, int bits) { return bits == 64 ? v : v & ((1ull << bits) - 1); }
static int64_t extend(uint64_t v, int bits) {
    return bits == 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}
static float as_float(uint64_t v) {
    union {
        uint32_t u;
        float f;
    } x = { (uint32_t)v };
    return x.f;
}
static uint64_t float_bits(float v) {
    union {
        float f;
        uint32_t u;
    } x = { v };
    return x.u;
}
static double as_double(uint64_t v) {
    double d;
    memcpy(&d, &v, sizeof d);
    return d;
}
static uint64_t double_bits(double v) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
/* A small number is 0 with .ftz. */
static float flushed(const struct ptx_ins *i, float v) {
    return i->ftz && fabsf(v) < 1.17549435e-38f ? copysignf(0, v) : v;
}
static float rounded(const struct ptx_ins *i, double exact) {
    float f = (float)exact;
    if (i->rounding == R_DOWN && (double)f > exact) f = nextafterf(f, -INFINITY);
    if (i->rounding == R_UP && (double)f < exact) f = nextafterf(f, INFINITY);
    if (i->rounding == R_ZERO && fabs((double)f) > fabs(exact)) f = nextafterf(f, 0);
    return f;
}

static bool float_compare(int variant, double a, double b) {
    bool nan = isnan(a) || isnan(b);
    switch (variant) {
    case V_EQ: return a == b;
    case V_NE: return !nan && a != b;
    case V_LT: return a < b;
    case V_LE: return a <= b;
    case V_GT: return a > b;
    case V_GE: return a >= b;
    case V_NUM: return !nan;
    case V_EQU: return nan || a == b;
    case V_NEU: return nan || a != b;
    case V_LTU: return nan || a < b;
    case V_LEU: return nan || a <= b;
    case V_GTU: return nan || a > b;
    case V_GEU: return nan || a >= b;
    default: return nan;
    }
}
static bool compare(const struct ptx_ins *i, uint64_t a, uint64_t b) {
    int bits = bits_of(i->type);
    if (i->type == T_F32) return float_compare(i->variant, as_float(a), as_float(b));
    if (i->type == T_F64) return float_compare(i->variant, as_double(a), as_double(b));
    int64_t x = extend(a, bits), y = extend(b, bits);
    uint64_t ux = cut(a, bits), uy = cut(b, bits);
    bool less = is_signed(i->type) ? x < y : ux < uy;
    switch (i->variant) {
    case V_EQ: return ux == uy;
    case V_NE: return ux != uy;
    case V_LT: return less;
    case V_LE: return less || ux == uy;
    case V_GT: return !less && ux != uy;
    default: return !less;
    }
}

/* ---- conversions */
static int64_t to_integer(const struct ptx_ins *i, double v) {
    static const double limits[] = {
        [8] = 128.0, [16] = 32768.0, [32] = 2147483648.0, [64] = 9223372036854775808.0
    };
    int bits = bits_of(i->type);
    double limit = is_signed(i->type) ? limits[bits] : 2 * limits[bits];
    v = i->rounding == R_ZERO   ? trunc(v)
        : i->rounding == R_DOWN ? floor(v)
        : i->rounding == R_UP   ? ceil(v)
                                : rint(v);
    if (isnan(v)) return 0;
    if (v >= limit)
        return is_signed(i->type) ? extend((1ull << (bits - 1)) - 1, 64) : (int64_t)cut(~0ull, bits);
    if (!is_signed(i->type)) return v <= 0 ? 0 : (int64_t)(uint64_t)v;
    return v < -limit ? (int64_t)(-limit) : (int64_t)v;
}
static double from_number(const struct ptx_ins *i, uint64_t v) {
    int bits = bits_of(i->from);
    switch (i->from) {
    case T_F16: return ptx_half((uint16_t)v);
    case T_BF16: return ptx_bf16((uint16_t)v);
    case T_F32: return as_float(v);
    case T_F64: return as_double(v);
    default: return is_signed(i->from) ? (double)extend(v, bits) : (double)cut(v, bits);
    }
}
static float integer_to_float(const struct ptx_ins *i, uint64_t v) {
    int bits = bits_of(i->from);
    return is_signed(i->from) ? (float)extend(v, bits) : (float)cut(v, bits);
}
/* b: the second source of conversions to pairs. */
static uint64_t convert(const struct ptx_ins *i, uint64_t a, uint64_t b) {
    bool from_float = is_float(i->from) || i->from == T_F16 || i->from == T_BF16;
    double v;
    switch (i->type) {
    case T_BF16X2: return (uint32_t)ptx_to_bf16(as_float(a)) << 16 | ptx_to_bf16(as_float(b));
    case T_F16X2:
        if (i->from == T_E4M3X2)
            return (uint32_t)ptx_to_half(e4m3((uint8_t)(a >> 8))) << 16 | ptx_to_half(e4m3((uint8_t)a));
        return (uint32_t)ptx_to_half(as_float(a)) << 16 | ptx_to_half(as_float(b));
    case T_F16: return ptx_to_half((float)from_number(i, a));
    case T_BF16: return ptx_to_bf16((float)from_number(i, a));
    case T_F32:
        if (!from_float) return float_bits(integer_to_float(i, a));
        v = from_number(i, a);
        if (i->saturate) v = v > 0 ? v < 1 ? v : 1 : 0; /* NaN: 0 */
        return float_bits(flushed(i, rounded(i, v)));
    case T_F64: return double_bits(from_number(i, a));
    default: break;
    }
    if (from_float) return (uint64_t)to_integer(i, from_number(i, a));
    return is_signed(i->from) ? (uint64_t)extend(a, bits_of(i->from)) : cut(a, bits_of(i->from));
}

/* ---- one lane */
static uint64_t float_result(const struct ptx_ins *i, float a, float b, float c) {
    switch (i->op) {
    case OP_add: return float_bits(flushed(i, rounded(i, (double)a + b)));
    case OP_sub: return float_bits(flushed(i, rounded(i, (double)a - b)));
    case OP_mul: return float_bits(flushed(i, rounded(i, (double)a * b)));
    case OP_div: return float_bits(flushed(i, a / b));
    case OP_fma:
    case OP_mad:
        if (i->rounding == R_NEAREST) return float_bits(flushed(i, fmaf(a, b, c)));
        return float_bits(flushed(i, rounded(i, (double)a * b + c)));
    case OP_min: return float_bits(fminf(a, b));
    case OP_max: return float_bits(fmaxf(a, b));
    case OP_abs: return float_bits(fabsf(a));
    case OP_neg: return float_bits(-a);
    case OP_copysign: return float_bits(copysignf(b, a)); /* the sign of a */
    case OP_ex2: return float_bits(flushed(i, exp2f(flushed(i, a))));
    case OP_lg2: return float_bits(log2f(flushed(i, a)));
    case OP_rcp: return float_bits(flushed(i, 1 / flushed(i, a)));
    case OP_sqrt: return float_bits(flushed(i, sqrtf(flushed(i, a))));
    case OP_rsqrt: return float_bits(1 / sqrtf(flushed(i, a)));
    default: return 0;
    }
}
static uint64_t double_result(const struct ptx_ins *i, double a, double b, double c) {
    switch (i->op) {
    case OP_add: return double_bits(a + b);
    case OP_sub: return double_bits(a - b);
    case OP_mul: return double_bits(a * b);
    case OP_div: return double_bits(a / b);
    case OP_fma:
    case OP_mad: return double_bits(fma(a, b, c));
    case OP_min: return double_bits(fmin(a, b));
    case OP_max: return double_bits(fmax(a, b));
    case OP_abs: return double_bits(fabs(a));
    case OP_neg: return double_bits(-a);
    default: return 0;
    }
}

/* Two halves. The float result of two halves is exact for sums and products, and so rounded once. */
static uint64_t pair_result(const struct ptx_ins *i, uint64_t a, uint64_t b) {
    uint64_t r = 0;
    for (int n = 0; n < 2; n++) {
        float x = ptx_half((uint16_t)(a >> 16 * n)), y = ptx_half((uint16_t)(b >> 16 * n));
        r |= (uint64_t)ptx_to_half(i->op == OP_mul ? x * y : i->op == OP_add ? x + y : x - y) << 16 * n;
    }
    return r;
}

static uint64_t high_product(const struct ptx_ins *i, uint64_t a, uint64_t b) {
    int bits = bits_of(i->type);
    __extension__ typedef __int128 wide;
    __extension__ typedef unsigned __int128 uwide;
    if (is_signed(i->type)) return (uint64_t)((wide)extend(a, bits) * extend(b, bits) >> bits);
    return (uint64_t)((uwide)cut(a, bits) * cut(b, bits) >> bits);
}
static uint64_t divide(const struct ptx_ins *i, uint64_t a, uint64_t b) {
    int bits = bits_of(i->type);
    bool rest = i->op == OP_rem;
    if (!cut(b, bits)) return ~0ull;
    if (!is_signed(i->type)) return rest ? cut(a, bits) % cut(b, bits) : cut(a, bits) / cut(b, bits);
    int64_t x = extend(a, bits), y = extend(b, bits);
    if (y == -1) return rest ? 0 : -(uint64_t)x;
    return (uint64_t)(rest ? x % y : x / y);
}
static uint64_t shift(const struct ptx_ins *i, uint64_t a, uint64_t by) {
    int bits = bits_of(i->type), n = (uint32_t)by > (uint32_t)bits ? bits : (int)(uint32_t)by;
    if (i->op == OP_shl) return n >= bits ? 0 : a << n;
    if (is_signed(i->type)) return (uint64_t)(extend(a, bits) >> (n >= bits ? bits - 1 : n));
    return n >= bits ? 0 : cut(a, bits) >> n;
}
static uint64_t prmt(uint32_t a, uint32_t b, uint32_t how) {
    uint64_t bytes = (uint64_t)b << 32 | a, r = 0;
    for (int n = 0; n < 4; n++) {
        uint32_t s = how >> 4 * n & 15, v = bytes >> 8 * (s & 7) & 0xff;
        if (s & 8) v = v & 0x80 ? 0xff : 0;
        r |= (uint64_t)v << 8 * n;
    }
    return r;
}
static uint64_t field(const struct ptx_ins *i, const uint64_t v[4]) {
    int bits = bits_of(i->type);
    if (i->op == OP_bfi) { /* bits of v[0] into v[1] at v[2], v[3] of them */
        int at = (int)(v[2] & 255), n = (int)(v[3] & 255);
        if (at >= bits || !n) return v[1];
        uint64_t mask = cut(n >= 64 ? ~0ull : (1ull << n) - 1, bits) << at;
        return cut((v[1] & ~mask) | (v[0] << at & mask), bits);
    }
    int at = (int)(v[1] & 255), n = (int)(v[2] & 255);
    uint64_t x = at >= bits ? 0 : cut(v[0], bits) >> at;
    if (n == 0) return 0;
    return is_signed(i->type) ? (uint64_t)extend(x, n >= bits ? bits : n) : cut(x, n >= bits ? bits : n);
}
static uint32_t reversed(uint32_t v) {
    uint32_t r = 0;
    for (int n = 0; n < 32; n++) r |= (v >> n & 1) << (31 - n);
    return r;
}

static uint64_t integer_result(const struct ptx_ins *i, const uint64_t v[4]) {
    int bits = bits_of(i->type);
    uint64_t a = v[0], b = v[1], c = v[2];
    int64_t sa = extend(a, bits), sb = extend(b, bits);
    switch (i->op) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul:
    case OP_mad: {
        uint64_t p = i->variant == V_HI   ? high_product(i, a, b)
                     : is_signed(i->type) ? (uint64_t)(sa * sb)
                                          : cut(a, bits) * cut(b, bits);
        return i->op == OP_mad ? p + c : p;
    }
    case OP_div:
    case OP_rem: return divide(i, a, b);
    case OP_min: return is_signed(i->type) ? (sa < sb ? a : b) : (cut(a, bits) < cut(b, bits) ? a : b);
    case OP_max: return is_signed(i->type) ? (sa > sb ? a : b) : (cut(a, bits) > cut(b, bits) ? a : b);
    case OP_abs: return (uint64_t)(sa < 0 ? -sa : sa);
    case OP_neg: return -a;
    case OP_and: return a & b;
    case OP_or: return a | b;
    case OP_xor: return a ^ b;
    case OP_not: return ~a;
    case OP_shl:
    case OP_shr: return shift(i, a, b);
    case OP_popc: return (uint64_t)__builtin_popcountll(cut(a, bits));
    case OP_clz:
        return cut(a, bits) ? (uint64_t)(__builtin_clzll(cut(a, bits)) - (64 - bits)) : (uint64_t)bits;
    case OP_brev: return reversed((uint32_t)a);
    case OP_bfind:
        return cut(a, bits) ? (uint64_t)(__builtin_clzll(cut(a, bits)) - (64 - bits))
                            : 0xffffffffu; /* .shiftamt */
    case OP_bfi:
    case OP_bfe: return field(i, v);
    case OP_prmt: return prmt((uint32_t)a, (uint32_t)b, (uint32_t)c);
    default: return 0;
    }
}

static void each_lane(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    int bits = i->op == OP_popc || i->op == OP_clz || i->op == OP_bfind
                   ? 32
                   : bits_of(i->type) << (i->variant == V_WIDE);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint64_t v[4] = { 0 }, r;
        for (int n = 1; n < i->noperands && n <= 4; n++) v[n - 1] = ptx_get(w, &o[n], l);
        if (i->op == OP_setp)
            r = compare(i, v[0], v[1]);
        else if (i->op == OP_selp)
            r = v[2] ? v[0] : v[1];
        else if (i->op == OP_cvt)
            r = convert(i, v[0], v[1]);
        else if (i->type == T_F32)
            r = float_result(i, as_float(v[0]), as_float(v[1]), as_float(v[2]));
        else if (i->type == T_F64)
            r = double_result(i, as_double(v[0]), as_double(v[1]), as_double(v[2]));
        else if (i->type == T_F16X2)
            r = pair_result(i, v[0], v[1]);
        else
            r = integer_result(i, v);
        ptx_put(w, &o[0], l, i->op == OP_setp ? r : cut(r, bits));
    }
}

/* ---- moves. Parts of a register: {a, b} is a pair, the first one in the lower bits. */
static void move(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    int parts = i->noperands - 1, bits = bits_of(i->type) / parts;
    if (parts == 1) {
        EACH_LANE(mask, ptx_put(w, &o[0], l, ptx_get(w, &o[1], l)));
        return;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint64_t v = i->unpacks ? ptx_get(w, &o[parts], l) : 0;
        for (int k = 0; k < parts; k++)
            if (i->unpacks)
                ptx_put(w, &o[k], l, cut(v >> bits * k, bits));
            else
                v |= cut(ptx_get(w, &o[1 + k], l), bits) << bits * k;
        if (!i->unpacks) ptx_put(w, &o[0], l, v);
    }
}

/* ---- lanes */
static void shuffle(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    bool has_pred = i->noperands == 6;
    const struct ptx_operand *from = &o[1 + has_pred];
    uint32_t old[LANES], result[LANES], valid = 0;
    for (int l = 0; l < LANES; l++) old[l] = (uint32_t)ptx_get(w, from, l);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest), at = l;
        uint32_t b = (uint32_t)ptx_get(w, from + 1, l), c = (uint32_t)ptx_get(w, from + 2, l);
        int clamp = c & 31, segment = c >> 8 & 31, last = (l & segment) | (clamp & ~segment);
        switch (i->variant) {
        case V_BFLY: at = l ^ (int)b; break;
        case V_IDX: at = (l & segment) | (int)(b & ~(uint32_t)segment & 31); break;
        case V_UP: at = l - (int)(b & 31); break;
        default: at = l + (int)(b & 31); break;
        }
        bool in = i->variant == V_UP ? at >= last : at <= last;
        if (!in) at = l;
        valid |= (uint32_t)in << l;
        if (!(w->group >> at & 1)) ptx_fail(w, "lane %d reads from lane %d, which does not take part", l, at);
        result[l] = old[at];
    }
    EACH_LANE(mask, ptx_put(w, &o[0], l, result[l]));
    if (has_pred) EACH_LANE(mask, ptx_put(w, &o[1], l, valid >> l & 1));
}

static void vote(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    uint32_t yes = 0;
    EACH_LANE(mask, yes |= (uint32_t)(ptx_get(w, &o[1], l) & 1) << l);
    uint32_t r = i->variant == V_BALLOT ? yes : i->variant == V_ANY ? yes != 0 : yes == mask;
    EACH_LANE(mask, ptx_put(w, &o[0], l, r));
}

static void reduce(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    bool first = true;
    uint32_t r = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        uint32_t v = (uint32_t)ptx_get(w, &o[1], __builtin_ctz(rest));
        bool less = i->type == T_S32 ? (int32_t)v < (int32_t)r : v < r;
        r = first                           ? v
            : i->variant == V_ADD           ? r + v
            : i->variant == V_AND           ? r & v
            : i->variant == V_OR            ? r | v
            : (i->variant == V_MIN) == less ? v
                                            : r;
        first = false;
    }
    EACH_LANE(mask, ptx_put(w, &o[0], l, r));
}

/* ---- frequent instructions, whose operands are whole rows */
#define UNARY(name, to, from, expression)                                          \
    static void name(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) { \
        const struct ptx_operand *o = ptx_operands(w, i);                          \
        to *d = ptx_row(w, &o[0]);                                                 \
        const from *a = ptx_row(w, &o[1]);                                         \
        EACH_LANE(mask, d[l] = (to)(expression));                                  \
    }
#define BINARY(name, to, from, second, expression)                                 \
    static void name(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) { \
        const struct ptx_operand *o = ptx_operands(w, i);                          \
        to *d = ptx_row(w, &o[0]);                                                 \
        const from *a = ptx_row(w, &o[1]);                                         \
        const second *b = ptx_row(w, &o[2]);                                       \
        EACH_LANE(mask, d[l] = (to)(expression));                                  \
    }
#define TERNARY(name, type, expression)                                                    \
    static void name(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {         \
        const struct ptx_operand *o = ptx_operands(w, i);                                  \
        type *d = ptx_row(w, &o[0]);                                                       \
        const type *a = ptx_row(w, &o[1]), *b = ptx_row(w, &o[2]), *c = ptx_row(w, &o[3]); \
        EACH_LANE(mask, d[l] = expression);                                                \
    }
#define COMPARE(name, type)                                                        \
    static void name(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) { \
        const struct ptx_operand *o = ptx_operands(w, i);                          \
        uint32_t *d = ptx_row(w, &o[0]), r = 0;                                    \
        const type *a = ptx_row(w, &o[1]), *b = ptx_row(w, &o[2]);                 \
        switch (i->variant) {                                                      \
        case V_EQ: EACH_LANE(mask, r |= (uint32_t)(a[l] == b[l]) << l); break;     \
        case V_NE: EACH_LANE(mask, r |= (uint32_t)(a[l] != b[l]) << l); break;     \
        case V_LT: EACH_LANE(mask, r |= (uint32_t)(a[l] < b[l]) << l); break;      \
        case V_LE: EACH_LANE(mask, r |= (uint32_t)(a[l] <= b[l]) << l); break;     \
        case V_GT: EACH_LANE(mask, r |= (uint32_t)(a[l] > b[l]) << l); break;      \
        default: EACH_LANE(mask, r |= (uint32_t)(a[l] >= b[l]) << l); break;       \
        }                                                                          \
        *d = (*d & ~mask) | (r & mask);                                            \
    }
UNARY(move_32, uint32_t, uint32_t, a[l])
UNARY(move_64, uint64_t, uint64_t, a[l])
UNARY(u32_of_u16, uint32_t, uint32_t, a[l] & 0xffff)
UNARY(s64_of_s32, int64_t, int32_t, a[l])
UNARY(u64_of_u32, uint64_t, uint32_t, a[l])
UNARY(u32_of_u64, uint32_t, uint64_t, a[l])
BINARY(add_float, float, float, float, a[l] + b[l])
BINARY(sub_float, float, float, float, a[l] - b[l])
BINARY(mul_float, float, float, float, a[l] * b[l])
BINARY(add_32, uint32_t, uint32_t, uint32_t, a[l] + b[l])
BINARY(add_64, uint64_t, uint64_t, uint64_t, a[l] + b[l])
BINARY(sub_32, uint32_t, uint32_t, uint32_t, a[l] - b[l])
BINARY(mul_32, uint32_t, uint32_t, uint32_t, a[l] * b[l])
BINARY(mul_64, uint64_t, uint64_t, uint64_t, a[l] * b[l])
BINARY(mul_wide, int64_t, int32_t, int32_t, (int64_t)a[l] * b[l])
BINARY(and_32, uint32_t, uint32_t, uint32_t, a[l] & b[l])
BINARY(or_32, uint32_t, uint32_t, uint32_t, a[l] | b[l])
BINARY(xor_32, uint32_t, uint32_t, uint32_t, a[l] ^ b[l])
BINARY(shl_32, uint32_t, uint32_t, uint32_t, b[l] > 31 ? 0 : a[l] << b[l])
BINARY(shl_64, uint64_t, uint64_t, uint32_t, b[l] > 63 ? 0 : a[l] << b[l])
BINARY(shr_32, uint32_t, uint32_t, uint32_t, b[l] > 31 ? 0 : a[l] >> b[l])
TERNARY(fma_float, float, fmaf(a[l], b[l], c[l]))
TERNARY(mad_32, uint32_t, a[l] * b[l] + c[l])
COMPARE(compare_s32, int32_t)
COMPARE(compare_u32, uint32_t)
COMPARE(compare_s64, int64_t)

/* "w": a row of 64 bits, "r": of 32, "p": a predicate; all registers or values without an offset. */
static bool has_rows(const struct ptx_operand *o, size_t n, const char *rows) {
    if (n != strlen(rows)) return false;
    for (size_t k = 0; k < n; k++)
        if ((o[k].kind != O_REG && o[k].kind != O_VALUE) || o[k].plus || o[k].wide != (rows[k] == 'w') ||
            o[k].pred != (rows[k] == 'p'))
            return false;
    return true;
}

static const struct {
    uint8_t op, variant, type, from;
    const char *rows;
    ptx_do *run;
} rows[] = {
    { OP_mov, V_NONE, T_B32, 0, "rr", move_32 },        { OP_mov, V_NONE, T_U32, 0, "rr", move_32 },
    { OP_mov, V_NONE, T_F32, 0, "rr", move_32 },        { OP_mov, V_NONE, T_B64, 0, "ww", move_64 },
    { OP_mov, V_NONE, T_U64, 0, "ww", move_64 },        { OP_cvt, V_NONE, T_U32, T_U16, "rr", u32_of_u16 },
    { OP_cvt, V_NONE, T_S64, T_S32, "wr", s64_of_s32 }, { OP_cvt, V_NONE, T_U64, T_U32, "wr", u64_of_u32 },
    { OP_cvt, V_NONE, T_U32, T_U64, "rw", u32_of_u64 }, { OP_add, V_NONE, T_F32, 0, "rrr", add_float },
    { OP_sub, V_NONE, T_F32, 0, "rrr", sub_float },     { OP_mul, V_NONE, T_F32, 0, "rrr", mul_float },
    { OP_add, V_NONE, T_S32, 0, "rrr", add_32 },        { OP_add, V_NONE, T_U32, 0, "rrr", add_32 },
    { OP_add, V_NONE, T_S64, 0, "www", add_64 },        { OP_add, V_NONE, T_U64, 0, "www", add_64 },
    { OP_sub, V_NONE, T_S32, 0, "rrr", sub_32 },        { OP_mul, V_LO, T_S32, 0, "rrr", mul_32 },
    { OP_mul, V_LO, T_S64, 0, "www", mul_64 },          { OP_mul, V_WIDE, T_S32, 0, "wrr", mul_wide },
    { OP_and, V_NONE, T_B32, 0, "rrr", and_32 },        { OP_or, V_NONE, T_B32, 0, "rrr", or_32 },
    { OP_xor, V_NONE, T_B32, 0, "rrr", xor_32 },        { OP_shl, V_NONE, T_B32, 0, "rrr", shl_32 },
    { OP_shl, V_NONE, T_B64, 0, "wwr", shl_64 },        { OP_shr, V_NONE, T_U32, 0, "rrr", shr_32 },
    { OP_fma, V_NONE, T_F32, 0, "rrrr", fma_float },    { OP_mad, V_LO, T_S32, 0, "rrrr", mad_32 },
};

static ptx_do *frequent(const struct ptx_ins *i, const struct ptx_operand *o) {
    if (i->ftz || i->rounding != R_NEAREST || i->saturate) return NULL;
    if (i->op == OP_setp && i->variant >= V_EQ && i->variant <= V_GE) {
        if (i->type == T_S32 && has_rows(o, i->noperands, "prr")) return compare_s32;
        if ((i->type == T_U32 || i->type == T_B32) && has_rows(o, i->noperands, "prr")) return compare_u32;
        if (i->type == T_S64 && has_rows(o, i->noperands, "pww")) return compare_s64;
    }
    for (size_t n = 0; n < COUNTOF(rows); n++)
        if (rows[n].op == i->op && rows[n].variant == i->variant && rows[n].type == i->type &&
            rows[n].from == i->from && has_rows(o, i->noperands, rows[n].rows))
            return rows[n].run;
    return NULL;
}

/* Instructions by type: "i" integers and bits, "f" float and double, "h" pairs of halves, "p" predicates. */
static const struct {
    uint8_t op, least, most; /* operands */
    const char *types;
} lanes[] = {
    { OP_abs, 2, 2, "if" },     { OP_add, 3, 3, "ifh" },  { OP_and, 3, 3, "ip" },    { OP_bfe, 4, 4, "i" },
    { OP_bfi, 5, 5, "i" },      { OP_bfind, 2, 2, "i" },  { OP_brev, 2, 2, "i" },    { OP_clz, 2, 2, "i" },
    { OP_copysign, 3, 3, "f" }, { OP_cvt, 2, 3, "ifhc" }, { OP_div, 3, 3, "if" },    { OP_ex2, 2, 2, "f" },
    { OP_fma, 4, 4, "f" },      { OP_lg2, 2, 2, "f" },    { OP_mad, 4, 4, "if" },    { OP_max, 3, 3, "if" },
    { OP_min, 3, 3, "if" },     { OP_mul, 3, 3, "ifh" },  { OP_neg, 2, 2, "if" },    { OP_not, 2, 2, "ip" },
    { OP_or, 3, 3, "ip" },      { OP_popc, 2, 2, "i" },   { OP_prmt, 4, 4, "i" },    { OP_rcp, 2, 2, "f" },
    { OP_rem, 3, 3, "i" },      { OP_rsqrt, 2, 2, "f" },  { OP_selp, 4, 4, "ifhp" }, { OP_setp, 3, 3, "if" },
    { OP_shl, 3, 3, "i" },      { OP_shr, 3, 3, "i" },    { OP_sqrt, 2, 2, "f" },    { OP_sub, 3, 3, "ifh" },
    { OP_xor, 3, 3, "ip" },
};

static bool has_lanes(const struct ptx_ins *i) {
    char type = i->type == T_PRED    ? 'p'
                : is_float(i->type)  ? 'f'
                : i->type == T_F16X2 ? 'h'
                : i->type <= T_S64   ? 'i'
                                     : 'c';
    for (size_t n = 0; n < COUNTOF(lanes); n++)
        if (lanes[n].op == i->op && i->noperands >= lanes[n].least && i->noperands <= lanes[n].most)
            return strchr(lanes[n].types, type);
    return false;
}

ptx_do *ptx_alu_of(const struct ptx_kernel *k, const struct ptx_ins *i) {
    switch (i->op) {
    case OP_shfl: return shuffle;
    case OP_vote: return vote;
    case OP_redux: return reduce;
    default: break;
    }
    ptx_do *run = frequent(i, &k->operands.v[i->operands]);
    return run ? run : i->op == OP_mov ? move : has_lanes(i) ? each_lane : NULL;
}

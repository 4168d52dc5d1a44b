/* Names of PTX: types, instructions and their modifiers. */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "ptx/ptx.h"

static const struct {
    const char *name;
    int bytes;
} types[] = { [T_NONE] = { "", 0 },
#define X(type, name, bytes) { #name, bytes },
              PTX_TYPES(X)
#undef X
};
int ptx_type_bytes(enum ptx_type t) { return types[t].bytes; }
enum ptx_type ptx_type_named(const char *name) {
    for (size_t i = 1; i < COUNTOF(types); i++)
        if (strcmp(name, types[i].name) == 0) return (enum ptx_type)i;
    return T_NONE;
}

static const char *const ops[] = {
#define X(name) #name,
    PTX_OPS(X)
#undef X
};
static const char *const variants[] = { [V_NONE] = "",
#define X(variant, name) #name,
                                        PTX_VARIANTS(X)
#undef X
};
static const struct {
    const char *name;
    enum ptx_space space;
} spaces[] = {
    { "global", SPACE_GLOBAL },      { "shared", SPACE_SHARED },
    { "shared::cta", SPACE_SHARED }, { "shared::cluster", SPACE_CLUSTER },
    { "const", SPACE_CONST },        { "param", SPACE_PARAM },
    { "local", SPACE_LOCAL },
};
/* They do not change what an instruction computes here. Words between spaces. */
static const char ignored[] =
    " uni sync aligned approx nc cg cs ca lu L1::no_allocate gpu sys cta cluster relaxed "
    "release row col async parity "
    "m8n8 mbarrier::complete_tx::bytes 2d 4d L2 shiftamt fence ";

static bool is_ignored(const char *m) {
    char word[64];
    return snprintf(word, sizeof word, " %s ", m) < (int)sizeof word && strstr(ignored, word);
}

static bool is_rounding(struct ptx_ins *i, const char *m) {
    static const char names[][3] = { [R_NEAREST] = "rn", [R_ZERO] = "rz", [R_DOWN] = "rm", [R_UP] = "rp" };
    for (size_t r = 0; r < COUNTOF(names); r++)
        if (strncmp(m, names[r], 2) == 0 && (!m[2] || (m[2] == 'i' && !m[3]))) {
            i->rounding = (uint8_t)r;
            return true;
        }
    return false;
}
static bool is_flag(struct ptx_ins *i, const char *m) {
    if (strcmp(m, "ftz") == 0) return i->ftz = true;
    if (strcmp(m, "sat") == 0) return i->saturate = true;
    if (strcmp(m, "volatile") == 0 || strcmp(m, "acquire") == 0) return i->volatile_ = true;
    if (strcmp(m, "trans") == 0) return i->transposed = true;
    return false;
}
/* "v4", "x4", "m16n8k16", "m64n80k16" */
static bool is_size(struct ptx_ins *i, const char *m) {
    unsigned rows, columns, depth;
    if (sscanf(m, "m%un%uk%u", &rows, &columns, &depth) == 3 && depth == 16) {
        i->size = (uint16_t)columns;
        return true;
    }
    if ((m[0] != 'v' && m[0] != 'x') || !m[1] || !strchr("124", m[1]) || m[2]) return false;
    i->vector = (uint8_t)(m[1] - '0');
    return true;
}
static bool is_variant(struct ptx_ins *i, const char *m) {
    for (size_t n = 1; n < COUNTOF(variants); n++)
        if (strcmp(m, variants[n]) == 0) {
            i->variant = (uint8_t)n;
            return true;
        }
    return false;
}
static bool is_space(struct ptx_ins *i, const char *m) {
    for (size_t n = 0; n < COUNTOF(spaces); n++)
        if (strcmp(m, spaces[n].name) == 0) {
            if (!i->space || i->op != OP_cp) i->space = (uint8_t)spaces[n].space; /* cp: the destination */
            return true;
        }
    return false;
}

static bool modifier(struct ptx_ins *i, const char *m) {
    enum ptx_type t = ptx_type_named(m);
    if (t && !i->type)
        i->type = (uint8_t)t;
    else if (t && !i->from)
        i->from = (uint8_t)t;
    if (t) return true;
    if (i->op == OP_fence || i->op == OP_membar || i->op == OP_griddepcontrol || i->op == OP_setmaxnreg)
        return true; /* launches run one after the other, and memory is coherent */
    return is_variant(i, m) || is_space(i, m) || is_rounding(i, m) || is_flag(i, m) || is_size(i, m) ||
           is_ignored(m) || strncmp(m, "L2::", 4) == 0;
}

const char *ptx_mnemonic(char *text, struct ptx_ins *i) {
    char *rest = text, *m = strsep(&rest, ".");
    *i = (struct ptx_ins){ .op = OP_COUNT, .vector = 1, .guard_sense = -1 };
    for (size_t n = 0; n < COUNTOF(ops); n++)
        if (strcmp(m, ops[n]) == 0) i->op = (uint8_t)n;
    if (i->op == OP_COUNT) return m;
    while ((m = strsep(&rest, ".")))
        if (!modifier(i, m)) return m;
    return NULL;
}

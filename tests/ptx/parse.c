/* PTX as text to instructions. Only what nvcc writes for the engine's kernels: an instruction, a modifier or
 * a directive that is not known here ends the program with the line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "ptx/ptx.h"

enum { NAME_BYTES = 128 };

/* ---- names */
struct declared { /* a register, a family of registers ("%r<357>"), or a variable */
    char name[NAME_BYTES];
    bool family, variable;
    enum ptx_type type;
    uint32_t n, *at;            /* of registers: their rows; 0: not used yet */
    struct ptx_operand address; /* of a variable */
};
struct label {
    char name[NAME_BYTES];
    uint32_t at;
};
/* Names between two braces. */
struct scope {
    struct scope *parent;
    struct {
        struct declared *v;
        size_t n, cap;
    } declared;
    struct {
        struct label *v;
        size_t n, cap;
    } labels, branches; /* branches: instructions whose label is not known yet */
};
struct parser {
    struct ptx_kernel *k;
    const char *p;
    uint32_t line;
    struct scope *scope, *kernel_scope; /* innermost, outermost */
    int calls;                          /* depth of functions that are copied into the kernel */
};

static void fail(const struct parser *s, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
static void fail(const struct parser *s, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    die("%s:%u: %s: %s", s->k->module->path, s->line, s->k->name, text);
}

/* ---- characters */
static void skip(struct parser *s) {
    for (;; s->p++) {
        if (s->p[0] == '/' && s->p[1] == '/') s->p += strcspn(s->p, "\n");
        if (*s->p == '\n') s->line++;
        if (!*s->p || !strchr(" \t\r\n", *s->p)) return;
    }
}
static bool accept(struct parser *s, char c) {
    skip(s);
    if (*s->p != c) return false;
    s->p++;
    return true;
}
static void expect(struct parser *s, char c) {
    if (!accept(s, c)) fail(s, "'%c' expected at \"%.40s\"", c, s->p);
}
/* A name with the characters of mnemonics too: dots and colons. */
static void word(struct parser *s, char name[NAME_BYTES]) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$%:";
    skip(s);
    size_t n = strspn(s->p, letters);
    while (n && s->p[n - 1] == ':') n--; /* of a label */
    if (!n || n >= NAME_BYTES) fail(s, "a name expected at \"%.40s\"", s->p);
    memcpy(name, s->p, n);
    name[n] = '\0';
    s->p += n;
}
static void skip_to(struct parser *s, char c) {
    while (*s->p && *s->p != c) {
        if (*s->p == '\n') s->line++;
        s->p++;
    }
    if (*s->p) s->p++;
}

static void skip_line(struct parser *s) {
    skip_to(s, '\n');
    s->line++;
}

/* ---- declarations */
static bool is_wide(enum ptx_type t) { return ptx_type_bytes(t) == 8; }

static uint32_t new_row(struct ptx_kernel *k, enum ptx_type t) {
    uint32_t at = k->reg_bytes;
    k->reg_bytes += t == T_PRED ? 32 : is_wide(t) ? 8 * LANES : 4 * LANES;
    return at;
}

static struct declared *declare(struct parser *s, const char *name) {
    struct declared d = { .n = 1 };
    snprintf(d.name, sizeof d.name, "%s", name);
    vec_push(&s->scope->declared, d);
    return &s->scope->declared.v[s->scope->declared.n - 1];
}

/* Returns the declaration of a name and its number in a family; NULL: there is none. */
static struct declared *find_declared(const struct scope *scope, const char *name, uint32_t *number) {
    for (; scope; scope = scope->parent)
        for (size_t i = scope->declared.n; i-- > 0;) {
            struct declared *d = &scope->declared.v[i];
            size_t n = strlen(d->name);
            *number = 0;
            if (!d->family && strcmp(name, d->name) == 0) return d;
            if (!d->family || strncmp(name, d->name, n) != 0 || !name[n] ||
                name[n + strspn(name + n, "0123456789")])
                continue;
            *number = (uint32_t)atoi(name + n);
            if (*number < d->n) return d;
        }
    return NULL;
}

/* ".reg .b32 %r<357>, %tmp;" after ".reg"; ".param .b64 param0;" inside of a body is the same. */
static void declare_registers(struct parser *s) {
    char name[NAME_BYTES];
    word(s, name);
    enum ptx_type t = ptx_type_named(name + 1);
    if (!t) fail(s, "unknown type %s", name);
    do {
        word(s, name);
        struct declared *d = declare(s, name);
        d->type = t;
        if (accept(s, '<')) {
            d->family = true;
            skip(s);
            d->n = (uint32_t)strtoul(s->p, (char **)&s->p, 10);
            expect(s, '>');
        }
        d->at = xcalloc(d->n, sizeof *d->at);
    } while (accept(s, ','));
    expect(s, ';');
}

/* "[.align N] .b8 name[BYTES]" after the space. Returns the name's size; *align is 0 without one. */
static void variable_of(struct parser *s, char name[NAME_BYTES], size_t *bytes, size_t *align, bool *open) {
    enum ptx_type t = T_NONE;
    *align = 1;
    for (word(s, name); name[0] == '.'; word(s, name)) {
        if (strcmp(name, ".align") == 0) {
            skip(s);
            *align = strtoul(s->p, (char **)&s->p, 10);
        } else if (!(t = ptx_type_named(name + 1)))
            fail(s, "unknown type %s", name);
    }
    *bytes = (size_t)ptx_type_bytes(t);
    *align = MAX(*align, *bytes);
    *open = false;
    if (!accept(s, '[')) return;
    skip(s);
    *open = *s->p == ']';
    if (!*open) *bytes *= strtoul(s->p, (char **)&s->p, 10);
    expect(s, ']');
}

static uint32_t place(uint32_t *end, size_t bytes, size_t align) {
    uint32_t at = (*end + (uint32_t)align - 1) / (uint32_t)align * (uint32_t)align;
    *end = at + (uint32_t)bytes;
    return at;
}

static struct ptx_operand value_of(uint64_t v, bool wide) {
    struct ptx_operand o = { .kind = O_VALUE, .wide = wide, .row = xmalloc(LANES * 8) };
    for (int l = 0; l < LANES; l++)
        if (wide)
            ((uint64_t *)o.row)[l] = v;
        else
            ((uint32_t *)o.row)[l] = (uint32_t)v;
    return o;
}

static void declare_variable(struct parser *s, enum ptx_space space) {
    char name[NAME_BYTES];
    size_t bytes, align;
    bool open;
    variable_of(s, name, &bytes, &align, &open);
    struct ptx_operand address = { 0 };
    if (space == SPACE_SHARED)
        address = value_of(place(&s->k->shared_bytes, bytes, align), true);
    else
        address = (struct ptx_operand){ .kind = O_LOCAL,
                                        .wide = true,
                                        .at = place(&s->k->local_bytes, bytes, align) };
    struct declared *d = declare(s, name);
    d->variable = true;
    d->address = address;
    expect(s, ';');
}

/* ---- operands */
/* The row of a register. "%tid.x" and the like are rows at the start. */
static bool special(const char *name, struct ptx_operand *o) {
    static const struct {
        const char *name;
        enum ptx_special row;
    } rows[] = {
        { "%tid.x", S_TID_X },       { "%tid.y", S_TID_Y },       { "%tid.z", S_TID_Z },
        { "%ntid.x", S_NTID_X },     { "%ntid.y", S_NTID_Y },     { "%ntid.z", S_NTID_Z },
        { "%ctaid.x", S_CTAID_X },   { "%ctaid.y", S_CTAID_Y },   { "%ctaid.z", S_CTAID_Z },
        { "%nctaid.x", S_NCTAID_X }, { "%nctaid.y", S_NCTAID_Y }, { "%nctaid.z", S_NCTAID_Z },
        { "%laneid", S_LANE },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strcmp(name, rows[i].name) == 0) {
            *o = (struct ptx_operand){ .kind = O_REG, .at = rows[i].row * 4 * LANES };
            return true;
        }
    if (strcmp(name, "%globaltimer") != 0) return false;
    *o = (struct ptx_operand){ .kind = O_TIMER, .wide = true };
    return true;
}

/* Shared memory of the file that the kernel uses gets a place in the kernel's static shared memory. */
static struct ptx_operand static_shared(struct parser *s, const struct ptx_variable *v) {
    struct scope *top = s->kernel_scope;
    for (size_t i = 0; i < top->declared.n; i++)
        if (strcmp(top->declared.v[i].name, v->name) == 0) return top->declared.v[i].address;
    struct declared d = { .n = 1,
                          .variable = true,
                          .address = value_of(place(&s->k->shared_bytes, v->bytes, v->align), true) };
    snprintf(d.name, sizeof d.name, "%s", v->name);
    vec_push(&top->declared, d);
    return d.address;
}

static struct ptx_operand variable_of_module(struct parser *s, const char *name) {
    struct ptx_module *m = s->k->module;
    for (size_t i = 0; i < m->nvariables; i++) {
        const struct ptx_variable *v = &m->variables[i];
        if (strcmp(name, v->name) != 0) continue;
        if (v->space != SPACE_SHARED) return value_of((uint64_t)(uintptr_t)v->data, true);
        if (!v->is_dynamic) return static_shared(s, v);
        /* dynamic memory is after the static one, whose size is known at the end of the body */
        return (struct ptx_operand){ .kind = O_NOTHING, .wide = true, .at = (uint32_t)v->align };
    }
    fail(s, "unknown name %s", name);
}

static struct ptx_operand named(struct parser *s, const char *name) {
    struct ptx_operand o;
    uint32_t number;
    struct declared *d = find_declared(s->scope, name, &number);
    if (d && d->variable) return d->address;
    if (d) {
        if (!d->at[number]) d->at[number] = new_row(s->k, d->type);
        return (struct ptx_operand){
            .kind = O_REG, .wide = is_wide(d->type), .pred = d->type == T_PRED, .at = d->at[number]
        };
    }
    if (special(name, &o)) return o;
    for (size_t i = 0; !s->calls && i < s->k->params.n; i++)
        if (strcmp(name, s->k->params.name[i]) == 0)
            return (struct ptx_operand){ .kind = O_PARAM, .wide = true, .at = s->k->params.offset[i] };
    return variable_of_module(s, name);
}

/* A number: decimal, hexadecimal, 0fHEX (float) or 0dHEX (double). */
static uint64_t number(struct parser *s) {
    skip(s);
    if (s->p[0] == '0' && (s->p[1] == 'f' || s->p[1] == 'F' || s->p[1] == 'd' || s->p[1] == 'D')) {
        s->p += 2;
        return strtoull(s->p, (char **)&s->p, 16);
    }
    bool minus = accept(s, '-');
    uint64_t v = strtoull(s->p, (char **)&s->p, 0);
    if (*s->p == 'U') s->p++;
    return minus ? -v : v;
}
static bool at_number(struct parser *s) {
    skip(s);
    return (*s->p >= '0' && *s->p <= '9') || *s->p == '-';
}

static void push(struct parser *s, struct ptx_ins *i, struct ptx_operand o) {
    vec_push(&s->k->operands, o);
    i->noperands++;
}

/* The size of operand n of an instruction, if it is a number. */
static bool number_is_wide(const struct ptx_ins *i, int n) {
    switch (i->op) {
    case OP_shl:
    case OP_shr: return n < 2 && is_wide(i->type);
    case OP_bfi: return n < 3 && is_wide(i->type);
    case OP_bfe: return n < 2 && is_wide(i->type);
    case OP_mul: return i->variant != V_WIDE && is_wide(i->type);
    case OP_mad: return i->variant == V_WIDE ? n == 3 : is_wide(i->type);
    case OP_cvt: return is_wide(i->from);
    default: return is_wide(i->type);
    }
}

static void operand(struct parser *s, struct ptx_ins *i);

static void list(struct parser *s, struct ptx_ins *i, char end) {
    do operand(s, i);
    while (accept(s, ','));
    expect(s, end);
}

/* "[name+8]" after the bracket. */
static void address(struct parser *s, struct ptx_ins *i) {
    char name[NAME_BYTES];
    struct ptx_operand o;
    if (at_number(s))
        o = value_of(number(s), true);
    else {
        word(s, name);
        o = named(s, name);
        o.slot = o.kind == O_REG && name[0] != '%';
    }
    if (accept(s, '+')) o.plus = (int64_t)number(s);
    push(s, i, o);
    if (accept(s, ',')) { /* the place in a tensor */
        expect(s, '{');
        list(s, i, '}');
    }
    expect(s, ']');
}

static void operand(struct parser *s, struct ptx_ins *i) {
    char name[NAME_BYTES];
    if (accept(s, '{')) {
        i->unpacks = i->noperands == 0;
        list(s, i, '}');
    } else if (accept(s, '[')) {
        address(s, i);
    } else if (at_number(s)) {
        push(s, i, value_of(number(s), number_is_wide(i, i->noperands)));
    } else {
        word(s, name);
        struct ptx_operand o =
            strcmp(name, "_") == 0 ? (struct ptx_operand){ .kind = O_NOTHING } : named(s, name);
        if (accept(s, '+')) o.plus = (int64_t)number(s);
        push(s, i, o);
        if (accept(s, '|')) operand(s, i); /* the predicate of a shuffle */
    }
}

static struct ptx_ins mnemonic(struct parser *s) {
    struct ptx_ins i;
    char name[NAME_BYTES];
    word(s, name);
    const char *unknown = ptx_mnemonic(name, &i);
    if (unknown) fail(s, "unknown: %s", unknown);
    i.line = s->line;
    return i;
}

/* ---- statements */
static void branch(struct parser *s, struct ptx_ins i) {
    struct label l = { .at = (uint32_t)s->k->code.n };
    word(s, l.name);
    vec_push(&s->scope->branches, l);
    vec_push(&s->k->code, i);
}

static void block(struct parser *s);

/* Reads the text of a function in place of its call. Its parameters and its result are the caller's
 * registers. */
static void call(struct parser *s) {
    char result[NAME_BYTES], name[NAME_BYTES], given[8][NAME_BYTES], expected[NAME_BYTES];
    size_t n = 0;
    expect(s, '(');
    word(s, result);
    expect(s, ')');
    expect(s, ',');
    word(s, name);
    expect(s, ',');
    expect(s, '(');
    do word(s, given[n++]);
    while (n < COUNTOF(given) && accept(s, ','));
    expect(s, ')');
    struct ptx_kernel *f = ptx_find(s->k->module, name);
    if (!f) fail(s, "unknown function %s", name);
    struct scope inner = { 0 };
    struct parser in = { s->k, f->body, f->first_line, &inner, s->kernel_scope, s->calls + 1 };
    if (in.calls > 8) fail(s, "%s calls itself", name);
    for (size_t i = 0; i <= n; i++) {
        uint32_t number;
        snprintf(expected, sizeof expected, i < n ? "%.100s_param_%zu" : "func_retval0", name, i);
        struct declared *from = find_declared(s->scope, i < n ? given[i] : result, &number);
        if (!from) fail(s, "unknown parameter of %s", name);
        if (!from->at[0]) from->at[0] = new_row(s->k, from->type);
        uint32_t *at = from->at;
        enum ptx_type type = from->type;
        struct declared *d = declare(&in, expected);
        d->at = at;
        d->type = type;
    }
    size_t first = s->k->code.n;
    expect(&in, '{');
    block(&in);
    for (size_t i = first; i < s->k->code.n; i++)
        if (s->k->code.v[i].op == OP_ret) {
            s->k->code.v[i].op = OP_bra;
            s->k->code.v[i].target = (uint32_t)s->k->code.n;
        }
    for (size_t i = 0; i < inner.declared.n; i++)
        if (i > n) free(inner.declared.v[i].at);
    free(inner.declared.v);
}

/* Loads and stores of parameters of a call are moves between registers. */
static void as_move(struct parser *s, struct ptx_ins *i) {
    if (i->vector != 1) fail(s, "a parameter with parts");
    i->op = OP_mov;
    i->space = SPACE_GENERIC;
}

static void instruction(struct parser *s, int8_t sense, uint32_t guard) {
    struct ptx_ins i = mnemonic(s);
    i.guard_sense = sense;
    i.guard = guard;
    i.operands = (uint32_t)s->k->operands.n;
    if (i.op == OP_call) {
        call(s);
        expect(s, ';');
        return;
    }
    if (i.op == OP_bra) {
        branch(s, i);
        expect(s, ';');
        return;
    }
    if (!accept(s, ';')) list(s, &i, ';');
    for (uint16_t n = 0; n < i.noperands; n++)
        if (s->k->operands.v[i.operands + n].slot) as_move(s, &i);
    vec_push(&s->k->code, i);
}

static void directive(struct parser *s) {
    char name[NAME_BYTES];
    word(s, name);
    if (strcmp(name, ".reg") == 0 || strcmp(name, ".param") == 0)
        declare_registers(s);
    else if (strcmp(name, ".shared") == 0)
        declare_variable(s, SPACE_SHARED);
    else if (strcmp(name, ".local") == 0)
        declare_variable(s, SPACE_LOCAL);
    else if (strcmp(name, ".pragma") == 0)
        skip_to(s, ';');
    else
        fail(s, "unknown directive %s", name);
}

static void guarded(struct parser *s) {
    char name[NAME_BYTES];
    int8_t sense = !accept(s, '!');
    word(s, name);
    struct ptx_operand o = named(s, name);
    if (!o.pred) fail(s, "%s is no predicate", name);
    instruction(s, sense, o.at);
}

static void label_or_instruction(struct parser *s) {
    char name[NAME_BYTES];
    struct parser before = *s;
    word(s, name);
    if (*s->p == ':') {
        struct label l = { .at = (uint32_t)s->k->code.n };
        s->p++;
        snprintf(l.name, sizeof l.name, "%s", name);
        vec_push(&s->scope->labels, l);
        return;
    }
    *s = before;
    instruction(s, -1, 0);
}

/* Sets the targets of branches to labels of this scope; the others go to the scope around it. */
static void close_scope(struct parser *s) {
    struct scope *c = s->scope;
    for (size_t i = 0; i < c->branches.n; i++) {
        struct label *b = &c->branches.v[i];
        size_t l = 0;
        while (l < c->labels.n && strcmp(c->labels.v[l].name, b->name) != 0) l++;
        if (l < c->labels.n)
            s->k->code.v[b->at].target = c->labels.v[l].at;
        else if (c->parent)
            vec_push(&c->parent->branches, *b);
        else
            fail(s, "unknown label %s", b->name);
    }
    free(c->labels.v);
    free(c->branches.v);
}

/* Statements up to the closing brace, in s->scope. */
static void block(struct parser *s) {
    while (!accept(s, '}')) {
        skip(s);
        if (!*s->p) fail(s, "the file ends inside a body");
        if (accept(s, '{')) {
            struct scope inner = { .parent = s->scope };
            s->scope = &inner;
            block(s);
            s->scope = inner.parent;
            for (size_t i = 0; i < inner.declared.n; i++) free(inner.declared.v[i].at);
            free(inner.declared.v);
        } else if (accept(s, '@')) {
            guarded(s);
        } else if (*s->p == '.') {
            directive(s);
        } else {
            label_or_instruction(s);
        }
    }
    close_scope(s);
}

/* "(.param .u64 name, .param .align 8 .b8 name[16])" */
static void signature(struct parser *s) {
    struct ptx_kernel *k = s->k;
    char name[NAME_BYTES];
    size_t bytes, align;
    bool open;
    if (!accept(s, '(') || accept(s, ')')) return;
    do {
        word(s, name);
        variable_of(s, name, &bytes, &align, &open);
        uint32_t at = place(&k->param_bytes, bytes, align);
        size_t n = k->params.n + 1, cap = k->params.cap;
        k->params.offset = vec_fit(k->params.offset, n, &cap, sizeof *k->params.offset);
        cap = k->params.cap;
        k->params.bytes = vec_fit(k->params.bytes, n, &cap, sizeof *k->params.bytes);
        cap = k->params.cap;
        k->params.name = vec_fit(k->params.name, n, &cap, sizeof *k->params.name);
        k->params.cap = cap;
        k->params.offset[n - 1] = at;
        k->params.bytes[n - 1] = (uint32_t)bytes;
        k->params.name[n - 1] = xstrdup(name);
        k->params.n = n;
    } while (accept(s, ','));
    expect(s, ')');
}

void ptx_parse(struct ptx_kernel *k) {
    struct scope scope = { 0 };
    struct parser s = { k, k->body, k->first_line, &scope, &scope, 0 };
    if (k->parsed) return;
    k->reg_bytes = S_COUNT * 4 * LANES;
    expect(&s, '{');
    block(&s);
    vec_push(&k->code, ((struct ptx_ins){ .op = OP_exit, .guard_sense = -1, .vector = 1 }));
    for (size_t i = 0; i < k->operands.n; i++) { /* names of dynamic shared memory */
        struct ptx_operand *o = &k->operands.v[i];
        if (o->kind != O_NOTHING || !o->wide) continue;
        uint32_t end = k->shared_bytes;
        int64_t plus = o->plus;
        *o = value_of(place(&end, 0, o->at), true);
        o->plus = plus;
    }
    for (size_t n = 0; n < k->code.n; n++) {
        struct ptx_ins *i = &k->code.v[n];
        if (!(i->run = ptx_alu_of(k, i)) && !(i->run = ptx_memory_of(k, i))) i->run = ptx_matrix_of(i);
        i->together = i->op == OP_mma || i->op == OP_ldmatrix || i->op == OP_wgmma || i->op == OP_barrier ||
                      i->op == OP_bar || i->op == OP_shfl || i->op == OP_vote || i->op == OP_redux;
    }
    for (size_t i = 0; i < scope.declared.n; i++) free(scope.declared.v[i].at);
    free(scope.declared.v);
    k->parsed = true;
}

/* ---- files */
static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) die("%s: cannot be read", path);
    struct {
        char *v;
        size_t n, cap;
    } text = { 0 };
    size_t got;
    do {
        text.v = vec_fit(text.v, text.n + (1 << 20), &text.cap, 1);
        got = fread(text.v + text.n, 1, (1 << 20) - 1, f);
        text.n += got;
    } while (got);
    text.v[text.n] = '\0';
    fclose(f);
    return text.v;
}

static void add_variable(struct parser *s, enum ptx_space space) {
    struct ptx_module *m = s->k->module;
    struct ptx_variable v = { .space = space };
    char name[NAME_BYTES];
    variable_of(s, name, &v.bytes, &v.align, &v.is_dynamic);
    v.name = xstrdup(name);
    if (space != SPACE_SHARED) {
        v.data = xcalloc(1, v.bytes + 16);
        ptx_memory_add(v.data, v.bytes);
    }
    skip(s);
    if (*s->p == '=') fail(s, "%s has a value", name);
    m->variables = vec_fit(m->variables, m->nvariables + 1, &m->variables_cap, sizeof v);
    m->variables[m->nvariables++] = v;
    skip_to(s, ';');
}

/* A kernel or function: its name, its parameters and where its body begins. */
static void add_kernel(struct parser *s, bool function) {
    struct ptx_module *m = s->k->module;
    struct ptx_kernel k = { .module = m };
    char name[NAME_BYTES];
    if (function && accept(s, '(')) skip_to(s, ')');
    word(s, name);
    k.name = xstrdup(name);
    struct parser in = { &k, s->p, s->line, NULL, NULL, 0 };
    signature(&in);
    while (skip(&in), *in.p != '{' && *in.p != ';' && *in.p) { /* .maxntid 256, 1, 1 */
        if (*in.p == '\n') in.line++;
        in.p++;
    }
    k.body = in.p;
    k.first_line = in.line;
    if (*in.p == '{')
        for (int depth = 0; *in.p;) {
            if (*in.p == '/' && in.p[1] == '/') in.p += strcspn(in.p, "\n");
            if (*in.p == '\n') in.line++;
            depth += *in.p == '{';
            depth -= *in.p == '}';
            if (*in.p++ == '}' && !depth) break;
        }
    s->p = in.p;
    s->line = in.line;
    if (*k.body != '{') return;
    m->kernels = vec_fit(m->kernels, m->nkernels + 1, &m->kernels_cap, sizeof k);
    m->kernels[m->nkernels++] = k;
}

struct ptx_module *ptx_open(const char *path) {
    struct ptx_module *m = xcalloc(1, sizeof *m);
    struct ptx_kernel nowhere = { .name = "file", .module = m };
    char name[NAME_BYTES];
    m->path = xstrdup(path);
    m->text = read_text(path);
    struct parser s = { &nowhere, m->text, 1, NULL, NULL, 0 };
    while (skip(&s), *s.p) {
        if (accept(&s, ';')) continue;
        word(&s, name);
        if (strcmp(name, ".version") == 0 || strcmp(name, ".target") == 0 ||
            strcmp(name, ".address_size") == 0)
            skip_line(&s);
        else if (strcmp(name, ".const") == 0)
            add_variable(&s, SPACE_CONST);
        else if (strcmp(name, ".global") == 0)
            add_variable(&s, SPACE_GLOBAL);
        else if (strcmp(name, ".shared") == 0)
            add_variable(&s, SPACE_SHARED);
        else if (strcmp(name, ".entry") == 0 || strcmp(name, ".func") == 0)
            add_kernel(&s, name[1] == 'f');
        else if (strcmp(name, ".visible") != 0 && strcmp(name, ".extern") != 0 && strcmp(name, ".weak") != 0)
            fail(&s, "unknown directive %s", name);
    }
    return m;
}

struct ptx_kernel *ptx_find(struct ptx_module *m, const char *name) {
    for (size_t i = 0; i < m->nkernels; i++)
        if (strcmp(m->kernels[i].name, name) == 0) return &m->kernels[i];
    return NULL;
}

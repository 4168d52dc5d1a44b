#include "analyze/operator_call.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/element_type.h"

/* Parses "[8944,1024]", also with True and False. Returns the end of the list, or NULL if the text is not a
 * flat list of numbers. */
static const char *read_list(const char *p, double *out, size_t *n) {
    *n = 0;
    for (p++; *p != ']'; p += *p == ',' || *p == ' ') {
        char *end;
        bool yes = strncmp(p, "True", 4) == 0, no = strncmp(p, "False", 5) == 0;
        double v = yes || no ? yes : strtod(p, &end);
        if (yes || no) end = (char *)p + (yes ? 4 : 5);
        if (end == p || *n == OPERATOR_DIMS_MAX || !strchr(",] ", *end) || !*end) return NULL;
        out[(*n)++] = v;
        p = end;
    }
    return p + 1;
}

/* Parses one tensor at p, which points to '['. Returns its end; NULL: invalid. An empty list is skipped: in
 * the emit_nvtx format, it is an argument that is not a tensor. */
static const char *read_tensor(const char *p, struct operator_call *c) {
    struct operator_tensor t = { 0 };
    p = read_list(p, t.dims, &t.ndims);
    if (!p) return NULL;
    size_t type_len = strcspn(p, " ;,]");
    t.element_bytes = element_type_bytes(p, type_len);
    t.type = element_type(p, type_len);
    if (t.ndims && c->ntensors == OPERATOR_TENSORS_MAX) return NULL;
    if (t.ndims) c->tensors[c->ntensors++] = t;
    return p + type_len;
}

static const char *read_tensors(const char *p, struct operator_call *c) {
    while (p && *p && *p != ';') {
        if (*p == '[')
            p = read_tensor(p, c);
        else
            p++;
    }
    return p;
}

static bool is_number(const char *p) { return isdigit((unsigned char)p[*p == '-']); }

static void read_value(const char *p, size_t len, struct operator_call *c) {
    bool yes = len == 4 && memcmp(p, "True", 4) == 0, no = len == 5 && memcmp(p, "False", 5) == 0;
    if ((yes || no) && c->nflags < OPERATOR_VALUES_MAX) c->flags[c->nflags++] = yes;
    if (is_number(p) && !memchr(p, '.', len) && c->nintegers < OPERATOR_VALUES_MAX)
        c->integers[c->nintegers++] = strtod(p, NULL);
    if (*p == '[' && c->nlists < OPERATOR_VALUES_MAX &&
        read_list(p, c->lists[c->nlists], &c->list_lens[c->nlists]))
        c->nlists++;
}

/* Parses the arguments that are not tensors: "; [2,2] [1,1] False 0. 1". */
static void read_values(const char *p, struct operator_call *c) {
    bool after_fraction = false;
    if (*p != ';') return;
    c->has_values = true;
    for (p++; *p;) {
        p += strspn(p, " ");
        size_t len = strcspn(p, " ");
        bool fraction = is_number(p) && memchr(p, '.', len);
        if (fraction && !after_fraction) c->after_fraction = c->nintegers;
        after_fraction = after_fraction || fraction;
        read_value(p, len, c);
        p += len;
    }
    if (!after_fraction) c->after_fraction = c->nintegers;
}

bool operator_call_read(const char *detail, struct operator_call *c) {
    memset(c, 0, sizeof *c);
    const char *sizes = "sizes = [";
    if (strncmp(detail, sizes, strlen(sizes)) == 0) detail += strlen(sizes);
    detail = read_tensors(detail, c);
    if (!detail) return false;
    read_values(detail, c);
    return true;
}

double operator_tensor_elements(const struct operator_tensor *t) {
    double n = 1;
    for (size_t i = 0; i < t->ndims; i++) n *= t->dims[i];
    return n;
}

double operator_tensor_element_bytes(const struct operator_tensor *t) {
    return t->element_bytes > 0 ? t->element_bytes : NAN;
}

double operator_tensor_bytes(const struct operator_tensor *t) {
    return operator_tensor_elements(t) * operator_tensor_element_bytes(t);
}

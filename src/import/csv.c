#include "import/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

void csv_open(struct csv *c, char *text, size_t len) {
    *c = (struct csv){ .p = text, .end = text + len };
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) c->p += 3;
}

void csv_free(struct csv *c) {
    free(c->v);
    *c = (struct csv){ 0 };
}

/* Reads the field at c->p. Leaves c->p at the comma, line break or end after it. */
static struct csv_field take_field(struct csv *c) {
    if (*c->p != '"') {
        const char *from = c->p;
        while (c->p < c->end && *c->p != ',' && *c->p != '\n' && *c->p != '\r') c->p++;
        return (struct csv_field){ from, (size_t)(c->p - from) };
    }
    char *out = ++c->p, *from = out;
    while (c->p < c->end) {
        if (*c->p == '"') {
            if (c->p + 1 >= c->end || c->p[1] != '"') break;
            c->p++; /* two quotes mean one */
        }
        *out++ = *c->p++;
    }
    while (c->p < c->end && *c->p != ',' && *c->p != '\n' && *c->p != '\r')
        c->p++; /* closing quote and invalid bytes */
    return (struct csv_field){ from, (size_t)(out - from) };
}

bool csv_next(struct csv *c) {
    while (c->p < c->end && (*c->p == '\n' || *c->p == '\r')) c->p++;
    if (c->p >= c->end) return false;
    c->n = 0;
    for (;;) {
        struct csv_field f = { c->p, 0 };
        if (c->p < c->end) f = take_field(c);
        vec_push(c, f);
        if (c->p >= c->end || *c->p != ',') break;
        c->p++;
    }
    return true;
}

bool csv_is(const struct csv_field *f, const char *text) {
    return strlen(text) == f->n && memcmp(text, f->p, f->n) == 0;
}

int csv_find(const struct csv *c, const char *head) {
    for (size_t i = 0; i < c->n; i++)
        if (csv_is(&c->v[i], head)) return (int)i;
    return -1;
}

const struct csv_field *csv_at(const struct csv *c, int column) {
    static const struct csv_field none = { "", 0 };
    return column >= 0 && (size_t)column < c->n ? &c->v[column] : &none;
}

bool csv_number(const struct csv_field *f, double *out) {
    char buf[64];
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (f->p[i] == ',' || f->p[i] == ' ' || f->p[i] == '\'') continue; /* thousands separators */
        if (n + 1 >= sizeof buf) return false;
        buf[n++] = f->p[i];
    }
    buf[n] = 0;
    char *end;
    if (!n) return false;
    *out = strtod(buf, &end);
    return end == buf + n && isfinite(*out);
}

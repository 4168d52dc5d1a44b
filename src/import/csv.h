/* CSV parser that works in place (RFC 4180: quotes, doubled quotes, line breaks inside quotes).
 *     struct csv c;
 *     csv_open(&c, text, len);                  -- modifies the text; fields point into it
 *     while (csv_next(&c)) use(c.v[0], c.n);
 *     csv_free(&c); */
#ifndef IMPORT_CSV_H
#define IMPORT_CSV_H

#include <stdbool.h>
#include <stddef.h>

struct csv_field {
    const char *p;
    size_t n;
};
struct csv {
    char *p, *end;
    struct csv_field *v; /* fields of the current row */
    size_t n, cap;
};

void csv_open(struct csv *c, char *text, size_t len);
bool csv_next(struct csv *c); /* skips empty lines */
void csv_free(struct csv *c);

bool csv_is(const struct csv_field *f, const char *text);
/* Column with this text in the current row; -1: none. */
int csv_find(const struct csv *c, const char *head);
const struct csv_field *csv_at(const struct csv *c, int column); /* column < 0 or too large: empty */
/* Parses "12,904", "4,963,609,951.19", "2.33". Returns false for "n/a", "" and other text. */
bool csv_number(const struct csv_field *f, double *out);

#endif

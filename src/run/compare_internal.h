/* Shared by the compare files. */
#ifndef RUN_COMPARE_INTERNAL_H
#define RUN_COMPARE_INTERNAL_H

#include "run/compare.h"

bool compare_same(const char *a, const char *b); /* equal, or both NULL */
const json_t *compare_find_stage(const json_t *stages, const char *name, const char *parent); /* NULL: none */

/* compare_rows.c: stages and figures */
/* Returns false if `stop` ended it early. */
bool compare_rows(const struct compare_side *a, const struct compare_side *b, const struct stop *stop,
                  struct comparison *c);

#endif

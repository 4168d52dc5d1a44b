/* Explanations of column headings. */
#pragma once

#include <stddef.h>

const char *glossary_help(const char *heading); /* NULL: not in the glossary */

/* A heading and its explanation. */
struct glossary_term {
    const char *term, *help;
};
/* the most important terms */
const struct glossary_term *glossary_legend(size_t *n);
const struct glossary_term *glossary_rank_legend(size_t *n); /* for jobs of several ranks */

/* Explanations of column headings, for tooltips and the legend of the page. */
#pragma once

#include <stddef.h>

const char *glossary_help(const char *heading); /* NULL: not in the glossary */

/* A heading and its explanation. */
struct glossary_term {
    const char *term, *help;
};
/* Returns the terms that a reader of the summary needs first. */
const struct glossary_term *glossary_legend(size_t *n);

/* Explanations of column headings, for tooltips and the legend of the page. */
#pragma once

#include <stddef.h>

const char *glossary_help(const char *heading); /* NULL: not in the glossary */

/* The terms that a reader of the summary needs first. */
struct glossary_term {
    const char *term, *help;
};
const struct glossary_term *glossary_legend(size_t *n);

/* Wraps text at spaces. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"

/* Adds `text`, wrapped at `width` columns, and a newline. The output is at column `at`; later lines are
 * indented by `indent`. Control characters become U+FFFD. */
void wrap_text(struct strbuf *out, const char *text, size_t at, size_t width, size_t indent);

/* Joins and wraps the lines of paragraphs. Indented lines are not changed. */
void wrap_paragraphs(struct strbuf *out, const char *text, size_t width);

/* Wraps text at spaces. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"

/* Adds `text`, wrapped at `width` columns (0: not wrapped), and a newline. The output is at column `at`;
 * later lines are indented by `indent`. Control characters become U+FFFD. */
void wrap_text(struct strbuf *out, const char *text, size_t at, size_t width, size_t indent);

/* Wraps the lines that are longer than `width` columns (0: none) and copies the others. */
void wrap_lines(struct strbuf *out, const char *text, size_t width);

/* Joins and wraps the lines of paragraphs. Indented lines are not joined. If they are wrapped, the text after
 * two or more spaces stays in its column. */
void wrap_paragraphs(struct strbuf *out, const char *text, size_t width);

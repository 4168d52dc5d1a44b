/* Wraps text at spaces, for terminals. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"

/* Adds one line of text and a newline. The first line starts at column `at`, which the caller has reached;
 * the following lines are indented. Control characters are escaped. */
void wrap_text(struct strbuf *out, const char *text, size_t at, size_t width, size_t indent);

/* Adds paragraphs: lines are joined and wrapped, indented lines are examples and stay as they are. */
void wrap_paragraphs(struct strbuf *out, const char *text, size_t width);

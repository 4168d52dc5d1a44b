/* Wraps text at spaces, for terminals. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"

/* Adds `text`, wrapped at `width`, and a newline. The first line starts at column `at`, where the output
 * already is; the following lines are indented by `indent`. Control characters become U+FFFD. */
void wrap_text(struct strbuf *out, const char *text, size_t at, size_t width, size_t indent);

/* Adds paragraphs. Lines are joined and wrapped; indented lines are examples and are not changed. */
void wrap_paragraphs(struct strbuf *out, const char *text, size_t width);

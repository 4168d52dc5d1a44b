/* Writes untrusted text (names of kernels, ranges and files, prompts, answers) into documents. There is one
 * rule per format, and every writer of that format uses it:
 *     terminal, one line   strbuf_add_printable (strbuf.h)
 *     Markdown             escape_markdown, escape_markdown_block
 *     CSV                  escape_csv
 *     HTML, SVG            html_escape (html.h)
 *     JSON                 jsonw_quote (jsonw.h): keeps the text, as \u escapes
 * In all of them utf8_is_unsafe decides which characters are replaced (JSON: escaped). Code blocks, HTML and
 * CSV keep line breaks; HTML and CSV also keep tabs. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stddef.h>

#include "base/strbuf.h"

/* Adds plain text on one line, in a table cell or elsewhere: no markup, link, image or HTML. NULL adds
 * nothing. */
void escape_markdown(struct strbuf *out, const char *text);
/* Adds a code block. Its fence is longer than every run of backticks in the text. */
void escape_markdown_block(struct strbuf *out, const char *language, const char *text, size_t n);

/* Adds one field by RFC 4180. Spreadsheets run fields that start with = + - or @ as formulas, so these fields
 * get an apostrophe, and so do fields that start with a tab or carriage return. Numbers get none. */
void escape_csv(struct strbuf *out, const char *text);

/* For messages: replaces unsafe characters, except newlines and tabs, by '?'. The text keeps its length or
 * gets shorter. */
void escape_in_place(char *text);

#endif

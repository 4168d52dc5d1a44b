/* Writes untrusted text (names, prompts, answers) into documents. There is one rule per format:
 *     terminal, one line   strbuf_add_printable (strbuf.h)
 *     Markdown             escape_markdown, escape_markdown_block
 *     CSV                  escape_csv
 *     HTML, SVG            html_escape (html.h)
 *     JSON                 jsonw_quote (jsonw.h): keeps the text, as \u escapes
 * Unsafe characters (utf8_is_unsafe) are replaced, or escaped in JSON. Code blocks, HTML and CSV keep line
 * breaks; HTML and CSV also keep tabs. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stddef.h>

#include "base/strbuf.h"

/* Adds plain text on one line, without markup, images, HTML or links (also of plain URLs). NULL adds
 * nothing. */
void escape_markdown(struct strbuf *out, const char *text);
/* The fence is longer than every run of backticks in the text. */
void escape_markdown_block(struct strbuf *out, const char *language, const char *text, size_t n);

/* Adds one field (RFC 4180). Spreadsheets run fields that start with = + - or @ as formulas. Such fields, and
 * fields that start with a tab or carriage return, get an apostrophe. Numbers get none. */
void escape_csv(struct strbuf *out, const char *text);

/* Replaces unsafe characters, except newlines and tabs, by '?'. The text does not become longer. */
void escape_in_place(char *text);

#endif

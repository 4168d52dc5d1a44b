#include "base/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/escape.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"

#define FIRST_COLUMN_MIN ((size_t)16)
#define COLUMNS_MIN ((size_t)2)
#define ELLIPSIS "\xe2\x80\xa6"

void table_init(struct table *t) { *t = (struct table){ 0 }; }

void table_free(struct table *t) {
    for (size_t i = 0; i < t->heads.n; i++) free(t->heads.v[i]);
    for (size_t i = 0; i < t->cells.n; i++) free(t->cells.v[i]);
    free(t->heads.v);
    free(t->cells.v);
    free(t->aligns.v);
    table_init(t);
}

void table_column(struct table *t, const char *head, enum table_align align) {
    if (t->cells.n) die("table: column \"%s\" after the first cell", head);
    vec_push(&t->heads, xstrdup(head));
    vec_push(&t->aligns, align);
}

void table_cell(struct table *t, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    vec_push(&t->cells, strbuf_detach(&s));
}

size_t table_find(const struct table *t, const char *head) {
    size_t c = 0;
    while (c < t->heads.n && strcmp(t->heads.v[c], head) != 0) c++;
    return c;
}

void table_drop(struct table *t, size_t column) {
    size_t n = t->heads.n, rows = table_rows(t), to = 0;
    free(t->heads.v[column]);
    for (size_t c = column + 1; c < n; c++) {
        t->heads.v[c - 1] = t->heads.v[c];
        t->aligns.v[c - 1] = t->aligns.v[c];
    }
    t->heads.n = t->aligns.n = n - 1;
    for (size_t i = 0; i < rows * n; i++)
        if (i % n == column)
            free(t->cells.v[i]);
        else
            t->cells.v[to++] = t->cells.v[i];
    t->cells.n = to;
}

size_t table_rows(const struct table *t) { return t->heads.n ? t->cells.n / t->heads.n : 0; }

/* Returns one line without control characters, at most `max` columns wide; 0: no limit. */
static char *terminal_cell(const char *text, size_t max) {
    struct strbuf s = STRBUF_INIT;
    strbuf_add_printable(&s, text, strlen(text));
    if (max && utf8_width(s.buf, s.len) > max) {
        const char *p = s.buf, *end = s.buf + s.len, *keep = p;
        while (p < end && utf8_width(s.buf, (size_t)(p - s.buf)) < max) {
            keep = p;
            utf8_next(&p, end);
        }
        s.len = (size_t)(keep - s.buf);
        strbuf_addstr(&s, ELLIPSIS);
    }
    return strbuf_detach(&s);
}

static void add_padded(struct strbuf *out, const char *cell, size_t width, enum table_align align, int last) {
    size_t used = utf8_width(cell, strlen(cell)), pad = width > used ? width - used : 0;
    if (align == TABLE_RIGHT) strbuf_addchars(out, ' ', pad);
    strbuf_addstr(out, cell);
    if (align == TABLE_LEFT && !last) strbuf_addchars(out, ' ', pad);
}

static const char *cell_at(const struct table *t, size_t i) {
    return i < t->heads.n ? t->heads.v[i] : t->cells.v[i - t->heads.n];
}

/* Sets the column widths. Returns the line width. */
static size_t measure_columns(const struct table *t, char **cells, size_t *widths) {
    size_t nc = t->heads.n, total = nc * (table_rows(t) + 1), line = nc ? 2 * (nc - 1) : 0;
    memset(widths, 0, nc * sizeof *widths);
    for (size_t i = 0; i < total; i++)
        widths[i % nc] = MAX(widths[i % nc], utf8_width(cells[i], strlen(cells[i])));
    for (size_t c = 0; c < nc; c++) line += widths[c];
    return line;
}

static char **terminal_cells(const struct table *t) {
    size_t total = t->heads.n * (table_rows(t) + 1);
    char **cells = xcalloc(total + 1, sizeof *cells);
    for (size_t i = 0; i < total; i++) cells[i] = terminal_cell(cell_at(t, i), t->text_max_width);
    return cells;
}

/* `cells` is NULL-terminated. */
static void free_cells(char **cells) {
    for (char **c = cells; *c; c++) free(*c);
    free(cells);
}

static void cut_first_column(char **cells, size_t nc, size_t width) {
    for (size_t i = 0; cells[i]; i += nc) {
        char *cut = terminal_cell(cells[i], width);
        free(cells[i]);
        cells[i] = cut;
    }
}

void table_fit(struct table *t, size_t width, const char *const *least) {
    t->text_line_width = width;
    for (; width && *least && table_text_width(t) > width; least++) {
        size_t column = table_find(t, *least);
        if (column < t->heads.n && t->heads.n > COLUMNS_MIN) table_drop(t, column);
    }
}

/* Omits the last columns until the line fits, with the first column at its minimum width. *line: width of all
 * columns, then of the remaining ones. Returns the number of remaining columns. */
static size_t fitting_columns(const struct table *t, const size_t *widths, size_t *line) {
    size_t shown = t->heads.n, saved = widths[0] - MIN(widths[0], FIRST_COLUMN_MIN);
    while (shown > COLUMNS_MIN && *line - saved > t->text_line_width) *line -= widths[--shown] + 2;
    return shown;
}

void table_text(const struct table *t, struct strbuf *out) {
    size_t nc = t->heads.n, shown = nc;
    char **cells = terminal_cells(t);
    size_t *widths = xcalloc(nc + 1, sizeof *widths), line = measure_columns(t, cells, widths);
    if (t->text_line_width && line > t->text_line_width) {
        shown = fitting_columns(t, widths, &line);
        size_t over = line > t->text_line_width ? line - t->text_line_width : 0;
        size_t room = widths[0] > over ? widths[0] - over : 0;
        cut_first_column(cells, nc, MAX(room, FIRST_COLUMN_MIN));
        measure_columns(t, cells, widths);
    }
    for (size_t i = 0; cells[i]; i++) {
        size_t c = i % nc;
        if (c >= shown) continue;
        if (c) strbuf_addstr(out, "  ");
        add_padded(out, cells[i], widths[c], t->aligns.v[c], c + 1 == shown);
        if (c + 1 == shown) strbuf_addch(out, '\n');
    }
    free_cells(cells);
    free(widths);
}

size_t table_text_width(const struct table *t) {
    char **cells = terminal_cells(t);
    size_t *widths = xcalloc(t->heads.n + 1, sizeof *widths), line = measure_columns(t, cells, widths);
    free_cells(cells);
    free(widths);
    return line;
}

static void markdown_row(struct strbuf *out, char *const *cells, size_t n) {
    for (size_t c = 0; c < n; c++) {
        strbuf_addstr(out, "| ");
        escape_markdown(out, cells[c]);
        strbuf_addch(out, ' ');
    }
    strbuf_addstr(out, "|\n");
}

void table_markdown(const struct table *t, struct strbuf *out) {
    markdown_row(out, t->heads.v, t->heads.n);
    for (size_t c = 0; c < t->heads.n; c++)
        strbuf_addstr(out, t->aligns.v[c] == TABLE_RIGHT ? "| ---: " : "| --- ");
    strbuf_addstr(out, "|\n");
    for (size_t r = 0; r < table_rows(t); r++) markdown_row(out, t->cells.v + r * t->heads.n, t->heads.n);
}

static void csv_row(struct strbuf *out, char *const *cells, size_t n) {
    for (size_t c = 0; c < n; c++) {
        if (c) strbuf_addch(out, ',');
        escape_csv(out, cells[c]);
    }
    strbuf_addch(out, '\n');
}

void table_csv(const struct table *t, struct strbuf *out) {
    csv_row(out, t->heads.v, t->heads.n);
    for (size_t r = 0; r < table_rows(t); r++) csv_row(out, t->cells.v + r * t->heads.n, t->heads.n);
}

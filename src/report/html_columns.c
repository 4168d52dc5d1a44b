/* Sortable HTML tables. web/tables.js sorts by the attribute data-v. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "report/glossary.h"
#include "report/html.h"

#define MAX_FULL_NAME 600
#define BAR_PX 60
#define LONG_TEXT 24    /* longer text may be broken, in characters */
#define MANY_COLUMNS 13 /* such tables are printed in a smaller font */

static void write_attribute(struct strbuf *out, const char *name, const char *value) {
    if (!value || !*value) return;
    strbuf_addf(out, " %s=\"", name);
    html_escape(out, value);
    strbuf_addch(out, '"');
}

/* A final "us" becomes a micro sign and "s". */
static void write_heading(struct strbuf *out, const char *heading) {
    size_t n = strlen(heading);
    char stem[64];
    if (n > 3 && n < sizeof stem && strcmp(heading + n - 3, " us") == 0) {
        snprintf(stem, sizeof stem, "%.*s \u00b5s", (int)(n - 3), heading);
        heading = stem;
    }
    html_escape(out, heading);
}

static void write_head(struct strbuf *out, const struct column *c) {
    strbuf_addstr(out, "<th");
    write_attribute(out, "class", c->format == COLUMN_SHARE ? "share" : column_is_text(c) ? "" : "n");
    write_attribute(out, "title", c->help ? c->help : glossary_help(c->heading));
    strbuf_addch(out, '>');
    write_heading(out, c->heading);
    strbuf_addstr(out, "</th>");
}

static void write_swatch(struct strbuf *out, const struct column *c, const struct column_row *r) {
    if (!c->swatch) return;
    strbuf_addstr(out, "<i class=\"swatch ");
    c->swatch(r, out);
    strbuf_addstr(out, "\"></i>");
}

/* Adds places where a browser may break a long name: after "_", "::", "<", "," and "/". */
static void write_breakable(struct strbuf *out, const char *name) {
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "_:<,/");
        n += strspn(p + n, "_:<,/");
        char *part = xstrndup(p, n);
        html_escape(out, part);
        free(part);
        p += n;
        if (*p) strbuf_addstr(out, "<wbr>");
    }
}

static void write_name(struct strbuf *out, const struct column *c, const struct column_row *r,
                       const char *name, const char *full) {
    char cut[MAX_FULL_NAME + 4];
    strbuf_addstr(out, "<td class=\"name\">");
    write_swatch(out, c, r);
    write_breakable(out, name);
    if (*full && strcmp(full, name) != 0) {
        bool longer = snprintf(cut, MAX_FULL_NAME, "%s", full) >= MAX_FULL_NAME;
        strbuf_addstr(out, "<span class=\"full\">");
        html_escape(out, cut);
        strbuf_addstr(out, longer ? "\u2026</span>" : "</span>");
    }
    strbuf_addstr(out, "</td>");
}

static void write_share(struct strbuf *out, double fraction, double most) {
    strbuf_addf(out, "<td class=\"share\" data-v=\"%s\"><b>%s</b>", text_raw(fraction).s,
                text_percent(fraction).s);
    if (fraction > 0 && most > 0)
        strbuf_addf(out, "<i style=\"width:%.1fpx\"></i>", fmax(1, fraction / most * BAR_PX));
    strbuf_addstr(out, "</td>");
}

/* one or two lines */
static void write_cell(struct strbuf *out, const struct column *c, const struct column_row *r,
                       const char *shown, const char *below) {
    struct strbuf tooltip = STRBUF_INIT;
    bool is_text = column_is_text(c);
    strbuf_addstr(out, "<td");
    write_attribute(out, "class", c->below ? (is_text ? "cat" : "n cat") : is_text ? "" : "n");
    if (!is_text) strbuf_addf(out, " data-v=\"%s\"", text_raw(column_number(column_get(c, r))).s);
    if (c->tooltip) c->tooltip(r, &tooltip);
    write_attribute(out, "title", tooltip.buf);
    strbuf_addch(out, '>');
    write_swatch(out, c, r);
    if (strlen(shown) > LONG_TEXT)
        write_breakable(out, shown);
    else
        html_escape(out, shown);
    if (c->below) {
        strbuf_addstr(out, "<small>");
        html_escape(out, below);
        strbuf_addstr(out, "</small>");
    }
    strbuf_addstr(out, "</td>");
    strbuf_free(&tooltip);
}

static void write_column(struct strbuf *out, const struct column *c, const struct column_row *r,
                         double most) {
    struct strbuf shown = STRBUF_INIT, below = STRBUF_INIT;
    column_show(c, r, &shown);
    if (c->below) c->below(r, &below);
    if (c->format == COLUMN_NAME)
        write_name(out, c, r, shown.buf, below.buf);
    else if (c->format == COLUMN_SHARE)
        write_share(out, column_number(column_get(c, r)), most);
    else
        write_cell(out, c, r, shown.buf, below.buf);
    strbuf_free(&shown);
    strbuf_free(&below);
}

/* Largest value of each column with bars. Its bar has the full length. */
static void find_most(const struct column_set *set, const struct view *v, struct column_items items,
                      double *most) {
    for (size_t k = 0; k < set->n; k++) {
        most[k] = 0;
        for (size_t i = 0; set->v[k].column->format == COLUMN_SHARE && i < items.n; i++) {
            struct column_row r = { v, column_item(&items, i), i };
            most[k] = fmax(most[k], column_number(column_get(set->v[k].column, &r)));
        }
    }
}

void html_columns(struct strbuf *out, const char *what, const struct column_group *groups, size_t ngroups,
                  const struct view *v, struct column_items items, size_t limit) {
    struct column_set set;
    double most[COLUMN_SET_MAX];
    view_column_set(&set, groups, ngroups, COLUMN_DOC_HTML, v);
    find_most(&set, v, items, most);
    strbuf_addf(out, "<div class=\"scroll\"><table%s data-what=\"%s\"><thead><tr>",
                set.n >= MANY_COLUMNS ? " class=\"many\"" : "", what);
    for (size_t k = 0; k < set.n; k++) write_head(out, set.v[k].column);
    strbuf_addstr(out, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < MIN(items.n, limit); i++) {
        struct column_row r = { v, column_item(&items, i), i };
        strbuf_addstr(out, "<tr>");
        for (size_t k = 0; k < set.n; k++) {
            struct column_row own = column_row_in(&set.v[k], &r);
            write_column(out, set.v[k].column, &own, most[k]);
        }
        strbuf_addstr(out, "</tr>\n");
    }
    strbuf_addstr(out, "</tbody></table></div>\n");
}

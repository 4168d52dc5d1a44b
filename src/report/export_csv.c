/* One CSV file per record kind. Kernels also have their category, library and stage. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/table.h"
#include "report/export_records.h"

/* A table keeps its cells in memory, so it is written and cleared after this many rows. */
#define FLUSH_ROWS 4096

struct csv {
    struct export_job *x;
    struct file_atomic f;
    struct table t;
    bool has_heads; /* heading line is written */
};

static void csv_flush(struct csv *c, bool all) {
    if (!all && table_rows(&c->t) < FLUSH_ROWS) return;
    struct strbuf s = STRBUF_INIT;
    table_csv(&c->t, &s);
    size_t skip = 0;
    while (c->has_heads && skip < s.len && s.buf[skip++] != '\n') {}
    fwrite(s.buf + skip, 1, s.len - skip, c->f.out);
    c->has_heads = true;
    strbuf_free(&s);
    for (size_t i = 0; i < c->t.cells.n; i++) free(c->t.cells.v[i]);
    c->t.cells.n = 0;
}

static void write_row(struct csv *c, const struct export_table *file, const struct export_row *r) {
    for (size_t k = 0; k < file->n; k++)
        if (file->columns[k].csv) column_csv_cell(file->columns[k].get(r), &c->t);
    c->x->written++;
    csv_flush(c, false);
}

static void write_rows(struct csv *c, const struct export_table *file) {
    table_init(&c->t);
    for (size_t k = 0; k < file->n; k++)
        if (file->columns[k].csv) table_column(&c->t, file->columns[k].csv, TABLE_LEFT);
    for (size_t i = 0; i < export_count(file, c->x->tl); i++) {
        if (!file->has(c->x, i)) continue;
        uint32_t rows = file->rows ? file->rows(c->x, i) : 1;
        for (uint32_t m = 0; m < rows; m++) write_row(c, file, &(struct export_row){ c->x, i, m });
    }
    csv_flush(c, true);
    table_free(&c->t);
}

int export_csv(struct export_job *x, const char *dir, struct err *err) {
    bool made = !file_exists(dir);
    int rc = file_mkdirs(dir, err), scratch = rc == 0 && made ? scratch_add(dir) : -1;
    for (size_t i = 0; i < export_ntables && rc == 0; i++) {
        if (!export_tables[i].csv) continue;
        struct csv c = { .x = x };
        char *path = file_join(dir, export_tables[i].csv);
        rc = file_atomic_open(&c.f, path, err);
        free(path);
        if (rc < 0) break;
        write_rows(&c, &export_tables[i]);
        rc = file_atomic_commit(&c.f, err);
    }
    scratch_forget(scratch);
    if (rc < 0 && made) rmdir(dir); /* fails if not empty, as intended */
    return rc;
}

/* Writes the report's files. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "report/charts.h"
#include "report/metrics.h"
#include "report/report.h"
#include "report/rows.h"

static int write_text(const char *dir, const char *name, struct strbuf *text, struct err *err) {
    char *path = file_join(dir, name);
    int rc = file_write_atomic(path, text->buf, text->len, err);
    free(path);
    strbuf_free(text);
    return rc;
}

static int write_document(const char *dir, const char *name, const struct view *v,
                          void (*make)(const struct view *, struct strbuf *), struct err *err) {
    struct strbuf s = STRBUF_INIT;
    make(v, &s);
    return write_text(dir, name, &s, err);
}

static int write_csv(const char *dir, const char *name, const struct view *v,
                     void (*rows)(const struct view *, struct table *), struct err *err) {
    struct strbuf s = STRBUF_INIT;
    struct table t;
    rows(v, &t);
    table_csv(&t, &s);
    table_free(&t);
    return write_text(dir, name, &s, err);
}

static int write_list(const char *dir, const char *name, const char *heading, const struct view *v,
                      void (*rows)(const struct view *, size_t, struct table *),
                      void (*by_total)(const struct view *, size_t, struct table *), struct err *err) {
    struct strbuf s = STRBUF_INIT;
    struct table t;
    rows(v, v->run->top ? v->run->top : 50, &t);
    bool any = table_rows(&t) > 0;
    strbuf_addf(&s, "# %s\n\n", heading);
    if (!any)
        for (size_t i = 0; i < t.heads.n; i++) table_cell(&t, "-");
    table_markdown(&t, &s);
    if (!any) strbuf_addstr(&s, "\nThe trace contains none.\n");
    table_free(&t);
    if (any && by_total) {
        by_total(v, v->run->top ? v->run->top : 50, &t);
        strbuf_addf(&s, "\n# %s by total time\n\n", heading);
        table_markdown(&t, &s);
        table_free(&t);
    }
    return write_text(dir, name, &s, err);
}

static int write_charts(const char *dir, const struct view *v, struct err *err) {
    char *folder = file_join(dir, "charts");
    int rc = file_mkdirs(folder, err);
    for (size_t i = 0; i < charts_n && rc == 0; i++) {
        struct strbuf s = STRBUF_INIT, name = STRBUF_INIT;
        if (charts[i].draw(v, &(struct chart_form){ 900, "chart", true }, &s)) {
            strbuf_addf(&name, "%s.svg", charts[i].name);
            rc = write_text(folder, name.buf, &s, err);
        }
        strbuf_free(&name);
        strbuf_free(&s);
    }
    free(folder);
    return rc;
}

/* Files with numbers are first, because they are the most important ones if the disk fills up. */
int report_write_all(const char *dir, const struct view *v, struct err *err) {
    int rc = write_document(dir, "metrics.json", v, report_metrics_json, err);
    if (rc == 0) rc = write_document(dir, "findings.json", v, metrics_findings_json, err);
    if (rc == 0) rc = write_csv(dir, "stages.csv", v, rows_stages_csv, err);
    if (rc == 0) rc = write_csv(dir, "kernels.csv", v, rows_kernels_csv, err);
    if (rc == 0) rc = write_csv(dir, "operators.csv", v, rows_operators_csv, err);
    if (rc == 0 && v->a && v->a->ngemms) rc = write_csv(dir, "gemms.csv", v, rows_gemms_csv, err);
    if (rc == 0 && v->a && v->a->nmemories) rc = write_csv(dir, "memory.csv", v, rows_memory_csv, err);
    if (rc == 0 && v->a && v->a->recognition.nsteps) rc = write_csv(dir, "steps.csv", v, rows_steps_csv, err);
    if (rc == 0 && v->a && v->a->anatomy) rc = write_csv(dir, "anatomy.csv", v, rows_anatomy_csv, err);
    if (rc == 0) rc = write_list(dir, "kernels.md", "Kernels", v, rows_kernels_md, NULL, err);
    if (rc == 0)
        rc = write_list(dir, "operators.md", "Operators", v, rows_operators_md, rows_operators_by_total_md,
                        err);
    if (rc == 0 && v->a && v->a->ngemms)
        rc = write_list(dir, "gemms.md", "Matrix products", v, rows_gemms_md, NULL, err);
    if (rc == 0) rc = write_charts(dir, v, err);
    if (rc == 0) rc = write_document(dir, "report.md", v, report_markdown, err);
    if (rc == 0) rc = write_document(dir, "stakeholder_summary.md", v, report_summary, err);
    if (rc == 0) rc = write_document(dir, "report.html", v, report_html, err);
    return rc;
}

int report_write_assumptions(const char *dir, const struct view *v, struct err *err) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addstr(&s, "# Assumptions of these numbers\n"
                      "\n");
    for (size_t i = 0; i < v->run->nassumptions; i++) {
        strbuf_addstr(&s, "- ");
        strbuf_add_printable(&s, v->run->assumptions[i], strlen(v->run->assumptions[i]));
        strbuf_addch(&s, '\n');
    }
    return write_text(dir, "assumptions.md", &s, err);
}

/* Untrusted metrics.json and ncu.json: read, filled in, compared with themselves, printed, and converted to
 * rows of the database of runs; also as files of a run folder, with the same bytes as its tags. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "history/record.h"
#include "report/compare.h"
#include "report/report.h"
#include "run/saved_metrics.h"
#include "run/ncu_profiles.h"

static char folder[MEMORY_FOLDER];
static const char *const file_names[] = { "metrics.json", "ncu.json", RECORD_TAGS, RECORD_UPLOAD };
enum { NAMES = sizeof file_names / sizeof *file_names };
static char paths[NAMES][64];

static void remove_folder(void) {
    for (int i = 0; i < NAMES; i++) remove(paths[i]);
    remove(folder);
}

/* All files are links to the first one. */
static void write_folder(const uint8_t *data, size_t size) {
    bool exists = paths[0][0] != '\0';
    for (int i = 0; !exists && i < NAMES; i++) {
        if (i == 0) memory_folder_make(folder);
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, file_names[i]);
    }
    int fd = open(paths[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    close(fd);
    for (int i = 1; !exists && i < NAMES; i++)
        if (link(paths[0], paths[i]) < 0) abort();
    if (!exists) atexit(remove_folder);
}

/* PostgreSQL rejects longer names and counts that are not whole. */
static void check_record(const struct saved_metrics *m) {
    struct run_record r = { 0 };
    run_record_fill(&r, m);
    const char *names[] = { r.model, r.device, r.engine, r.host, r.version };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] && (!*names[i] || strlen(names[i]) > 200)) __builtin_trap();
    if (!isnan(r.repeats) && r.repeats != floor(r.repeats)) __builtin_trap();
    for (size_t i = 0; i < r.stages.n; i++)
        if (strlen(r.stages.v[i].name) > 200) __builtin_trap();
    run_record_free(&r);
}

/* The folder must give what the text gives. */
static void check_folder(bool valid) {
    struct err err;
    struct run_record r;
    struct strlist warnings = { 0 };
    size_t values = 0;
    struct saved_metrics *m = saved_metrics_load_untrusted(paths[0], &values, &err);
    if (m && (!valid || !values)) abort();
    saved_metrics_close(m);
    ncu_profiles_close(ncu_profiles_load(folder, &warnings));
    strlist_free(&warnings);
    if ((run_record_read(&r, folder, &err) == 0) != valid) abort();
    for (size_t i = 0; i < r.tags.n; i++)
        if (!run_tag_valid(r.tags.v[i])) abort();
    if (r.digest && strlen(r.digest) != 64) abort();
    run_record_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    write_folder(data, size);
    ncu_profiles_close(ncu_profiles_parse((const char *)data, size, "fuzz", &err));
    struct saved_metrics *m = saved_metrics_parse((const char *)data, size, "fuzz", &err);
    check_folder(m != NULL);
    if (!m) return 0;
    check_record(m);
    struct run_info in;
    struct analyze_input input = saved_metrics_input(m);
    struct analysis a;
    struct comparison c;
    struct view v;
    struct strbuf out = STRBUF_INIT;
    run_info_init(&in);
    saved_metrics_fill(m, &in);
    analyze_run(NULL, &input, &a);
    in.analysis = &a;
    view_init(&v, &in);
    report_metrics_json(&v, &out);
    report_html(&v, &out);
    report_markdown(&v, &out);
    report_summary(&v, &out);
    view_free(&v);
    compare_sides(&(struct compare_side){ &m, 1 }, &(struct compare_side){ &m, 1 }, &c);
    compare_text(&c, COMPARE_MARKDOWN, 60, &out);
    compare_json(&c, &out);
    compare_free(&c);
    strbuf_free(&out);
    analysis_free(&a);
    saved_metrics_close(m);
    return 0;
}

#include "serve/job_log.h"

#include <stdbool.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/progress.h"

#define LINE_BYTES 2048   /* longer lines are split */
#define EVENTS_MOST 65536 /* bytes of events at a time */

/* Adds a progress line, such as "progress: timing 3 of 40 repeats", as an event. Returns false for other
 * lines. */
static bool add_progress(struct strbuf *out, const char *line) {
    char what[64] = "", unit[32] = "";
    unsigned long long done = 0, total = 0;
    struct jsonw j;
    if (strncmp(line, PROGRESS_LINE, strlen(PROGRESS_LINE)) != 0) return false;
    line += strlen(PROGRESS_LINE);
    bool counted = sscanf(line, "%63[a-z ]%llu of %llu %31[a-z ]", what, &done, &total, unit) == 4;
    if (!counted) snprintf(what, sizeof what, "%.63s", line);
    size_t n = strlen(what);
    while (n && what[n - 1] == ' ') what[--n] = '\0';
    strbuf_addstr(out, "event: progress\ndata: ");
    jsonw_start(&j, out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "what", what);
    if (counted) {
        jsonw_ku64(&j, "done", done);
        jsonw_ku64(&j, "total", total);
        jsonw_kstr(&j, "unit", unit);
    }
    jsonw_end(&j);
    jsonw_finish(&j);
    strbuf_addstr(out, "\n\n");
    return true;
}

/* Reads a line with its end, or its part up to the last carriage return. A job may write any bytes, also NUL.
 * Returns the number of bytes; 0: no line, or not complete yet. */
static size_t read_line(FILE *f, char line[LINE_BYTES]) {
    size_t n = 0, complete = 0;
    for (int c; n < LINE_BYTES && (c = getc(f)) != EOF;) {
        line[n++] = (char)c;
        if (c == '\n') return n;
        if (c == '\r') complete = n;
    }
    return n == LINE_BYTES ? n : complete;
}

static bool is_end(char c) { return c == '\n' || c == '\r'; }

static void add_line(struct strbuf *out, const char *line, size_t n) {
    if (add_progress(out, line)) return;
    strbuf_addstr(out, "event: log\ndata: ");
    strbuf_add_printable(out, line, n);
    strbuf_addstr(out, "\n\n");
}

void job_log_events(FILE *log, long *position, struct strbuf *out) {
    char line[LINE_BYTES + 1];
    size_t n;
    while (out->len < EVENTS_MOST && fseek(log, *position, SEEK_SET) == 0 && (n = read_line(log, line)) > 0) {
        size_t end = n, start;
        while (end > 0 && is_end(line[end - 1])) end--;
        for (start = end; start > 0 && !is_end(line[start - 1]);) start--;
        line[end] = '\0';
        add_line(out, line + start, end - start);
        *position += (long)n;
    }
}

#include "base/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

#define QUIET_START_NS 500000000u
#define REDRAW_NS 100000000u
#define LINE_NS 500000000u

static struct {
    bool active, drawn;
    bool lines; /* whole lines for another program, not a line that is redrawn */
    const char *what, *unit;
    uint64_t total, start_ns, last_ns, last_done;
    char note[80];
} bar;

void progress_start(const char *what, const char *unit, uint64_t total) {
    bool show = log_get_level() >= LOG_INFO && log_is_terminal();
    memset(&bar, 0, sizeof bar);
    const char *form = getenv("INFERPROF_PROGRESS");
    bar.lines = form && strcmp(form, "lines") == 0;
    bar.active = show || bar.lines;
    bar.what = what;
    bar.unit = unit;
    bar.total = total;
    bar.start_ns = clock_mono_ns();
    if (bar.lines && !total) fprintf(stderr, PROGRESS_LINE "%s\n", what);
}

void progress_note(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(bar.note, sizeof bar.note, fmt, ap);
    va_end(ap);
}

static void draw_line(uint64_t done, uint64_t now_ns) {
    char rate[32], left[32] = "";
    double seconds = (double)(now_ns - bar.start_ns) * 1e-9;
    double per_s = seconds > 0 ? (double)done / seconds : 0;
    units_count(per_s, rate, sizeof rate);
    progress_clear_line();
    fprintf(stderr, "%s", bar.what);
    if (bar.total) {
        fprintf(stderr, " %3.0f%%", 100.0 * (double)done / (double)bar.total);
        if (per_s > 0 && done <= bar.total)
            units_duration_ns((double)(bar.total - done) / per_s * 1e9, left, sizeof left);
    }
    if (bar.unit)
        fprintf(stderr, "  %s %s/s", rate, bar.unit);
    else
        fprintf(stderr, "  %.0f s", seconds);
    if (left[0]) fprintf(stderr, "  %s left", left);
    if (bar.note[0]) fprintf(stderr, "  %s", bar.note);
    fflush(stderr);
    bar.drawn = true;
    bar.last_ns = now_ns;
}

static void print_line(uint64_t done, uint64_t now_ns) {
    if (!bar.total) return;
    bool soon = done < bar.total && now_ns - bar.last_ns < LINE_NS;
    if (bar.last_ns && (done == bar.last_done || soon)) return;
    fprintf(stderr, PROGRESS_LINE "%s %" PRIu64 " of %" PRIu64 " %s\n", bar.what, done, bar.total,
            bar.unit ? bar.unit : "");
    bar.last_done = done;
    bar.last_ns = now_ns;
}

void progress_update(uint64_t done) {
    if (!bar.active) return;
    uint64_t now_ns = clock_mono_ns();
    if (bar.lines) {
        print_line(done, now_ns);
        return;
    }
    if (now_ns - bar.start_ns < QUIET_START_NS || now_ns - bar.last_ns < REDRAW_NS) return;
    draw_line(done, now_ns);
}

void progress_clear_line(void) {
    if (bar.drawn) fputs("\r\033[K", stderr);
    bar.drawn = false;
}

void progress_finish(void) {
    progress_clear_line();
    bar.active = false;
}

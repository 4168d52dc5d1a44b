/* The collector's settings, read once from the environment. One table holds them all; docs/run.md prints
 * it. */
#ifndef COLLECT_SETTINGS_H
#define COLLECT_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
    char dir[PATH_MAX];   /* "": the collector does nothing */
    char cupti[PATH_MAX]; /* which libcupti to load; "": the usual places */
    char raw[PATH_MAX];   /* CUPTI's buffers and calls are copied here as they come; "": no */
    char range[256];      /* glob; "": no restriction */
    char what[128];
    /* from `what` */
    bool kernels, copies, launches, syncs, nvtx, gemms;
    bool whole_graphs; /* a CUDA graph is one record, not one a kernel */
    bool empty;        /* records are thrown away unread */
    bool passing;      /* calls are watched and not recorded, as between windows */
    bool arms;         /* a range's name says what is captured in it, after its first space */
    uint64_t memory_bytes, max_file_bytes, buffer_bytes, flush_ms;
    uint64_t start_mono_ns; /* when the program was started; 0: not known */
    double delay_s, duration_s, budget_pct;
};

/* Fills in defaults and what the environment says. `complain` gets one sentence about each value that
 * cannot be used and each INFERPROF_COLLECT_ variable that does not exist. */
void settings_load(struct settings *s, void (*complain)(const char *fmt, ...));
/* Takes what is captured from a list of words; nvtx, once on, stays on. */
void settings_take_what(struct settings *s, const char *words, void (*complain)(const char *fmt, ...));
/* Walks the settings as text, for the trace: name without prefix in lower case, value; false past the
 * last. */
bool settings_at(const struct settings *s, unsigned i, char *name, unsigned long name_cap, char *value,
                 unsigned long value_cap);

#endif

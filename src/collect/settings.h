/* The collector's settings, read once from the environment, before the first thread is started. The table
 * in settings.c lists all variables; docs/run.md documents them. */
#ifndef COLLECT_SETTINGS_H
#define COLLECT_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
    char dir[PATH_MAX];   /* "": the collector does nothing */
    char cupti[PATH_MAX]; /* libcupti to load; "": search the usual places */
    char raw[PATH_MAX];   /* file for a tape of CUPTI's buffers and calls (raw.h); "": none */
    char notice[16];      /* where `inferprof run` receives messages (base/notice.h); "": nowhere */
    char range[256];      /* glob; "": no restriction */
    char what[128];
    /* from `what`, up to `passing` */
    bool kernels, copies, launches, syncs, nvtx, gemms;
    bool allocations;  /* record allocations of device memory; cannot be switched off again */
    bool whole_graphs; /* one record per launch of a CUDA graph instead of one per kernel */
    bool empty;        /* discard records without reading them, to measure CUPTI's own overhead */
    bool passing;      /* watch calls but do not record them, as between windows */
    bool arms;         /* for overhead measurements: words after the name of a range replace `what` */
    uint64_t memory_bytes, max_file_bytes, buffer_bytes, flush_ms;
    uint64_t wait_ms;                           /* maximum time that the program waits for the collector */
    uint64_t start_mono_ns;                     /* start time of the program; 0: unknown */
    uint64_t delay_us, duration_us, budget_ppm; /* 0: none */
    uint64_t replays; /* record the kernels of this many replays of each CUDA graph; 0: of all replays */
};

/* Sets the defaults and the values from the environment. Calls `warn` with one sentence per invalid value
 * and per unknown INFERPROF_COLLECT_ variable. */
void settings_load(struct settings *s, void (*warn)(const char *fmt, ...));
/* Returns `percent` of the time that the program waits for the collector, in ns. */
uint64_t settings_wait_ns(const struct settings *s, unsigned percent);
/* Sets what is captured from a comma-separated list of words. nvtx and allocations cannot be switched off
 * again. */
void settings_set_what(struct settings *s, const char *words, void (*warn)(const char *fmt, ...));
/* Returns setting `i` as text for the trace: the name in lower case without prefix, and the value. Returns
 * false after the last setting. */
bool settings_at(const struct settings *s, unsigned i, char *name, unsigned long name_cap, char *value,
                 unsigned long value_cap);

#endif

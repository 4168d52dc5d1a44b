/* The collector's settings, read once from the environment, before the first thread is started. docs/run.md
 * documents all variables. */
#ifndef COLLECT_SETTINGS_H
#define COLLECT_SETTINGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
    char dir[PATH_MAX];   /* "": the collector does nothing */
    char cupti[PATH_MAX]; /* libcupti; "": search */
    char raw[PATH_MAX];   /* tape file (raw.h); "": none */
    char notice[16];      /* address of `inferprof run` (base/notice.h) */
    char range[256];      /* glob; "": no restriction */
    /* glob: ranges in which CUPTI records kernels that are discarded; "": none */
    char warmup_range[256];
    char what[128];
    /* from `what`, up to `passing` */
    bool kernels, copies, launches, syncs, nvtx, gemms;
    bool allocations;  /* cannot be switched off again */
    bool whole_graphs; /* one record per graph launch */
    bool empty;        /* discard records unread, to measure CUPTI's own overhead */
    bool passing;      /* watch calls, but record none */
    bool arms;         /* For overhead measurements: words after the name of a range replace `what`. */
    uint64_t memory_bytes, max_file_bytes, buffer_bytes, flush_ms;
    uint64_t wait_ms;                           /* maximum wait at exit */
    uint64_t start_mono_ns;                     /* start of the program; 0: unknown */
    uint64_t delay_us, duration_us, budget_ppm; /* 0: none */
    uint64_t replays;                           /* recorded replays per CUDA graph; 0: all */
};

/* Reads the environment. Calls `warn` with one sentence per invalid value and per unknown INFERPROF_COLLECT_
 * variable. */
void settings_load(struct settings *s, void (*warn)(const char *fmt, ...));
/* Returns `percent` of wait_ms, in ns. */
uint64_t settings_wait_ns(const struct settings *s, unsigned percent);
/* Replaces `what` by a comma-separated list of words. nvtx and allocations cannot be switched off again. */
void settings_set_what(struct settings *s, const char *words, void (*warn)(const char *fmt, ...));
/* Writes the name (lower case, no prefix) and value of setting `i`. Returns false after the last setting. */
bool settings_at(const struct settings *s, unsigned i, char *name, unsigned long name_cap, char *value,
                 unsigned long value_cap);

#endif

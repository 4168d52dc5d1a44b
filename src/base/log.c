#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/progress.h"
#include "base/secret.h"

static const struct {
    const char *prefix, *file_tag, *color;
} levels[] = {
    [LOG_ERROR] = { "inferprof: ", "ERROR", "\033[31m" },
    [LOG_WARN] = { "warning: ", "WARN ", "\033[33m" },
    [LOG_INFO] = { "", "INFO ", "" },
    [LOG_DEBUG] = { "", "DEBUG", "\033[2m" },
};

static struct {
    enum log_level level;
    FILE *file;
    pthread_mutex_t lock;
    char *printed[LOG_REMEMBERED]; /* warnings and errors */
    size_t nprinted;
} state = { .level = LOG_INFO, .lock = PTHREAD_MUTEX_INITIALIZER };

void log_set_level(enum log_level max_level) { state.level = max_level; }
enum log_level log_get_level(void) { return state.level; }

static bool is_terminal(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool log_is_terminal(void) { return is_terminal(STDERR_FILENO); }

bool log_use_color(int fd) {
    const char *no = getenv("NO_COLOR");
    return (!no || !*no) && is_terminal(fd);
}

int log_open_file(const char *path, struct err *err) {
    FILE *f = fopen(path, "ae");
    if (!f) return err_set(err, "%s: %s", path, strerror(errno));
    log_close_file();
    state.file = f;
    return 0;
}

void log_close_file(void) {
    if (state.file) fclose(state.file);
    state.file = NULL;
}

static void write_to_file(enum log_level level, const char *text) {
    char when[32];
    uint64_t now = clock_wall_ns();
    fprintf(state.file, "%s.%03uZ %s %s\n", clock_format(now, "%Y-%m-%dT%H:%M:%S", 1, when, sizeof when),
            (unsigned)(now / 1000000 % 1000), levels[level].file_tag, text);
    fflush(state.file);
}

static void remember(const char *text) {
    if (state.nprinted == LOG_REMEMBERED) return;
    char *copy = strdup(text);
    if (copy) state.printed[state.nprinted++] = copy;
}

static bool begins_with(const char *text, const char *start) {
    return tolower((unsigned char)*text) == tolower((unsigned char)*start) && *start &&
           strncmp(text + 1, start + 1, strlen(start + 1)) == 0;
}

bool log_was_printed(const char *text) {
    bool found = false;
    pthread_mutex_lock(&state.lock);
    for (size_t i = 0; i < state.nprinted && !found; i++) found = begins_with(text, state.printed[i]);
    pthread_mutex_unlock(&state.lock);
    return found;
}

void log_at(enum log_level level, const char *fmt, ...) {
    va_list ap;
    char *text = NULL;
    if (level > state.level && !state.file) return;
    va_start(ap, fmt);
    /* no memory: print the format string */
    if (vasprintf(&text, fmt, ap) < 0) text = NULL;
    va_end(ap);
    if (text) {
        secret_mask(text);
        escape_in_place(text);
    }
    const char *shown = text ? text : fmt;
    pthread_mutex_lock(&state.lock);
    if (level <= state.level) {
        bool color = levels[level].color[0] && log_use_color(STDERR_FILENO);
        progress_clear_line();
        fprintf(stderr, "%s%s%s%s\n", color ? levels[level].color : "", levels[level].prefix, shown,
                color ? "\033[0m" : "");
        if (level <= LOG_WARN) remember(shown);
    }
    if (state.file) write_to_file(level, shown);
    pthread_mutex_unlock(&state.lock);
    free(text);
}

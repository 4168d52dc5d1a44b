/* Log messages to stderr and optionally to a file, never to stdout. Library code reports errors through
 * `struct err` instead. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level max_level); /* of stderr; default: INFO */
enum log_level log_get_level(void);
int log_open_file(const char *path, struct err *err); /* all levels, with timestamps */
void log_close_file(void);
bool log_is_terminal(void); /* stderr can redraw a line */
bool log_use_color(int fd); /* terminal with colors, no NO_COLOR */

/* Returns true if `text` begins with one of the first LOG_REMEMBERED warnings and errors on stderr. The case
 * of the first letter is ignored. */
bool log_was_printed(const char *text);
#define LOG_REMEMBERED 64

void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

#endif

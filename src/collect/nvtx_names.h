/* NVTX domains, registered strings and category names. The handles that the program gets are small numbers,
 * so that invalid handles are detected. Any thread may call these functions; tables only grow, so readers
 * take no lock. */
#ifndef COLLECT_NVTX_NAMES_H
#define COLLECT_NVTX_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "trace/writer.h"

enum nvtx_table { NVTX_DOMAINS, NVTX_STRINGS, NVTX_CATEGORIES, NVTX_TABLES };
#define NVTX_TEXT_MAX 1024

/* Adds a text and returns its number, starting at 1. Equal texts have equal numbers, except in NVTX_STRINGS.
 * Returns 0 on failure, for example if the table is full. */
uint32_t nvtx_name_add(enum nvtx_table table, const char *text);
/* "": no such number */
const char *nvtx_name_text(enum nvtx_table table, uint32_t number);
/* Returns the string id in the open trace file. 0: no such number. */
uint32_t nvtx_name_string(enum nvtx_table table, uint32_t number, struct trace_writer *w);
void nvtx_category_name(uint32_t domain, uint32_t category, const char *text);
/* Returns the string id of "category NAME". 0: the category has no name. */
uint32_t nvtx_category_string(uint32_t domain, uint32_t category, struct trace_writer *w);
void nvtx_utf8(const wchar_t *wide, char *out, size_t cap); /* converts to UTF-8; truncates */
void nvtx_names_after_fork(void);

#endif

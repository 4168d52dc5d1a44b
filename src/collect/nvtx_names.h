/* Domains, registered strings and named categories of NVTX. Handles given to the program are small numbers
 * dressed as pointers, so a stale or foreign one is recognised instead of followed. */
#ifndef COLLECT_NVTX_NAMES_H
#define COLLECT_NVTX_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "trace/writer.h"

enum nvtx_table { NVTX_DOMAINS, NVTX_STRINGS, NVTX_CATEGORIES, NVTX_TABLES };
#define NVTX_TEXT_MAX 1024

/* Number of a text in a table, the same for equal texts; counts from 1, 0: the table is full. */
uint32_t nvtx_name_add(enum nvtx_table table, const char *text);
const char *nvtx_name_text(enum nvtx_table table, uint32_t number); /* "" for what is not there */
/* Its number in the open file. */
uint32_t nvtx_name_string(enum nvtx_table table, uint32_t number, struct trace_writer *w);
void nvtx_category_name(uint32_t domain, uint32_t category, const char *text);
uint32_t nvtx_category_string(uint32_t domain, uint32_t category,
                              struct trace_writer *w); /* 0: has no name */
void nvtx_utf8(const wchar_t *wide, char *out, size_t cap);
void nvtx_names_after_fork(void);

#endif

/* Sends run folders to a server with libcurl, which is loaded on first use.
 *     struct push *p = push_open("http://host:8080", token, &err);
 *     push_run(p, "runs/20260102-030405-llama", &result, &err);
 *     push_close(p); */
#ifndef SERVE_PUSH_H
#define SERVE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct push;
struct push_result {
    char *name;     /* on the server, fit for a terminal; caller frees */
    bool existed;   /* server had the same content */
    uint64_t bytes; /* sent; 0 if the run existed */
};

struct push *push_open(const char *url, const char *token, struct err *err);
/* Sends a run, or continues its interrupted upload. Tries again a few times if the connection is lost or the
 * server is busy. */
int push_run(struct push *p, const char *dir, struct push_result *result, struct err *err);
void push_close(struct push *p); /* NULL is fine */

#endif

/* The engine protocol (docs/engine.md): one JSON object per line in, one per line out.
 *     struct protocol *p = protocol_open(version, NULL);     -- NULL: no progress
 *     while (protocol_line(p, line, n, &reply)) ...send reply...
 *     protocol_close(p);
 * protocol_serve() runs this loop over two streams. */
#ifndef ENGINE_PROTOCOL_PROTOCOL_H
#define ENGINE_PROTOCOL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "engine/protocol/request.h"

#define PROTOCOL_VERSION 1
#define PROTOCOL_MAX_LINE (16u << 20)

struct protocol;
struct protocol *protocol_open(const char *version, engine_progress *progress);
void protocol_close(struct protocol *p);
/* Serves one line (without newline); `reply` is one line without newline. Returns false after `bye`. */
bool protocol_line(struct protocol *p, const char *line, size_t n, struct strbuf *reply);
/* Runs until `bye` or the end of input. Returns -1 if a stream failed. */
int protocol_serve(struct protocol *p, FILE *in, FILE *out, struct err *err);

#endif

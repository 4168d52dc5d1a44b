/* Parses and checks one line of the engine protocol. */
#ifndef ENGINE_PROTOCOL_REQUEST_H
#define ENGINE_PROTOCOL_REQUEST_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"

enum protocol_op { PROTOCOL_HELLO, PROTOCOL_LOAD, PROTOCOL_WARMUP, PROTOCOL_INFER, PROTOCOL_BYE };

struct protocol_request {
    json_t *root;        /* owns every string below */
    const char *op_name; /* NULL: the line has no "op" */
    const json_t *id;    /* NULL: none */
    enum protocol_op op;
    struct engine_load load;
    struct engine_request infer;
    uint32_t rounds; /* number of times that a warmup runs the request */
    struct token_ids ids;
    struct token_ids *batch; /* [infer.nbatch] */
    const char **images;
};

/* Returns -1 on errors (see err); op_name and id are set if the line contains them. The caller must free
 * the result, also on errors. */
int protocol_request_parse(struct protocol_request *r, const char *line, size_t n, struct err *err);
void protocol_request_free(struct protocol_request *r);

#endif

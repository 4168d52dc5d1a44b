/* A line of the engine protocol: the reply must be one JSON object on one line. Load requests are skipped,
 * because they would read files that the input names. */
#include <stdlib.h>
#include <string.h>

#include "base/jsonr.h"
#include "engine/protocol/protocol.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct protocol_request r;
    struct strbuf reply = STRBUF_INIT;
    struct err err;
    if (size > 1 << 16 || memchr(data, '\n', size)) return 0;
    int rc = protocol_request_parse(&r, (const char *)data, size, &err);
    bool loads = rc == 0 && r.op == PROTOCOL_LOAD;
    protocol_request_free(&r);
    if (loads) return 0;
    struct protocol *p = protocol_open("0", NULL);
    protocol_line(p, (const char *)data, size, &reply);
    json_t *answer = jsonr_load_text(reply.buf, reply.len, "reply", &err);
    if (!json_is_object(answer) || memchr(reply.buf, '\n', reply.len)) abort();
    json_decref(answer);
    strbuf_free(&reply);
    protocol_close(p);
    return 0;
}

/* One line from an engine, read as each kind of reply. */
#include <stdint.h>

#include "fuzz/fuzz.h"
#include "session/engine_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *line = (const char *)data;
    struct engine_answer answer;
    struct engine_info info;
    struct err err;
    double ms;
    if (engine_reply_infer(line, size, 1, &answer, &err) == ENGINE_GOOD) engine_answer_free(&answer);
    if (engine_reply_info(line, size, "load", 1, &info, &err) == ENGINE_GOOD) engine_info_free(&info);
    engine_reply_warmup(line, size, 1, &ms, &err);
    return 0;
}

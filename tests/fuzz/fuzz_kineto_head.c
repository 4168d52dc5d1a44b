/* The members of a Chrome trace beside its events: process groups (pg_config), devices, versions. The first
 * byte chooses the member. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "import/kineto_head.h"
#include "import/sink.h"

static struct sink sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const members[] = { "distributedInfo", "deviceProperties", "cuda_runtime_version",
                                           "baseTimeNanoseconds", "host_name" };
    struct kineto_info info = { 0 };
    if (!size) return 0;
    size_t member = data[0] % (sizeof members / sizeof members[0]);
    char *text =
        malloc(size); /* the value has no terminating NUL inside its size: reads beyond it are found */
    if (!text) return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    sink_init(&sink, NULL);
    kineto_head_member(&sink, &info, members[member], text, size - 1);
    sink_free(&sink);
    free(text);
    return 0;
}

#include "base/schema.h"

#include <stdlib.h>
#include <string.h>

unsigned schema_version(const char *text, const char *schema) {
    size_t len = (size_t)(strchr(schema, '/') - schema) + 1;
    if (!text || strncmp(text, schema, len) != 0) return 0;
    char *end;
    unsigned long version = strtoul(text + len, &end, 10);
    return *end || version > 1000000 ? 0 : (unsigned)version;
}

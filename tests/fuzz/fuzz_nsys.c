/* Any bytes as a SQLite file of Nsight Systems. */
#include <sqlite3.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "import/nsys.h"

static struct sink sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sqlite3 *db = NULL;
    struct err err;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) return 0;
    unsigned char *copy = sqlite3_malloc64(size + 1);
    if (copy) {
        memcpy(copy, data, size);
        sqlite3_deserialize(db, "main", copy, (sqlite3_int64)size, (sqlite3_int64)size,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
        sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
        sink_init(&sink, NULL);
        nsys_import_db(db, "fuzz", &sink, &err);
        sink_free(&sink);
    }
    sqlite3_close(db);
    return 0;
}

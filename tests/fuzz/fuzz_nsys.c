/* Arbitrary bytes as a SQLite file of Nsight Systems, or, if they do not start with SQLite's header, as the
 * SQL that creates its tables. A changed byte in a file mostly breaks SQLite's pages. A changed byte in SQL
 * gives another schema, which the importer has to handle. */
#include <sqlite3.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "base/util.h"
#include "import/nsys.h"

#define VALUE_BYTES_MAX (1 << 16)
#define SQL_STEPS 20000 /* limit of SQLite instructions per script */

static struct sink sink;

/* Allows only tables and rows: scripts must not read files or run for long. */
static int allow(void *ctx, int action, const char *a, const char *b, const char *c, const char *d) {
    (void)ctx;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    static const int fine[] = { SQLITE_CREATE_TABLE, SQLITE_CREATE_VIEW, SQLITE_INSERT,     SQLITE_UPDATE,
                                SQLITE_READ,         SQLITE_SELECT,      SQLITE_TRANSACTION };
    for (size_t i = 0; i < COUNTOF(fine); i++)
        if (fine[i] == action) return SQLITE_OK;
    return SQLITE_DENY;
}

static int stop(void *ctx) { return ++*(int *)ctx > SQL_STEPS / 1000; }

/* Continues after a statement that fails. */
static void run_script(sqlite3 *db, const uint8_t *data, size_t size) {
    char *script = sqlite3_mprintf("%.*s", (int)size, (const char *)data);
    int steps = 0;
    sqlite3_set_authorizer(db, allow, NULL);
    sqlite3_progress_handler(db, 1000, stop, &steps);
    for (const char *at = script; at && *at;) {
        sqlite3_stmt *s = NULL;
        const char *next = NULL;
        if (sqlite3_prepare_v2(db, at, -1, &s, &next) == SQLITE_OK && s)
            while (sqlite3_step(s) == SQLITE_ROW) {}
        sqlite3_finalize(s);
        if (!next || next <= at) next = strchr(at, ';') ? strchr(at, ';') + 1 : NULL;
        at = next;
    }
    sqlite3_set_authorizer(db, NULL, NULL);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    sqlite3_free(script);
}

static void load_file(sqlite3 *db, const uint8_t *data, size_t size) {
    unsigned char *copy = sqlite3_malloc64(size + 1);
    if (!copy) return;
    memcpy(copy, data, size);
    sqlite3_deserialize(db, "main", copy, (sqlite3_int64)size, (sqlite3_int64)size,
                        SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sqlite3 *db = NULL;
    struct err err;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK) return 0;
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
    if (size >= 16 && memcmp(data, "SQLite format 3", 16) == 0)
        load_file(db, data, size);
    else
        run_script(db, data, size);
    sink_init(&sink, NULL);
    nsys_import_db(db, "fuzz", &sink, &err);
    sink_free(&sink);
    sqlite3_close(db);
    return 0;
}

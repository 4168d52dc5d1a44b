/* Runs as `report` loads them, from traces in a folder. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "run/load.h"
#include "trace/writer.h"
#include "unit/test.h"

static char *new_trace(const char *dir, const char *name, const char *rank, const char *world_size) {
    struct err err;
    char *path = file_join(dir, name);
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    trace_writer_meta(w, "rank", "%s", rank);
    trace_writer_meta(w, "world_size", "%s", world_size);
    trace_writer_meta(w, "launcher", "torchrun");
    CHECK_INT(trace_writer_close(w, &err), 0);
    return path;
}

static bool warns(const struct loaded_run *r, const char *text) {
    for (size_t i = 0; i < r->info.nwarnings; i++)
        if (strcmp(r->info.warnings[i], text) == 0) return true;
    return false;
}

TEST(ranks_without_a_trace_are_named) {
    struct loaded_run r;
    struct err err;
    char *dir = test_tmpdir();
    char *paths[] = { new_trace(dir, "a.ipt", "1", "4"), new_trace(dir, "b.ipt", "3", "4"),
                      new_trace(dir, "c.ipt", "1", "4") };
    CHECK_INT(run_load(&r, (const char *const *)paths, 3, NULL, &err), 0);
    CHECK(warns(&r, "2 of 4 ranks have no trace (0, 2): figures of the job do not include them."));
    run_unload(&r);
    for (int i = 0; i < 3; i++) free(paths[i]);
    free(dir);
}

/* The size is a claim of the trace. Visiting every rank took a minute. */
TEST(a_trace_of_a_huge_job_is_loaded_at_once) {
    struct loaded_run r;
    struct err err;
    char *dir = test_tmpdir(), *path = new_trace(dir, "a.ipt", "1", "4294967294");
    CHECK_INT(run_load(&r, (const char *const *)&path, 1, NULL, &err), 0);
    CHECK(warns(&r,
                "4294967293 of 4294967294 ranks have no trace (0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "
                "14, 15, 16, 17, 18, ...): figures of the job do not include them."));
    run_unload(&r);
    free(path);
    free(dir);
}

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/installed.h"
#include "base/strbuf.h"
#include "unit/test.h"

/* An installation in a fresh folder: DIR/app/bin/program. Paths are relative to DIR. */
struct tree {
    char *dir, *program;
};

static char *tree_path(const struct tree *t, const char *path) {
    char *joined = file_join(t->dir, path), *real = realpath(joined, NULL);
    free(joined);
    return real;
}

static void tree_add(const struct tree *t, const char *path) {
    struct err err;
    char *full = file_join(t->dir, path), *slash = strrchr(full, '/');
    *slash = '\0';
    CHECK_INT(file_mkdirs(full, &err), 0);
    *slash = '/';
    CHECK_INT(file_write_atomic(full, "", 0, &err), 0);
    CHECK_INT(chmod(full, 0755), 0);
    free(full);
}

static void tree_open(struct tree *t, const char *program) {
    t->dir = test_tmpdir();
    tree_add(t, program);
    t->program = file_join(t->dir, program);
}

static void tree_close(struct tree *t) {
    free(t->dir);
    free(t->program);
}

static void check_found(const struct tree *t, const char *name, const char *want) {
    struct err err;
    char *found = installed_find_for(t->program, name, &err), *expected = tree_path(t, want);
    CHECK(found != NULL);
    CHECK_STR(found, expected);
    free(found);
    free(expected);
}

static void check_missing(const struct tree *t, const char *name, const char *why) {
    struct err err;
    CHECK(installed_find_for(t->program, name, &err) == NULL);
    CHECK(strstr(err.msg, why) != NULL);
}

static void set_mode(const struct tree *t, const char *path, mode_t mode) {
    char *full = file_join(t->dir, path);
    CHECK_INT(chmod(full, mode), 0);
    free(full);
}

TEST(installed_files_come_from_lib_before_anything_beside_the_folder) {
    struct tree t;
    tree_open(&t, "app/bin/program");
    tree_add(&t, "app/helper");
    tree_add(&t, "helper");
    tree_add(&t, "engines/hf/worker.py");
    check_missing(&t, "helper", "was not found in");
    check_missing(&t, "engines/hf/worker.py", "was not found in");
    tree_add(&t, "app/lib/inferprof/helper");
    tree_add(&t, "app/lib/inferprof/engines/hf/worker.py");
    tree_add(&t, "app/bin/helper");
    check_found(&t, "helper", "app/lib/inferprof/helper");
    check_found(&t, "engines/hf/worker.py", "app/lib/inferprof/engines/hf/worker.py");
    tree_close(&t);
}

TEST(installed_files_come_from_parents_only_in_a_build_folder) {
    struct tree t;
    tree_open(&t, "source/build/clang/program");
    tree_add(&t, "source/engines/worker.py");
    check_missing(&t, "engines/worker.py", "was not found in");
    tree_add(&t, "source/build/clang/" INSTALLED_BUILD_MARKER);
    check_found(&t, "engines/worker.py", "source/engines/worker.py");
    set_mode(&t, "source", 0777);
    check_missing(&t, "engines/worker.py", "is writable for all users");
    set_mode(&t, "source", 0755);
    set_mode(&t, "source/build/clang", 01777); /* another user could have written the marker */
    check_missing(&t, "engines/worker.py", "was not found in");
    tree_close(&t);
}

TEST(installed_files_are_not_taken_from_a_world_writable_folder) {
    struct tree t;
    tree_open(&t, "app/bin/program");
    tree_add(&t, "app/lib/inferprof/helper");
    check_found(&t, "helper", "app/lib/inferprof/helper");
    set_mode(&t, "app/lib", 0777);
    check_missing(&t, "helper", "lib is writable for all users");
    set_mode(&t, "app/lib", 0755);
    set_mode(&t, "app", 01777); /* as /tmp */
    check_missing(&t, "helper", "is writable for all users");
    set_mode(&t, "app", 0755);
    set_mode(&t, "app/lib/inferprof/helper", 0777);
    check_missing(&t, "helper", "helper is writable for all users");
    tree_close(&t);
}

TEST(installed_files_of_another_user_are_not_used) {
    struct tree t;
    tree_open(&t, "app/bin/program");
    tree_add(&t, "app/lib/inferprof/helper");
    char *lib = file_join(t.dir, "app/lib/inferprof");
    bool given = geteuid() == 0 && chown(lib, 12345, (gid_t)-1) == 0;
    free(lib);
    if (!given) {
        tree_close(&t);
        SKIP("only root can give a folder to another user");
    }
    check_missing(&t, "helper", "lib/inferprof belongs to another user");
    CHECK_INT(chown(t.program, 12345, (gid_t)-1), 0); /* the owner of the program itself is trusted */
    check_found(&t, "helper", "app/lib/inferprof/helper");
    tree_close(&t);
}

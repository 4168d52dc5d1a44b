#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "base/err.h"
#include "base/file.h"
#include "base/scratch.h"
#include "unit/test.h"

static int count_entries(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

TEST(temporary_file_is_closed_on_exec_and_has_the_users_umask) {
    char *dir = test_tmpdir(), *path = file_join(dir, "out"), *temporary;
    struct stat st;
    int scratch;
    mode_t before = umask(027);
    int fd = file_make_temporary(path, &temporary, &scratch);
    umask(before);
    CHECK(fd >= 0 && scratch >= 0);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0640);
    close(fd);
    unlink(temporary);
    free(temporary);
    scratch_forget(scratch);
    CHECK_INT(file_make_temporary("/no/such/folder/out", &temporary, &scratch), -1);
    CHECK(temporary == NULL && scratch == -1);
    free(path);
    free(dir);
}

TEST(reading_a_named_pipe_without_a_writer_does_not_wait) {
    char *dir = test_tmpdir(), *path = file_join(dir, "fifo");
    struct strbuf s = STRBUF_INIT;
    struct err err;
    CHECK_INT(mkfifo(path, 0600), 0);
    CHECK_INT(file_open_regular(path, &err), -1);
    CHECK(strstr(err.msg, "a pipe or device") != NULL);
    CHECK_INT(file_read(path, 100, &s, &err), 0);
    CHECK_INT(s.len, 0);
    strbuf_free(&s);
    free(path);
    free(dir);
}

TEST(reading_a_pipe_whose_writer_is_silent_ends) {
    char *dir = test_tmpdir(), *path = file_join(dir, "fifo");
    struct strbuf s = STRBUF_INIT;
    struct err err;
    int limit = file_pipe_wait_ms;
    CHECK_INT(mkfifo(path, 0600), 0);
    int writer = open(path, O_RDWR | O_CLOEXEC);
    CHECK(writer >= 0);
    file_pipe_wait_ms = 20;
    CHECK_INT(file_read(path, 100, &s, &err), -1);
    CHECK(strstr(err.msg, "fifo: nothing was written to this pipe") != NULL);
    file_pipe_wait_ms = limit;
    close(writer);
    strbuf_free(&s);
    free(path);
    free(dir);
}

TEST(file_is_replaced_atomically) {
    char *dir = test_tmpdir(), *path = file_join(dir, "out.json");
    struct strbuf s = STRBUF_INIT;
    struct err err;
    CHECK_INT(file_write_atomic(path, "old", 3, &err), 0);
    struct file_atomic f;
    CHECK_INT(file_atomic_open(&f, path, &err), 0);
    fputs("half of the new", f.out);
    file_atomic_abort(&f);
    CHECK_INT(file_read(path, 100, &s, &err), 0);
    CHECK_STR(s.buf, "old");
    CHECK_INT(count_entries(dir), 1);
    CHECK_INT(file_write_atomic(path, "new", 3, &err), 0);
    strbuf_reset(&s);
    CHECK_INT(file_read(path, 100, &s, &err), 0);
    CHECK_STR(s.buf, "new");
    CHECK_INT(count_entries(dir), 1);
    strbuf_free(&s);
    free(path);
    free(dir);
}

TEST(failed_write_leaves_no_files) {
    char *dir = test_tmpdir(), *path = file_join(dir, "nosuch/out");
    struct err err;
    CHECK_INT(file_write_atomic(path, "x", 1, &err), -1);
    CHECK(strstr(err.msg, "nosuch/out: No such file or directory") != NULL);
    CHECK_INT(count_entries(dir), 0);
    free(path);
    free(dir);
}

TEST(write_does_not_replace_a_pipe) {
    char *dir = test_tmpdir(), *path = file_join(dir, "pipe");
    struct err err;
    struct stat st;
    CHECK_INT(mkfifo(path, 0600), 0);
    CHECK_INT(file_write_atomic(path, "x", 1, &err), -1);
    CHECK(strstr(err.msg, "pipe: a device or pipe") != NULL);
    CHECK_INT(stat(path, &st), 0);
    CHECK(S_ISFIFO(st.st_mode));
    CHECK_INT(count_entries(dir), 1);
    free(path);
    free(dir);
}

TEST(file_read_rejects_folders_and_large_files) {
    char *dir = test_tmpdir(), *path = file_join(dir, "big"), want[1024];
    struct strbuf s = STRBUF_INIT;
    struct err err;
    CHECK_INT(file_write_atomic(path, "123456", 6, &err), 0);
    CHECK_INT(file_read(path, 5, &s, &err), -1);
    snprintf(want, sizeof want, "%s: 6 bytes, the limit is 5", path);
    CHECK_STR(err.msg, want);
    CHECK_INT(file_read(dir, 5, &s, &err), -1);
    snprintf(want, sizeof want, "%s: is a folder, expected a file", dir);
    CHECK_STR(err.msg, want);
    CHECK_INT(s.len, 0);
    free(path);
    free(dir);
}

TEST(file_mkdirs_creates_parents_and_names_the_obstacle) {
    char *dir = test_tmpdir(), *deep = file_join(dir, "a/b/c"), *file = file_join(dir, "a/f"),
         *under = file_join(file, "x");
    struct err err;
    CHECK_INT(file_mkdirs(deep, &err), 0);
    CHECK_INT(file_mkdirs(deep, &err), 0);
    CHECK(file_is_dir(deep));
    CHECK_INT(file_write_atomic(file, "", 0, &err), 0);
    CHECK_INT(file_mkdirs(under, &err), -1);
    CHECK(strstr(err.msg, "a/f: Not a directory") != NULL);
    free(under);
    free(file);
    free(deep);
    free(dir);
}

TEST(err_wrap_prepends_context_and_never_overflows) {
    struct err err;
    char longer[2000];
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    err_set(&err, "cause %d", 1);
    CHECK_INT(err_wrap(&err, "loading %s", "x"), -1);
    CHECK_STR(err.msg, "loading x: cause 1");
    err_wrap(&err, "%s", longer);
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);
    err_set(&err, "%s", longer);
    err_wrap(&err, "ctx");
    CHECK_INT(strlen(err.msg), sizeof err.msg - 1);
    CHECK_INT(strncmp(err.msg, "ctx: yyy", 8), 0);
}

TEST(bytes_never_read_past_the_end) {
    const uint8_t data[] = { 0x80, 0x80, 1, 0xff };
    struct bytes in = { data, data + sizeof data };
    uint64_t v;
    uint32_t w;
    CHECK(bytes_varint(&in, &v));
    CHECK_INT(v, 1 << 14);
    CHECK(!bytes_varint(&in, &v));
    CHECK(!bytes_u32(&in, &w));
    CHECK_INT(bytes_left(&in), 1);
    const uint8_t too_long[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2 };
    in = (struct bytes){ too_long, too_long + sizeof too_long };
    CHECK(!bytes_varint(&in, &v));
    for (int64_t x = -300; x < 300; x++) CHECK_INT(unzigzag(zigzag(x)), x);
    CHECK(unzigzag(zigzag(INT64_MIN)) == INT64_MIN);
}

TEST(crc32_matches_gzip) {
    CHECK_INT(crc32_update(0, "123456789", 9), 0xcbf43926u);
    CHECK_INT(crc32_update(crc32_update(0, "1234", 4), "56789", 5), 0xcbf43926u);
}

TEST(file_ending_needs_a_stem) {
    CHECK(file_has_ending("a.json", ".json") && file_has_ending("d/a.b.json", ".json"));
    CHECK(!file_has_ending(".json", ".json") && !file_has_ending("a.jso", ".json") &&
          !file_has_ending("", ".json"));
    CHECK_INT(file_stem_bytes("d/a.ipt", ".ipt"), 3);
    CHECK_INT(file_stem_bytes("d/a.txt", ".ipt"), 7);
}

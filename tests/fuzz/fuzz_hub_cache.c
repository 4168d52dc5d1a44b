/* A Hugging Face cache folder with hostile contents: the input is the id of the model, a newline, and the
 * file refs/main. The folder that is found must be a snapshot inside the cache. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "session/hub_cache.h"

static char cache[MEMORY_FOLDER];
#define MODEL "/models--a--b"

static void put(const char *name, const void *data, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s" MODEL "/%s", cache, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    close(fd);
}

static void make_folder(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s" MODEL "%s", cache, name);
    if (mkdir(path, 0700) < 0) abort();
}

static void remove_cache(void) {
    static const char *const paths[] = {
        "/snapshots/0123/config.json", "/snapshots/0123", "/snapshots", "/refs/main", "/refs", ""
    };
    char path[256];
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        snprintf(path, sizeof path, "%s" MODEL "%s", cache, paths[i]);
        remove(path);
    }
    remove(cache);
}

static void make_cache(void) {
    static int made;
    if (made++) return;
    memory_folder_make(cache);
    setenv("HF_HUB_CACHE", cache, 1);
    make_folder("");
    make_folder("/refs");
    make_folder("/snapshots");
    make_folder("/snapshots/0123");
    put("snapshots/0123/config.json", "{}", 2);
    atexit(remove_cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    size_t len = line ? (size_t)(line - data) : 0;
    struct err err;
    make_cache();
    char *id = strndup((const char *)data, len);
    put("refs/main", line ? line + 1 : data, line ? size - len - 1 : size);
    char *found = id && hub_is_id(id) ? hub_cache_find(id, &err) : NULL;
    if (found && (strncmp(found, cache, strlen(cache)) != 0 || strstr(found, "/../"))) __builtin_trap();
    free(found);
    found = hub_cache_find("a/b", &err);
    if (found && !strstr(found, MODEL "/snapshots/")) __builtin_trap();
    free(found);
    free(id);
    return 0;
}

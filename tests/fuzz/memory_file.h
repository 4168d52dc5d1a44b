/* Makes bytes readable by path, as an anonymous file of this process:
 *     struct memory_file f = memory_file_open(data, size);
 *     ... f.path ...
 *     close(f.fd);
 * or a folder for files, in memory if the machine has such a file system: a disk is much slower.
 *     char folder[MEMORY_FOLDER];
 *     memory_folder_make(folder); */
#ifndef TESTS_FUZZ_MEMORY_FILE_H
#define TESTS_FUZZ_MEMORY_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory_file {
    int fd;
    char path[40];
};

static inline struct memory_file memory_file_open(const uint8_t *data, size_t size) {
    struct memory_file f = { .fd = memfd_create("fuzz", MFD_CLOEXEC) };
    if (f.fd < 0 || write(f.fd, data, size) != (ssize_t)size) abort();
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

#define MEMORY_FOLDER 32

static inline void memory_folder_make(char out[MEMORY_FOLDER]) {
    snprintf(out, MEMORY_FOLDER, "%s/fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(out)) abort();
}

#endif

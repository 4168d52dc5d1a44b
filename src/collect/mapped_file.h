/* A line of /proc/self/maps that names a file. */
#ifndef COLLECT_MAPPED_FILE_H
#define COLLECT_MAPPED_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct mapped_file {
    char *path;           /* in the line; without " (deleted)" */
    uint64_t from, to;    /* addresses */
    uint64_t file_offset; /* of `from` */
    bool deleted;
};

/* Parses a line such as "7f0000000000-7f0000100000 r--p 00000000 fe:01 1234   /models/a.gguf", without its
 * line end. Changes the line. Returns false if it names no file. Missing numbers are 0. */
bool mapped_file_parse(char *line, struct mapped_file *out);

#endif

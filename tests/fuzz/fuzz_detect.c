/* Detects the format of a file with arbitrary bytes. The first byte selects one of the file extensions
 * that matter. Either a format is found or an error is set, and the result for the bytes matches that for
 * a file. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "base/die.h"
#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = { "rank3.json", "a.nsys-rep", "a.qdrep", "trace" };
    if (size == 0) return 0;
    const char *name = names[data[0] % 4];
    char *head = xmalloc(size);
    memcpy(head, data + 1, size - 1);
    head[size - 1] = 0;
    const struct import_format *f = import_detect_head(name, head, size - 1);
    if (f && !f->name) abort();
    free(head);
    struct memory_file file = memory_file_open(data + 1, size - 1);
    struct err err = { "" };
    const struct import_format *as_file = import_detect(file.path, &err);
    if ((as_file == NULL) != (err.msg[0] != 0)) abort();
    bool by_name = strcmp(name, "a.nsys-rep") == 0 || strcmp(name, "a.qdrep") == 0;
    bool gzip = size >= 3 && data[1] == 0x1f && data[2] == 0x8b;
    if (!by_name && !gzip && size - 1 <= IMPORT_HEAD_BYTES && f != as_file) abort();
    close(file.fd);
    return 0;
}

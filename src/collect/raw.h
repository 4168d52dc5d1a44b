/* Writes the data that CUPTI delivers to a file (a tape), for replay in tests without a GPU (tests/mock).
 * Active only if INFERPROF_COLLECT_RAW names a file. Takes a lock and writes to disk. Any thread.
 * Format, little endian:
 *     "IPTAPE1\n", u32 CUPTI version, u32 0, then blocks of: u32 type, u32 bytes, payload
 *     1 text    u64 address, characters          the text at an address that a later block contains
 *     2 buffer  the records as CUPTI wrote them
 *     3 call    u32 domain, u32 callback id, u32 correlation, u32 thread, u64 start_ns, u64 end_ns,
 *               u64 address of the function's name */
#ifndef COLLECT_RAW_H
#define COLLECT_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum raw_block { RAW_TEXT = 1, RAW_BUFFER = 2, RAW_CALL = 3 };
struct raw_call {
    uint32_t domain, id, correlation, thread;
    uint64_t start_ns, end_ns, name;
};

void raw_start(uint32_t cupti_version);
bool raw_on(void);
void raw_buffer(uint8_t *buffer, size_t valid);
void raw_call(const struct raw_call *c);
void raw_after_fork(void);

#endif

/* CRC-32 (IEEE 802.3, as in gzip and PNG). Not from zlib, because the collector may only link libc. */
#ifndef BASE_CRC32_H
#define BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_update(uint32_t crc, const void *data, size_t n); /* start with 0; chain calls */

#endif

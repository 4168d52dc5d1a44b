#include "base/crc32.h"

#include <pthread.h>
#include <string.h>

/* Slicing by eight: table[k][b] is the CRC of byte b followed by k zero bytes. */
static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        table[0][b] = c;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++) table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t crc32_update(uint32_t crc, const void *data, size_t n) {
    const uint8_t *p = data;
    pthread_once(&once, fill_table);
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t lo, hi;
        memcpy(&lo, p, 4);
        memcpy(&hi, p + 4, 4);
        lo ^= crc;
        crc = table[7][lo & 0xff] ^ table[6][lo >> 8 & 0xff] ^ table[5][lo >> 16 & 0xff] ^
              table[4][lo >> 24] ^ table[3][hi & 0xff] ^ table[2][hi >> 8 & 0xff] ^
              table[1][hi >> 16 & 0xff] ^ table[0][hi >> 24];
    }
    while (n--) crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

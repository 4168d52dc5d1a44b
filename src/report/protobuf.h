/* Writes protobuf fields. */
#ifndef REPORT_PROTOBUF_H
#define REPORT_PROTOBUF_H

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/strbuf.h"

static inline void protobuf_varint(struct strbuf *s, uint64_t v) {
    uint8_t b[10];
    strbuf_add(s, b, (size_t)(bytes_put_varint(b, v) - b));
}
static inline void protobuf_key(struct strbuf *s, uint32_t field, uint32_t wire) {
    protobuf_varint(s, (uint64_t)field << 3 | wire);
}
static inline void protobuf_u64(struct strbuf *s, uint32_t field, uint64_t v) {
    protobuf_key(s, field, 0);
    protobuf_varint(s, v);
}
static inline void protobuf_fixed(struct strbuf *s, uint32_t field, const void *eight) {
    protobuf_key(s, field, 1);
    strbuf_add(s, eight, 8);
}
/* a text, or a message */
static inline void protobuf_bytes(struct strbuf *s, uint32_t field, const void *data, size_t n) {
    protobuf_key(s, field, 2);
    protobuf_varint(s, n);
    strbuf_add(s, data, n);
}
static inline void protobuf_text(struct strbuf *s, uint32_t field, const char *text) {
    protobuf_bytes(s, field, text, strlen(text));
}

#endif

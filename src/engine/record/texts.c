#include "engine/record/texts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"

/* A hash table with open addressing. If it has MOST entries, it is cleared, and texts are formatted again. */
enum { SLOTS = 1024, MOST = SLOTS / 2 };

struct record_texts {
    struct trace_writer *writer;
    bool no_shapes;
    uint32_t used;
    struct record_text slot[SLOTS]; /* name_at NULL: free */
};

struct record_texts *record_texts_open(bool no_shapes) {
    struct record_texts *t = xcalloc(1, sizeof *t);
    t->no_shapes = no_shapes;
    return t;
}

void record_texts_attach(struct record_texts *t, struct trace_writer *w) { t->writer = w; }

void record_texts_close(struct record_texts *t) { free(t); }

static uint64_t hash_of(const struct record_text *key) {
    uint64_t a =
        hash_fold((uintptr_t)key->name_at ^ 0xa0761d6478bd642fu, (uint64_t)key->m ^ 0x9e3779b97f4a7c15u);
    uint64_t b = hash_fold((uintptr_t)key->kernel_at ^ 0xe7037ed1a0b428dbu, (uint64_t)key->n ^ a);
    return hash_fold((uint64_t)key->k ^ 0x8ebc6af09c88c6e3u,
                     b ^ (uint64_t)key->type ^ (uint64_t)key->kv_type << 8);
}

static bool same_key(const struct record_text *a, const struct record_text *b) {
    return a->name_at == b->name_at && a->m == b->m && a->n == b->n && a->k == b->k &&
           a->kernel_at == b->kernel_at && a->type == b->type && a->kv_type == b->kv_type;
}

/* Returns the slot of the key; *fresh is set if the slot is new and has no texts yet. */
static struct record_text *place(struct record_texts *t, const struct record_text *key, bool *fresh) {
    uint64_t i = hash_of(key) % SLOTS;
    for (; t->slot[i].name_at; i = (i + 1) % SLOTS) {
        *fresh = false;
        if (same_key(&t->slot[i], key)) return &t->slot[i];
    }
    *fresh = true;
    if (t->used == MOST) {
        memset(t->slot, 0, sizeof t->slot);
        t->used = 0;
        i = hash_of(key) % SLOTS;
    }
    t->used++;
    t->slot[i] = *key;
    return &t->slot[i];
}

/* Returns true for the attention of a decoding step, whose number of keys grows by one per token. Each exact
 * number would add a text and a table row, so the shape shows the number rounded up to 64, 128, 256 and so
 * on. FLOPs and bytes are exact. */
static bool has_growing_keys(const struct record_op *op) {
    return strcmp(op->kernel, "attention_decode") == 0;
}

static long key_room(long keys) {
    long room = 64;
    while (room < keys && room <= LONG_MAX / 2) room *= 2;
    return room;
}

static void add_detail(const struct record_op *op, char *out, size_t cap) {
    const char *type = dtype_name(op->type), *kv = dtype_name(op->kv_type);
    if (has_growing_keys(op))
        snprintf(out, cap, "q[%ld,%ld]f32 kv[<=%ld,%ld]%s", op->m, op->k, key_room(op->n), op->k, kv);
    else if (strncmp(op->kernel, "attention", 9) == 0)
        snprintf(out, cap, "q[%ld,%ld]f32 kv[%ld,%ld]%s", op->m, op->k, op->n, op->k, kv);
    else if (op->k)
        snprintf(out, cap, "x[%ld,%ld]f32 w[%ld,%ld]%s", op->m, op->k, op->n, op->k, type);
    else if (op->n)
        snprintf(out, cap, "x[%ld,%ld]f32", op->m, op->n);
    else
        snprintf(out, cap, "x[%ld]f32", op->m);
}

const struct record_text *record_texts_find(struct record_texts *t, const struct record_op *op) {
    struct record_text key = { .name_at = op->name,
                               .kernel_at = op->kernel,
                               .m = op->m,
                               .n = op->n,
                               .k = op->k,
                               .type = op->type,
                               .kv_type = op->kv_type };
    if (has_growing_keys(op)) key.n = key_room(op->n);
    bool fresh;
    struct record_text *text = place(t, &key, &fresh);
    if (!fresh) return text;
    char buf[160];
    text->name = trace_writer_str(t->writer, op->name);
    if (!t->no_shapes) {
        add_detail(op, buf, sizeof buf);
        text->detail = trace_writer_str(t->writer, buf);
    }
    snprintf(buf, sizeof buf, "%s_%s", op->kernel, dtype_name(op->type));
    text->kernel = trace_writer_str(t->writer, buf);
    return text;
}

uint32_t record_texts_range(struct record_texts *t, const char *name, int index) {
    bool fresh;
    struct record_text *text = place(t, &(struct record_text){ .name_at = name, .m = index }, &fresh);
    if (fresh) {
        char buf[128];
        snprintf(buf, sizeof buf, name, index);
        text->name = trace_writer_str(t->writer, buf);
    }
    return text->name;
}

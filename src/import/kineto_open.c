#include "import/kineto_open.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/vec.h"

bool kineto_open_push(struct kineto_open *o, uint64_t key, const struct kineto_record *r) {
    uint32_t at = o->free_list;
    if (at) {
        o->free_list = o->v[at - 1].next;
    } else {
        if (o->n == KINETO_OPEN_MAX) return false;
        vec_reserve(o, o->n + 1);
        at = (uint32_t)++o->n;
    }
    uint32_t *head = &o->heads[hash_u64(key) % KINETO_OPEN_BUCKETS];
    o->v[at - 1] = (struct kineto_open_entry){ .record = *r, .key = key, .next = *head };
    *head = at;
    o->count++;
    return true;
}

static void remove_entry(struct kineto_open *o, uint32_t *link, struct kineto_record *out) {
    uint32_t at = *link;
    struct kineto_open_entry *e = &o->v[at - 1];
    *out = e->record;
    *link = e->next;
    e->next = o->free_list;
    o->free_list = at;
    o->count--;
}

bool kineto_open_pop(struct kineto_open *o, uint64_t key, struct kineto_record *out) {
    uint32_t *link = &o->heads[hash_u64(key) % KINETO_OPEN_BUCKETS];
    while (*link && o->v[*link - 1].key != key) link = &o->v[*link - 1].next;
    if (!*link) return false;
    remove_entry(o, link, out);
    return true;
}

bool kineto_open_any(struct kineto_open *o, struct kineto_record *out) {
    for (size_t i = 0; o->count && i < KINETO_OPEN_BUCKETS; i++)
        if (o->heads[i]) {
            remove_entry(o, &o->heads[i], out);
            return true;
        }
    return false;
}

void kineto_open_free(struct kineto_open *o) {
    free(o->v);
    o->v = NULL;
}

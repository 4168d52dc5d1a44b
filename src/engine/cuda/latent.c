#include "engine/cuda/latent.h"

#include <stdio.h>

#include "base/util.h"

enum { THREADS = 256 };

bool cuda_latent_fits(const struct decode_plan *p) {
    return p->rank <= LATENT_MOST_RANK && p->rank + p->rotated <= LATENT_MOST_ROW &&
           p->nope + p->rotated <= LATENT_MOST_QUERY && p->value % 4 == 0 && p->heads * p->value % 8 == 0 &&
           p->rope->dims == p->rotated;
}

/* The kernels of attend. Tiles: only for batches, because it rounds queries and weights to bf16, as the
 * products of batches do with their inputs. */
struct attend {
    const char *name;
    int heads;             /* per block */
    int blocks;            /* wanted per multiprocessor */
    unsigned shared_bytes; /* dynamic */
};
static struct attend attend_of(int rank, int rope, int heads, bool narrow_cache, int sequences) {
    enum { TILES_BYTES = 2 * LATENT_TILE_KEYS * LATENT_TILE_ROW * 2 };
    bool wide = narrow_cache && rank == LATENT_WIDE_RANK && rope == LATENT_WIDE_ROPE;
    if (wide && sequences > 1 && heads % LATENT_TILE_HEADS == 0)
        return (struct attend){ "latent_attend_tiles", LATENT_TILE_HEADS, 1, TILES_BYTES };
    if (wide && heads % LATENT_WIDE_HEADS == 0)
        return (struct attend){ "latent_attend_wide", LATENT_WIDE_HEADS, 2, 0 };
    return (struct attend){ narrow_cache ? "latent_attend_bf16" : "latent_attend_f32", 1, 2, 0 };
}

int cuda_latent_splits(const struct cuda *c, const struct decode_plan *p, enum dtype cache, int sequences) {
    struct attend k = attend_of(p->rank, p->rotated, p->heads, cache == DTYPE_BF16, sequences);
    int blocks = p->heads / k.heads * sequences;
    return MIN(MAX(k.blocks * c->sms / blocks, 1), (int)LATENT_MOST_SPLITS);
}

struct latent_args cuda_latent_args(const struct cuda *c, const struct decode_plan *p,
                                    const struct decode_layer *l, int sequences) {
    return (struct latent_args){ .sequences = sequences,
                                 .norm = pointer_of(l->kv_a_norm),
                                 .eps = p->latent_eps,
                                 .scale = p->scale,
                                 .cosine = pointer_of(p->rope->cosine),
                                 .sine = pointer_of(p->rope->sine),
                                 .interleaved = p->rope->interleaved,
                                 .kv_b = pointer_of(l->kv_b.w.data),
                                 .cache = pointer_of(l->keys),
                                 .narrow_cache = l->keys->type == DTYPE_BF16,
                                 .heads = p->heads,
                                 .nope = p->nope,
                                 .value = p->value,
                                 .rank = p->rank,
                                 .rope = p->rotated,
                                 .splits = cuda_latent_splits(c, p, l->keys->type, sequences),
                                 .max_context = p->max_context };
}

static void launch(struct cuda *c, const char *name, size_t x, size_t y, unsigned shared_bytes,
                   struct latent_args *a) {
    cuda_launch_named(c, MODULE_decode_latent, name,
                      GRID(x, y, .threads = THREADS, .shared_bytes = shared_bytes), 1, a);
}

void cuda_launch_latent(struct cuda *c, struct latent_args *a, enum dtype weights) {
    char name[64];
    bool many = a->sequences > 1;
    struct attend k = attend_of(a->rank, a->rope, a->heads, a->narrow_cache, a->sequences);
    int group = many ? LATENT_GROUP : 1; /* sequences per block of begin and end */
    size_t heads = (size_t)a->heads, slices = ((size_t)a->rank + LATENT_COLUMNS - 1) / LATENT_COLUMNS,
           groups = (size_t)((a->sequences + group - 1) / group);
    snprintf(name, sizeof name, "latent_begin_%s%s", many ? "many_" : "", dtype_name(weights));
    launch(c, name, heads * slices + (size_t)group, groups, 0, a);
    launch(c, k.name, heads / (size_t)k.heads * (size_t)a->splits, (size_t)a->sequences, k.shared_bytes, a);
    snprintf(name, sizeof name, "latent_end_%s%s", many ? "many_" : "", dtype_name(weights));
    launch(c, name, heads * LATENT_END_BLOCKS, groups, 0, a);
}

/* How the persistent kernel (persistent.cu) divides a step among its blocks, and the order of its stored
 * weights. The host, its tests and the kernel share these definitions.
 * Weights are stored in blocks of 16 x 16 numbers (512 bytes), in the order of mma.m16n8k16. A tile is 16
 * rows. A unit is a part of a tile, or several small tiles, that are copied and multiplied at once; at
 * most P_SLOT_BYTES. */
#ifndef ENGINE_CUDA_PERSISTENT_LAYOUT_H
#define ENGINE_CUDA_PERSISTENT_LAYOUT_H

#ifdef __CUDACC__
#define PERSISTENT_BOTH static __host__ __device__ __forceinline__
#else
#define PERSISTENT_BOTH static inline
#endif

/* The shapes of DeepSeek-OCR's decoder, the only model that this kernel runs. */
enum {
    P_HIDDEN = 1280,
    P_HEADS = 10,
    P_DIM = 128,
    P_EXPERTS = 64,
    P_CHOSEN = 6,
    P_SLOTS = 8, /* the chosen experts and the two halves of the shared expert */
    P_INNER = 896,
    P_DENSE = 6848 /* rows of the dense layer, which is stored as eight experts, padded with zeros */
};

enum {
    P_BLOCK_BYTES = 512,
    P_STEPS = P_HIDDEN / 16, /* blocks per tile of width 1280: 80 */
    P_UNIT_STEPS = 20,       /* blocks per unit of a tile of width 1280 */
    P_TILE_UNITS = 4,        /* units per tile of width 1280, and per tile of down */
    P_SLOT_BYTES = P_UNIT_STEPS * P_BLOCK_BYTES,
    P_HEAD_TILES = 3 * P_DIM / 16, /* tiles of q, k and v per head: 24 */
    P_OUT_TILES = P_HIDDEN / 16,   /* tiles of the output projection and of down: 80 */
    P_OUT_STEPS = P_DIM / 16,      /* blocks per tile and head of the output projection: 8 */
    P_UP_TILES = P_INNER / 8,      /* tiles of eight gate and eight up rows per expert: 112 */
    P_DOWN_STEPS = P_INNER / 16,   /* blocks per tile and expert of down: 56 */
    P_DOWN_UNIT_STEPS = 14,        /* blocks per unit of a tile of down */
    P_RING = 20,                   /* slots of the ring */
    P_CONSUMERS = 10,              /* warps that multiply */
    P_PRODUCERS = 4,               /* warps that copy */
    P_ROUND_UNITS = 64             /* most units between two barriers of the consumers */
};

/* Returns the index of number (row, column) within a block of 16 x 16 numbers. */
PERSISTENT_BOTH int persistent_place(int row, int column) {
    int lane = row % 8 * 4 + column % 8 / 2, part = row / 8 + column / 8 * 2;
    return lane * 8 + part * 2 + column % 2;
}

/* Returns the index of element i of a vector that is multiplied with blocks of stored weights. Each
 * element is the sum of two bf16 numbers: part 0 is the rounded element, part 1 is the rest. */
PERSISTENT_BOTH int persistent_vector_place(int i, int part) {
    int step = i / 16, k = i % 16, lane = part * 4 + k % 8 / 2, word = k / 8;
    return ((step * 8 + lane) * 2 + word) * 2 + k % 2;
}

struct persistent_range {
    int first, end;
};
PERSISTENT_BOTH struct persistent_range persistent_part(long items, int index, int of) {
    struct persistent_range r = { (int)(items * index / of), (int)(items * (index + 1) / of) };
    return r;
}

/* The tiles of one block of the kernel, as ranges. */
struct persistent_share {
    int head, rank, ranks; /* the block is number `rank` of the `ranks` blocks of a head; head -1: none */
    struct persistent_range qkv;    /* within the head's P_HEAD_TILES tiles */
    struct persistent_range out;    /* within the P_OUT_TILES tiles of the head's output projection */
    struct persistent_range shared; /* within the 2 * P_UP_TILES tiles of the shared expert */
    struct persistent_range chosen; /* within the P_CHOSEN * P_UP_TILES tiles of the chosen experts */
    struct persistent_range down;   /* within the P_SLOTS * P_OUT_TILES tiles of down */
    struct persistent_range vocab;  /* within the vocab / 16 tiles of the matrix that computes logits */
};

PERSISTENT_BOTH struct persistent_share persistent_share_of(int block, int blocks, int vocab) {
    struct persistent_share s = { -1,       0,        blocks / P_HEADS, { 0, 0 }, { 0, 0 },
                                  { 0, 0 }, { 0, 0 }, { 0, 0 },         { 0, 0 } };
    if (block < s.ranks * P_HEADS) {
        s.head = block / s.ranks;
        s.rank = block % s.ranks;
        s.qkv = persistent_part(P_HEAD_TILES, s.rank, s.ranks);
        s.out = persistent_part(P_OUT_TILES, s.rank, s.ranks);
    }
    /* the number of shared plus chosen tiles differs by at most one between blocks */
    struct persistent_range all = persistent_part((long)P_SLOTS * P_UP_TILES, block, blocks);
    s.shared = persistent_part(2L * P_UP_TILES, block, blocks);
    s.chosen.first = all.first - s.shared.first;
    s.chosen.end = all.end - s.shared.end;
    s.down = persistent_part((long)P_SLOTS * P_OUT_TILES, block, blocks);
    s.vocab = persistent_part(vocab / 16, block, blocks);
    return s;
}

/* Bytes of the stored weights of a layer. */
enum {
    P_QKV_BYTES = P_HEADS * P_HEAD_TILES * P_STEPS * P_BLOCK_BYTES,
    P_OUT_BYTES = P_HEADS * P_OUT_TILES * P_OUT_STEPS * P_BLOCK_BYTES,
    P_ROUTER_BYTES = P_EXPERTS / 16 * P_STEPS * P_BLOCK_BYTES,
    P_UP_BYTES = P_UP_TILES * P_STEPS * P_BLOCK_BYTES,        /* per expert */
    P_DOWN_BYTES = P_OUT_TILES * P_DOWN_STEPS * P_BLOCK_BYTES /* per expert */
};

enum { P_MOST_LAYERS = 16 };
enum { P_SHARED_BYTES = 227 << 10 }; /* all shared memory that one block can use on Hopper */

/* ---- arguments */
struct persistent_layer {
    const char *qkv, *out, *router, *up, *down; /* stored weights; router NULL: the dense layer */
    const float *norm1, *norm2;
    unsigned short *keys, *values; /* bf16 [heads][max_context][dim] */
};

/* Counters and sums, cleared before every launch. The kernel reads the sums in pairs, so their offsets are
 * multiples of 16. */
struct persistent_sync {
    long long out_sums[P_HIDDEN], down_sums[P_HIDDEN], logits[P_EXPERTS]; /* fixed point, 2^-32 */
    unsigned grid[32];           /* [0]: arrivals at barriers of all blocks; the rest is padding */
    unsigned heads[P_HEADS][32]; /* [head][0]: arrivals at barriers of the head's blocks */
    unsigned long long best[2];  /* the best token of even and of odd steps: score and id */
    unsigned stop, pad[3];       /* stop: end after this many steps; 0: do not stop */
};

/* The wait that timed out; in host memory. */
struct persistent_fault {
    int set, block, place, epoch;
};

enum { P_PHASES = 16 };

struct persistent_args {
    const struct persistent_layer *layer;
    int layers, steps, vocab, max_context;
    float eps, scale;
    struct decode_state *state;
    const struct decode_rules *rules;
    const unsigned short *embed;
    const float *norm;
    const char *head;
    const float *cosine, *sine;
    struct persistent_sync *sync;
    float *qkv;   /* [3][heads][dim] */
    float *parts; /* [heads][ranks][dim + 4] */
    float *h;     /* [slots][inner] */
    float *x, *logits;
    int *sequence, *ban_list, *out;
    unsigned *ban_bits;
    const int *host_stop;           /* host memory; not 0: stop after the current step */
    struct persistent_fault *fault; /* host memory */
    unsigned long long limit_ns;    /* longest wait */
    unsigned long long *times;      /* [blocks][P_PHASES]: ns per phase in all steps; NULL: not measured */
    int depth, head_depth;          /* most copies in flight per producer, in the layers and in the head */
    int delay;                      /* not 0: random delays before barriers, for tests */
    /* arrivals per phase of a barrier in shared memory at which one warp arrives: 1; for racecheck 32 */
    int arrivals;
};

/* A matrix that persistent_store() writes in the kernel's order. */
struct persistent_pack {
    const unsigned short *first, *second; /* second not NULL: rows 8 to 15 of each tile come from it */
    unsigned short *to;
    long row;          /* distance between rows, in numbers */
    int tiles, steps;  /* blocks [tiles][steps] */
    int rows, columns; /* size of the matrix; numbers outside are zeros */
    int paired_tiles;  /* true: order [tiles / 2][steps][2] */
};

#endif

/* Runs kernels on the CPU: a reader and an interpreter of PTX, the assembly language that nvcc writes. It
 * is for tests of the CUDA engine on machines without a GPU. It checks every access to memory and every
 * barrier; it does not model time, caches, or kernels that overlap.
 *     parse.c   text to instructions; mnemonic.c: their names
 *     run.c     blocks, warps and barriers: which instruction is next
 *     alu.c     arithmetic, comparisons, conversions
 *     memory.c  addresses, loads and stores, asynchronous copies, barriers in shared memory
 *     matrix.c  products of matrices (mma, wgmma)
 *     driver.c  libcuda.so.1: the functions of NVIDIA's driver that the engine calls
 *
 * Registers. A row has the values of one register in the 32 lanes of a warp: 32 x 4 bytes, or 32 x 8 bytes
 * for 64-bit registers. A predicate is a mask of lanes. Addresses are addresses of this process, except in
 * shared memory, where they are offsets in the block's memory, as in the hardware. */
#ifndef TESTS_PTX_H
#define TESTS_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 32 };

/* clang-format off */
/* X(name in the enum, name in the text, bytes) */
#define PTX_TYPES(X) \
    X(PRED, pred, 4) X(B8, b8, 1) X(B16, b16, 2) X(B32, b32, 4) X(B64, b64, 8) X(U8, u8, 1) \
    X(U16, u16, 2) X(U32, u32, 4) X(U64, u64, 8) X(S8, s8, 1) X(S16, s16, 2) X(S32, s32, 4) X(S64, s64, 8) \
    X(F16, f16, 2) X(BF16, bf16, 2) X(F32, f32, 4) X(F64, f64, 8) X(F16X2, f16x2, 4) \
    X(BF16X2, bf16x2, 4) X(E4M3X2, e4m3x2, 2)
enum ptx_type {
    T_NONE,
#define X(type, name, bytes) T_##type,
    PTX_TYPES(X)
#undef X
};

/* X(mnemonic): the first word of an instruction. */
#define PTX_OPS(X) \
    X(abs) X(add) X(and) X(atom) X(bar) X(barrier) X(bfe) X(bfi) X(bfind) X(bra) X(brev) X(call) \
    X(clz) X(copysign) X(cp) X(cvt) X(cvta) X(div) X(ex2) X(exit) X(fence) X(fma) X(griddepcontrol) \
    X(ld) X(ldmatrix) X(lg2) X(mad) X(mapa) X(max) X(mbarrier) X(membar) X(min) X(mma) X(mov) \
    X(mul) X(nanosleep) X(neg) X(not) X(or) X(popc) X(prmt) X(rcp) X(red) X(redux) X(rem) X(ret) \
    X(rsqrt) X(selp) X(setmaxnreg) X(setp) X(shfl) X(shl) X(shr) X(sqrt) X(st) X(sub) X(trap) \
    X(vote) X(wgmma) X(xor)
enum ptx_op {
#define X(name) OP_##name,
    PTX_OPS(X)
#undef X
    OP_COUNT
};

enum ptx_space {
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_CLUSTER,
    SPACE_CONST,
    SPACE_PARAM,
    SPACE_LOCAL
};

/* Modifiers that distinguish instructions of one mnemonic: halves of products; comparisons, from equ on
 * also true if a number is NaN; lanes; operations on memory and of redux; barriers; copies; matrices;
 * addresses. */
#define PTX_VARIANTS(X) \
    X(LO, lo) X(HI, hi) X(WIDE, wide) \
    X(EQ, eq) X(NE, ne) X(LT, lt) X(LE, le) X(GT, gt) X(GE, ge) X(NUM, num) \
    X(EQU, equ) X(NEU, neu) X(LTU, ltu) X(LEU, leu) X(GTU, gtu) X(GEU, geu) X(NAN, nan) \
    X(BFLY, bfly) X(IDX, idx) X(UP, up) X(DOWN, down) X(BALLOT, ballot) X(ANY, any) X(ALL, all) \
    X(ADD, add) X(MIN, min) X(MAX, max) X(AND, and) X(OR, or) X(EXCH, exch) X(CAS, cas) \
    X(WARP, warp) X(ARRIVE, arrive) X(WAIT, wait) X(INIT, init) X(EXPECT, expect_tx) \
    X(TRY_WAIT, try_wait) X(COMMIT, commit_group) X(WAIT_GROUP, wait_group) X(BULK, bulk) X(TENSOR, tensor) \
    X(PREFETCH, prefetch) X(MULTIPLY, mma_async) X(TO, to)
enum ptx_variant {
    V_NONE,
#define X(variant, name) V_##variant,
    PTX_VARIANTS(X)
#undef X
};

/* clang-format on */

enum ptx_rounding { R_NEAREST, R_ZERO, R_DOWN, R_UP };

enum ptx_operand_kind {
    O_REG,    /* row at `at` of the warp's registers */
    O_VALUE,  /* row with the same value in all lanes */
    O_PARAM,  /* address of a parameter of the kernel */
    O_LOCAL,  /* address in the lane's local memory */
    O_TIMER,  /* the time in ns */
    O_NOTHING /* "_" */
};

struct ptx_operand {
    uint8_t kind;
    bool wide, pred; /* of a register */
    bool slot;       /* a register that is a parameter of a function */
    uint32_t at;     /* O_REG: bytes from the start of the warp's registers; O_PARAM, O_LOCAL: offset */
    int64_t plus;    /* is added to an address */
    void *row;       /* O_VALUE */
};

struct ptx_warp;
struct ptx_ins;
/* Runs an instruction for the lanes of a mask. */
typedef void ptx_do(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask);

struct ptx_ins {
    ptx_do *run;                        /* NULL: run.c runs it */
    uint8_t op, variant, space, vector; /* vector: values of a load or store */
    uint8_t type, from;                 /* from: type of the source of a conversion */
    uint8_t rounding;
    bool ftz, saturate, volatile_, transposed;
    bool unpacks;             /* a register into parts */
    bool together;            /* lanes have to meet for it */
    int8_t guard_sense;       /* of @p: 1, @!p: 0; -1: no guard */
    uint16_t noperands, size; /* size: columns of a product, matrices of ldmatrix */
    uint32_t guard;           /* row of the predicate */
    uint32_t operands;        /* index of the first one */
    uint32_t target;          /* of a branch: index of an instruction */
    uint32_t line;            /* in the file */
};

struct ptx_kernel {
    const char *name;
    struct ptx_module *module;
    const char *signature, *body; /* in the text */
    struct {
        uint32_t *offset;
        uint32_t *bytes;
        char **name;
        size_t n, cap;
    } params;
    uint32_t param_bytes, shared_bytes, local_bytes, reg_bytes;
    uint32_t first_line;
    bool parsed;
    struct {
        struct ptx_ins *v;
        size_t n, cap;
    } code;
    struct {
        struct ptx_operand *v;
        size_t n, cap;
    } operands;
};

/* One file of PTX. */
struct ptx_module {
    char *path, *text;
    struct ptx_variable {
        char *name;
        enum ptx_space space;
        size_t bytes, align;
        uint8_t *data;   /* of const and global variables */
        bool is_dynamic; /* extern shared memory: after the static one */
    } * variables;
    size_t nvariables, variables_cap;
    struct ptx_kernel *kernels;
    size_t nkernels, kernels_cap;
};

/* ---- mnemonic.c */
int ptx_type_bytes(enum ptx_type t);
enum ptx_type ptx_type_named(const char *name); /* T_NONE: unknown */
/* Reads "ld.global.nc.f32". Returns NULL, or the word that is unknown. */
const char *ptx_mnemonic(char *text, struct ptx_ins *i);

/* ---- parse.c */
struct ptx_module *ptx_open(const char *path); /* ends the program if the file cannot be read */
struct ptx_kernel *ptx_find(struct ptx_module *m, const char *name); /* NULL: there is none */
void ptx_parse(struct ptx_kernel *k);

/* ---- special registers: rows of 4 bytes at the start of the warp's registers */
enum ptx_special {
    S_TID_X,
    S_TID_Y,
    S_TID_Z,
    S_NTID_X,
    S_NTID_Y,
    S_NTID_Z,
    S_CTAID_X,
    S_CTAID_Y,
    S_CTAID_Z,
    S_NCTAID_X,
    S_NCTAID_Y,
    S_NCTAID_Z,
    S_LANE,
    S_COUNT
};

/* ---- run.c */
enum { NAMED_BARRIERS = 16 };

struct ptx_cluster { /* blocks that can reach each other's shared memory */
    struct ptx_block *blocks;
    uint32_t nblocks;
    uint32_t arrived, generation; /* warps at barrier.cluster */
    uint32_t live;                /* warps that have not ended */
};

struct ptx_block {
    struct ptx_launch *launch;
    struct ptx_cluster *cluster;
    uint8_t *shared;
    uint32_t shared_bytes, rank; /* in the cluster */
    uint32_t live;               /* warps that have not ended */
    struct {
        uint32_t arrived, needed, generation;
    } barriers[NAMED_BARRIERS];
};

struct ptx_copy { /* cp.async of one lane that has not been waited for */
    uint8_t *to;
    const uint8_t *from;
    uint32_t bytes, zeros, group;
    uint8_t lane;
};

struct ptx_warp {
    struct ptx_block *block;
    struct ptx_kernel *kernel;
    uint8_t *regs, *local;
    uint32_t index;
    uint32_t live, group, stalled; /* masks of lanes; group: those that run now; stalled: wait for others */
    uint32_t pc[LANES];            /* of lanes that are not in the group */
    int barrier;                   /* the named barrier at which the warp waits; -1: none */
    uint32_t barrier_generation, cluster_generation;
    bool in_cluster_barrier, yields;
    uint32_t copy_group[LANES]; /* number of committed groups */
    struct {
        struct ptx_copy *v;
        size_t n, cap;
    } copies;
    const struct ptx_ins *now; /* for messages */
};

struct ptx_launch {
    struct ptx_kernel *kernel;
    uint32_t grid[3], block[3];
    uint32_t cluster; /* blocks of one; 1: none */
    uint32_t dynamic_shared_bytes;
    bool cooperative; /* all blocks run at the same time */
    uint8_t *params;
};
void ptx_run(struct ptx_launch *l);
/* Reports an error of the kernel and ends the program with status 86. */
void ptx_fail(const struct ptx_warp *w, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* ---- what the files of the interpreter share */
static inline void *ptx_row(const struct ptx_warp *w, const struct ptx_operand *o) {
    return o->kind == O_VALUE ? o->row : w->regs + o->at;
}
static inline const struct ptx_operand *ptx_operands(const struct ptx_warp *w, const struct ptx_ins *i) {
    return &w->kernel->operands.v[i->operands];
}
/* The value of an operand in a lane, with its upper bits as they are in the register. */
uint64_t ptx_get(const struct ptx_warp *w, const struct ptx_operand *o, int lane);
void ptx_put(struct ptx_warp *w, const struct ptx_operand *o, int lane, uint64_t value);
/* Runs stmt for each lane l of the mask. */
#define EACH_LANE(mask, stmt)                                          \
    do {                                                               \
        if ((mask) == 0xffffffffu) {                                   \
            for (int l = 0; l < LANES; l++) { stmt; }                  \
        } else {                                                       \
            for (uint32_t rest_ = (mask); rest_; rest_ &= rest_ - 1) { \
                int l = __builtin_ctz(rest_);                          \
                stmt;                                                  \
            }                                                          \
        }                                                              \
    } while (0)

/* ---- alu.c. ptx_*_of(): the function that runs the instruction; NULL: another file has it. */
ptx_do *ptx_alu_of(const struct ptx_kernel *k, const struct ptx_ins *i);
float ptx_half(uint16_t bits);
uint16_t ptx_to_half(float v);
uint16_t ptx_to_bf16(float v);
static inline float ptx_bf16(uint16_t bits) {
    union {
        uint32_t u;
        float f;
    } v = { (uint32_t)bits << 16 };
    return v.f;
}

/* ---- memory.c */
ptx_do *ptx_memory_of(const struct ptx_kernel *k, const struct ptx_ins *i);
/* The bytes at an address of shared memory, which can have the rank of a block of the cluster above bit 24.
 * Ends the program if they are outside of the block's memory. */
uint8_t *ptx_shared(const struct ptx_warp *w, uint64_t address, size_t bytes);
/* Memory that kernels may access. */
void ptx_memory_add(void *p, size_t bytes);
void ptx_memory_remove(void *p);
/* How TMA copies a matrix; what cuTensorMapEncodeTiled() writes. */
struct ptx_map {
    uint8_t *data;
    uint64_t strides[4];
    uint32_t sizes[5];
    uint16_t box[5];
    uint8_t rank, element_bytes, swizzle;
};

/* ---- matrix.c */
ptx_do *ptx_matrix_of(const struct ptx_ins *i);

#endif

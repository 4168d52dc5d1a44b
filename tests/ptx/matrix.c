/* Products of matrices by one warp (mma) and by four (wgmma), and loads of their operands. Sums are float.
 * wgmma happens at once; each of the four warps computes its 16 of the 64 rows. */
#include <string.h>

#include "ptx/ptx.h"

enum { ROWS = 16, DEPTH = 16, MOST_COLUMNS = 256 };

static float number(bool half, uint16_t bits) { return half ? ptx_half(bits) : ptx_bf16(bits); }

/* A pair of numbers of row r, columns c and c + 1. */
static void put_pair(float a[ROWS][DEPTH], int r, int c, uint32_t pair, bool half) {
    a[r][c] = number(half, (uint16_t)pair);
    a[r][c + 1] = number(half, (uint16_t)(pair >> 16));
}

/* a[16, 16] from four registers: rows lane / 4 and 8 below, columns 2 (lane % 4) and 8 to the right. */
static void rows_from_registers(const struct ptx_warp *w, const struct ptx_operand *o, bool half,
                                float a[ROWS][DEPTH]) {
    for (int l = 0; l < LANES; l++)
        for (int n = 0; n < 4; n++)
            put_pair(a, l / 4 + n % 2 * 8, l % 4 * 2 + n / 2 * 8, (uint32_t)ptx_get(w, &o[n], l), half);
}

static void add_product(float sum[], const float a[DEPTH], float b[DEPTH][MOST_COLUMNS], int columns) {
    for (int k = 0; k < DEPTH; k++)
        for (int n = 0; n < columns; n++) sum[n] += a[k] * b[k][n];
}

/* Sums of row lane / 4, and 8 below, of columns 2 (lane % 4) + 8 j: registers 4 j to 4 j + 3. */
static void place_of_sum(int lane, int n, int *row, int *column) {
    *row = lane / 4 + n / 2 % 2 * 8;
    *column = lane % 4 * 2 + n % 2 + n / 4 * 8;
}

static float b_matrix[DEPTH][MOST_COLUMNS];

static void multiply(struct ptx_warp *w, const struct ptx_operand *to, const struct ptx_operand *from,
                     float a[ROWS][DEPTH], int columns, bool keep) {
    static float sum[ROWS][MOST_COLUMNS];
    int row, column;
    for (int l = 0; l < LANES; l++)
        for (int n = 0; n < columns / 2; n++) {
            uint32_t bits = keep ? (uint32_t)ptx_get(w, &from[n], l) : 0;
            place_of_sum(l, n, &row, &column);
            memcpy(&sum[row][column], &bits, sizeof bits);
        }
    for (int r = 0; r < ROWS; r++) add_product(sum[r], a[r], b_matrix, columns);
    for (int l = 0; l < LANES; l++)
        for (int n = 0; n < columns / 2; n++) {
            uint32_t bits;
            place_of_sum(l, n, &row, &column);
            memcpy(&bits, &sum[row][column], sizeof bits);
            ptx_put(w, &to[n], l, bits);
        }
}

static void require_all(const struct ptx_warp *w, uint32_t mask) {
    if (mask != 0xffffffffu) ptx_fail(w, "only lanes %08x take part", mask);
}

/* d[16, 8] = a[16, 16] b[16, 8] + c. Operands: 4 of d, 4 of a, 2 of b, 4 of c. */
static void mma(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    require_all(w, mask);
    const struct ptx_operand *o = ptx_operands(w, i);
    bool half = i->from == T_F16;
    float a[ROWS][DEPTH];
    rows_from_registers(w, &o[4], half, a);
    for (int l = 0; l < LANES; l++)
        for (int n = 0; n < 2; n++) {
            uint32_t pair = (uint32_t)ptx_get(w, &o[8 + n], l);
            int k = l % 4 * 2 + n * 8;
            b_matrix[k][l / 4] = number(half, (uint16_t)pair);
            b_matrix[k + 1][l / 4] = number(half, (uint16_t)(pair >> 16));
        }
    multiply(w, o, &o[10], a, 8, true);
}

/* ---- matrices in shared memory, described by 64 bits: rows of 128 bytes, groups of eight rows `stride`
 * bytes apart, pieces of 16 bytes permuted by the number of the row */
struct described {
    uint64_t start, stride;
};
static struct described describe(const struct ptx_warp *w, uint64_t bits) {
    struct described d = { (bits & 0x3fff) << 4, (bits >> 32 & 0x3fff) << 4 };
    if (bits >> 62 != 1) ptx_fail(w, "a matrix with another order than rows of 128 bytes");
    return d;
}
/* Reads numbers [column, column + n) of a row; both are multiples of 8, a piece of 16 bytes. */
static void read_row(const struct ptx_warp *w, struct described d, int row, int column, int n, bool half,
                     float *to) {
    for (int c = column; c < column + n; c += 8, to += 8) {
        uint64_t at = d.start + (uint64_t)row / 8 * d.stride + (uint64_t)row % 8 * 128 + (uint64_t)c * 2;
        uint16_t bits[8];
        memcpy(bits, ptx_shared(w, at ^ (at >> 7 & 7) << 4, sizeof bits), sizeof bits);
        for (int k = 0; k < 8; k++) to[k] = number(half, bits[k]);
    }
}

/* d[64, N] = a[64, 16] b[16, N] (+ d). Operands: N / 2 of d; a: a description or four registers; the
 * description of b; whether d is added (a predicate or a number); the factors of a and b; whether a and b are
 * transposed. */
static void wgmma(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    require_all(w, mask);
    const struct ptx_operand *o = ptx_operands(w, i);
    int sums = i->size / 2, columns = i->size;
    bool in_registers = i->noperands == sums + 9, half = i->from == T_F16;
    const struct ptx_operand *next = &o[sums];
    float a[ROWS][DEPTH];
    if (!in_registers && i->noperands != sums + 7) ptx_fail(w, "%u operands", i->noperands);
    if (in_registers) {
        rows_from_registers(w, next, half, a);
        next += 4;
    } else {
        struct described d = describe(w, ptx_get(w, next++, 0));
        for (int r = 0; r < ROWS; r++) read_row(w, d, (int)(w->index % 4) * ROWS + r, 0, DEPTH, half, a[r]);
    }
    struct described b = describe(w, ptx_get(w, next++, 0));
    bool keep = ptx_get(w, next++, 0) & 1;
    if ((int32_t)ptx_get(w, next, 0) != 1 || (int32_t)ptx_get(w, next + 1, 0) != 1)
        ptx_fail(w, "a factor that is not 1");
    next += 2;
    if (!in_registers && ptx_get(w, next++, 0)) ptx_fail(w, "the first matrix is transposed");
    bool transposed = ptx_get(w, next, 0) & 1;
    if (transposed && columns > 64) ptx_fail(w, "a transposed matrix of %d columns", columns);
    for (int k = 0; transposed && k < DEPTH; k++) read_row(w, b, k, 0, columns, half, b_matrix[k]);
    for (int n = 0; !transposed && n < columns; n++) {
        float column[DEPTH];
        read_row(w, b, n, 0, DEPTH, half, column);
        for (int k = 0; k < DEPTH; k++) b_matrix[k][n] = column[k];
    }
    multiply(w, o, o, a, columns, keep);
}

/* Lane l gives the address of row l % 8 of matrix l / 8; lane l gets numbers 2 (l % 4) and the next one of
 * row l / 4 of each matrix, or of column l / 4 if it is transposed. */
static void ldmatrix(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    require_all(w, mask);
    const struct ptx_operand *o = ptx_operands(w, i), *address = &o[i->noperands - 1];
    const uint8_t *rows[LANES];
    for (int l = 0; l < 8 * i->vector; l++) {
        uint64_t at = ptx_get(w, address, l);
        if (at % 16) ptx_fail(w, "the row at %#llx is not aligned", (unsigned long long)at);
        rows[l] = ptx_shared(w, at, 16);
    }
    for (int n = 0; n < i->vector; n++)
        for (int l = 0; l < LANES; l++) {
            uint16_t pair[2];
            for (int k = 0; k < 2; k++) {
                int row = i->transposed ? l % 4 * 2 + k : l / 4,
                    column = i->transposed ? l / 4 : l % 4 * 2 + k;
                memcpy(&pair[k], rows[8 * n + row] + 2 * column, 2);
            }
            ptx_put(w, &o[n], l, (uint32_t)pair[1] << 16 | pair[0]);
        }
}

/* fence, commit_group and wait_group: a product has ended when its instruction has. */
static void nothing(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    (void)w;
    (void)i;
    (void)mask;
}

ptx_do *ptx_matrix_of(const struct ptx_ins *i) {
    switch (i->op) {
    case OP_mma: return mma;
    case OP_ldmatrix: return ldmatrix;
    case OP_wgmma: return i->variant == V_MULTIPLY ? wgmma : nothing;
    default: return NULL;
    }
}

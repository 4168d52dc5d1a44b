/* The operators of the models. Decoder and image encoders call these functions; a backend (struct
 * ops_backend) does the work.
 *     struct ops *o = cpu_open(threads, NULL);
 *     struct tensor *x = ops_alloc(o, n, TENSOR_ZERO);
 *     ops_upload(o, view_of(x), host, n);
 *     ops_linear(o, "q_proj", &layer->q, view_of(x), hidden, m, view_of(q), width, OPS_SET);
 *     ops_download(o, host, view_of(q), n);
 *     ops_close(o);
 * Tensors belong to the backend. Callers must not dereference them. Activations are float (some are 16-bit
 * numbers if has_narrow() is true), row-major, one row per token or pixel. Weights keep their stored type.
 * Most operators are recorded (engine/record); `name` is the name in the trace. All calls must come from
 * one thread. */
#ifndef ENGINE_OPS_OPS_H
#define ENGINE_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/compute/dtype.h"
#include "engine/record/record.h"
#include "trace/format.h"

/* ---- memory */
struct tensor; /* memory of a backend; each backend defines its own struct */

/* A position inside a tensor. Operators take views, so that rows of a larger tensor need no copy. */
struct view {
    struct tensor *tensor;
    /* offset from the tensor's start, in numbers of its type */
    size_t at;
};
static inline struct view view_of(struct tensor *t) { return (struct view){ t, 0 }; }
static inline struct view view_at(struct view v, size_t floats) {
    return (struct view){ v.tensor, v.at + floats };
}

struct ops_decode_calls;

struct matrix {
    struct tensor *data; /* [rows][cols] */
    enum dtype type;
    int rows, cols;
    /* F8_E4M3 and I8: the number in row r, column c is multiplied by
     * scale[(r + first_row) / scale_rows][c / scale_cols]. NULL: no scales. */
    struct tensor *scale;
    int scale_rows, scale_cols, first_row;
};
struct linear {
    struct matrix w;     /* [out, in] */
    struct tensor *bias; /* [out]; NULL: none */
};

/* ---- arguments of operators with many parameters */
enum ops_store { OPS_SET, OPS_ADD };
enum ops_activation { OPS_GELU, OPS_QUICK_GELU };
/* How a feed-forward block combines the outputs of gate and up. */
enum ops_glu {
    OPS_GLU_SILU,      /* silu(gate) up */
    OPS_GLU_GELU,      /* gelu(gate) up */
    OPS_GLU_GELU_TANH, /* gelu(gate) up, with the tanh approximation */
    OPS_GLU_CLAMPED,   /* gate sigmoid(1.702 gate) (up + 1), with gate <= 7 and -7 <= up <= 7 */
};
enum ops_adjust { OPS_SCALE /* x by */, OPS_SOFTCAP /* by tanh(x / by) */ };

/* Optional features of a backend. A model is refused if it needs a feature that the backend lacks. */
enum ops_extra {
    OPS_EXTRA_GLU = 1 << 0,         /* every enum ops_glu; otherwise only silu */
    OPS_EXTRA_ADJUST = 1 << 1,      /* ops_adjust() */
    OPS_EXTRA_SOFTCAP = 1 << 2,     /* attention.softcap */
    OPS_EXTRA_SINKS = 1 << 3,       /* attention.sinks */
    OPS_EXTRA_EXPERT_BIAS = 1 << 4, /* biases of the experts in ops_experts_one() */
    OPS_EXTRA_SIGMOID = 1 << 5,     /* routing.sigmoid and routing.correction */
    OPS_EXTRA_TOWERS = 1 << 6,      /* image towers other than DeepSeek-OCR's */
    OPS_EXTRAS_ALL = (1 << 7) - 1,
};

/* A linear layer and the destination of its output. */
struct linear_out {
    const struct linear *l;
    struct view y;
};

/* A feed-forward block: down(glu(gate x, up x)). */
struct expert {
    struct linear gate, up, down;
    enum ops_glu glu;
};

/* A convolution x[h, w, c_in] -> y[h', w', c_out] with a square kernel and zero padding. Weights are
 * [c_out, c_in, side, side], as in the files. */
struct conv {
    struct matrix w;     /* [c_out, c_in * side * side] */
    struct tensor *bias; /* NULL: none */
    int c_in, side, stride, pad;
};

/* Attention of one sequence: out[i, head] = softmax_j(scale q[i, head] . k[j, group(head)] + bias) v[j,
 * group(head)]. The heads of k and v are k_head and v_head numbers apart. */
struct attention {
    int heads, kv_heads, dim_k, dim_v;
    float scale;
    struct view q; /* [nq][q_row], head h at h * dim_k */
    ptrdiff_t q_row;
    struct view k, v; /* views of numbers of type `kv` */
    enum dtype kv;    /* DTYPE_F32, or DTYPE_BF16 if the backend has bf16_cache */
    ptrdiff_t k_head, v_head;
    ptrdiff_t v_row; /* numbers from one value row to the next; 0: dim_v */
    struct view out; /* [nq][out_row], head h at h * dim_v */
    ptrdiff_t out_row;
    int nq, nk;
    /* maximum number of keys in later calls; scratch memory is allocated for this number; 0: nk */
    int room;
    int base;      /* query i attends to keys 0 .. base + i; -1: all */
    int window;    /* maximum number of keys per query, the most recent ones; 0: all */
    float softcap; /* scaled scores become softcap tanh(score / softcap); 0: no cap */
    /* [heads]: extra score per query that takes part in the softmax but has no value row; NULL: none */
    struct tensor *sinks;
    /* SAM's bias: keys and queries are on a side x side grid, and q . rel_h[qy - ky + side - 1] + q .
     * rel_w[qx - kx + side - 1] is added to the score. Tables are [2 side - 1][dim_k], shared by the
     * heads; tensor NULL: no bias. */
    struct view rel_h, rel_w;
    int side;
};

/* Attention of `batch` independent sequences of n tokens each; every token attends to all n. */
struct qkv_attention {
    struct view qkv; /* [batch * n][3][heads][dim], the output of a fused projection */
    struct view out; /* [batch * n][heads * dim] */
    int batch, n, heads, dim;
    struct view rel_h, rel_w; /* as in struct attention; with a bias, n is side * side */
    int side;
};

/* A router's rule: selects the k most likely of n experts. */
struct routing {
    int n, k;
    int groups, groups_kept; /* experts of the best groups_kept groups are eligible; groups 0, 1: all */
    bool normalise;          /* divide the chosen probabilities by their sum */
    float scale;             /* factor for the weights */
    bool sigmoid;            /* probabilities are sigmoids; false: a softmax */
    /* [n]: added to the scores that choose experts, not to the weights. A group's score is then the sum of
     * its two best scores instead of its best score. NULL: none. */
    struct tensor *correction;
};
struct routing_choice {
    int expert;
    float weight;
};
enum { ROUTING_MAX_EXPERTS = 1024, ROUTING_MAX_CHOSEN = 64 };

/* cos and sin of rotary positions: (a, b) -> (a cos - b sin, b cos + a sin). */
struct rope_table {
    int dims;                     /* rotated elements per head; even */
    bool interleaved;             /* pair i is (x[2i], x[2i + 1]); otherwise (x[i], x[i + dims/2]) */
    struct tensor *cosine, *sine; /* [positions][dims / 2] */
};
/* Row i of x[rows][row] has the position `position` + i. A row is [heads][stride]; in each head, `dims`
 * elements from `offset` on are rotated. */
struct rope_rows {
    struct view x;
    ptrdiff_t row;
    int rows, heads, stride, offset, position;
};

/* A cache of keys or values, [heads][max_context][dim], and n rows of floats [n][heads][dim] that are stored
 * in it or loaded from it, from position `position` on. */
struct cache_rows {
    struct view cache, rows;
    enum dtype type; /* of the cache */
    int n, heads, dim, max_context, position;
};

/* DeepSeek's latent attention (decoder/latent.h): kv_b is [heads][nope + value][rank]. */
struct latent {
    struct linear kv_b;
    int heads, nope, value, rank, rope;
};
/* Arguments of ops_latent_expand(), which converts n positions starting at `position`: rows[n][heads][nope +
 * value] and the rotated part of kept[n][rank + rope] become keys[heads][max_context][nope + rope] and
 * values[heads][max_context][value]. */
struct latent_rows {
    struct view rows, kept, keys, values;
    int n, max_context, position;
};

/* A grid of rows [grid * grid][width], and the same rows ordered by window: [windows][window *
 * window][width]. Windows and the rows inside them are row-major; `padded` is grid rounded up to whole
 * windows. */
struct windows {
    int grid, padded, window, width;
    int views; /* number of grids, stored one after the other in both layouts; 0: one */
};

/* Arguments of ops_place_heads(): the new queries, keys and values of n rows of a sequence, from `position`
 * on: q[n][heads][dim], k and v [n][kv_heads][dim]. */
struct place_heads {
    struct view q, k, v;
    struct tensor *q_norm, *k_norm; /* [dim]; NULL: none */
    float eps;
    const struct rope_table *rope;
    int n, position, heads, kv_heads, dim, max_context;
    struct view queries;      /* [n][heads][dim], 16-bit */
    struct view keys, values; /* caches [kv_heads][max_context][dim] */
};

/* ---- the interface of a backend. Recorded operators return the name of the kernel that was used. */
enum tensor_content { TENSOR_ANY, TENSOR_ZERO };

struct ops_backend {
    bool quantised; /* linear layers, experts and embeddings accept quantised weights */
    /* linear layers and experts accept F8_E4M3 with rows of a multiple of eight numbers and one scale
     * per row, or per power of two of columns */
    bool fp8;
    /* Optional. true: quantised and bf16 weights are multiplied in float arithmetic. */
    void (*set_exact)(void *context, bool exact);
    unsigned extras; /* enum ops_extra */
    bool bf16_cache; /* cache_store, cache_load and attention accept caches of bf16 */
    int rows;        /* rows per pass of the decoder; 0: DECODER_CHUNK */
    int views;       /* maximum number of image views per pass; 0: one */
    int few_rows;    /* products of more rows than this accept 16-bit activations */
    /* Optional: has_narrow() returns true if products with weights of this type accept 16-bit activations.
     * alloc_narrow() allocates a tensor of 16-bit numbers; offsets into it count numbers. */
    bool (*has_narrow)(void *context, enum dtype weights);
    struct tensor *(*alloc_narrow)(void *context, size_t numbers);
    /* Optional: fused operators, described at the ops_ functions of the same name. They do nothing and
     * return NULL if there is no kernel for these sizes or types. */
    const char *(*linear_act)(void *context, const struct linear *l, struct view x, int m, struct view y,
                              enum ops_activation a);
    const char *(*linear_rows)(void *context, const struct linear_out *v, int n, struct view x, int m);
    const char *(*linear_merge)(void *context, const struct linear *l, struct view x, const struct windows *s,
                                struct view grid);
    const char *(*layernorm_windows)(void *context, struct view x, struct tensor *w, struct tensor *b,
                                     float eps, const struct windows *s, struct view rows);
    const char *(*swiglu)(void *context, const struct expert *e, struct view x, int m, struct view y);
    void (*place_heads)(void *context, const struct place_heads *p); /* required with alloc_narrow */
    /* Optional: host memory from which copies to the device are fastest. host_send() starts to copy the first
     * bytes of such a block to the device; a later upload_bytes() from the block then copies nothing. */
    void *(*host_alloc)(void *context, size_t bytes);
    void (*host_free)(void *context, void *p);
    void (*host_send)(void *context, const void *p, size_t bytes);
    void (*close)(void *context);
    const char *(*device)(void *context); /* such as "avx2" */
    const char *(*name)(void *context);   /* name of the device in traces: "cpu", "NVIDIA H200" */
    const char *(*uuid)(void *context);   /* of a GPU; NULL: the device has none */
    int (*units)(void *context);          /* threads of a CPU, multiprocessors of a GPU */
    /* Optional: bytes of the device's memory. NULL: tensors are in the machine's memory. */
    size_t (*memory_bytes)(void *context);
    void (*finish)(void *context); /* returns when all operators called so far are done */
    /* Optional, all or none. mark() notes the time at which all operators called so far will be done, and
     * returns its number; -1: failed. marked_ns() returns the time between two marks, 0 if one of them
     * failed; it needs a finish() after the second mark. Numbers start at 0 after forget_marks(). */
    int (*mark)(void *context);
    uint64_t (*marked_ns)(void *context, int from, int to);
    void (*forget_marks)(void *context);

    struct tensor *(*alloc)(void *context, size_t floats, enum tensor_content content);
    struct tensor *(*wrap)(void *context, const void *host, size_t bytes);
    void (*commit)(void *context, struct tensor *t);
    void (*free)(void *context, struct tensor *t);
    /* Allocates a cache of zeros, used by cache_store(), cache_load() and attention() only. NULL: alloc() is
     * used. */
    struct tensor *(*alloc_cache)(void *context, size_t numbers, enum dtype type);
    /* Returns -1 if an operator or an allocation failed, or if the wrapped tensors do not fit. Results after
     * a failure are invalid. NULL: nothing can fail. */
    int (*check)(void *context, struct err *err);
    /* Optional: called after a request failed, when its tensors were freed. If the device only ran out of
     * memory, its operators work again. */
    void (*recover)(void *context);
    void (*upload)(void *context, struct view to, const float *from, size_t n);
    void (*upload_planes)(void *context, struct view to, const float *from, int channels, size_t area);
    /* Optional: to[i] = table[from[i]] for n bytes. */
    void (*upload_bytes)(void *context, struct view to, const uint8_t *from, size_t n,
                         const float table[256]);
    void (*download)(void *context, float *to, struct view from, size_t n);

    const char *(*linear)(void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                          struct view y, ptrdiff_t ldy, enum ops_store store);
    const char *(*linear_many)(void *context, const struct linear_out *v, int n, struct view x);
    /* Does nothing and returns NULL if there is no kernel for matrices of these types. */
    const char *(*experts_one)(void *context, const struct expert *const *experts, const float *weights,
                               int n, struct view x, struct view y);
    /* Optional. Does nothing and returns NULL if there is no kernel for these sizes or types. */
    const char *(*experts_many)(void *context, const struct expert *experts, const struct routing *r,
                                struct view logits, struct view x, int m, int hidden, struct view y);
    const char *(*rmsnorm)(void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows, int n,
                           float eps, struct view y, ptrdiff_t ldy);
    const char *(*layernorm)(void *context, struct view x, struct tensor *w, struct tensor *b, int rows,
                             int n, float eps, struct view y);
    const char *(*activate)(void *context, enum ops_activation a, struct view x, size_t n);
    const char *(*glu)(void *context, enum ops_glu kind, struct view gate, struct view up, size_t n);
    const char *(*adjust)(void *context, enum ops_adjust kind, float by, struct view x, size_t n);
    const char *(*add)(void *context, struct view y, struct view x, size_t n);
    const char *(*embed)(void *context, const struct matrix *table, const uint32_t *ids, int n,
                         struct view out);
    const char *(*conv)(void *context, const struct conv *c, struct view x, int views, int h, int w,
                        struct view y);
    const char *(*attention)(void *context, const struct attention *a);
    /* Computes n independent attentions. NULL: ops_attention_many() calls `attention` for each. */
    const char *(*attention_many)(void *context, const struct attention *a, int n);
    const char *(*qkv_attention)(void *context, const struct qkv_attention *a);
    const char *(*latent_query)(void *context, const struct latent *l, struct view q, struct view out);
    const char *(*latent_value)(void *context, const struct latent *l, struct view sums, struct view out);
    const char *(*window_partition)(void *context, const struct windows *s, struct view grid,
                                    struct view rows);
    const char *(*window_merge)(void *context, const struct windows *s, struct view rows, struct view grid);

    void (*route)(void *context, const struct routing *r, struct view logits, int m,
                  struct routing_choice *out);
    void (*rope)(void *context, const struct rope_table *t, const struct rope_rows *r);
    void (*cache_store)(void *context, const struct cache_rows *c);
    void (*cache_load)(void *context, const struct cache_rows *c);
    void (*latent_expand)(void *context, const struct latent *l, const struct latent_rows *r);
    void (*copy_rows)(void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                      size_t n);
    void (*gather_rows)(void *context, struct view to, struct view from, const int *index, int n,
                        size_t width);
    void (*scatter_add)(void *context, struct view to, struct view from, const int *index,
                        const float *weights, int n, size_t width);
    void (*resample_grid)(void *context, struct view in, int from, int to, int channels, struct view out);
    void (*resample_rows)(void *context, struct view in, int from, int to, int channels, struct view out);

    /* Decoding steps that run entirely on the device (decode.h). NULL: not supported. */
    const struct ops_decode_calls *decode;
    const struct ops_batch_calls *batch; /* the same for several sequences */

    /* Times of kernels, measured by the device. NULL: the recorder waits after each operator. start() and
     * stop() switch the measurement; mark() and take() are those of struct record_device. */
    void (*stamps_start)(void *context);
    void (*stamps_stop)(void *context);
    size_t (*stamps_mark)(void *context);
    size_t (*stamps_take)(void *context, const uint64_t **ns);
};

/* ---- functions that models call */
struct ops {
    const struct ops_backend *backend;
    void *context;
    struct recorder *rec;                        /* borrowed; NULL: nothing is recorded */
    void (*on_step)(void *context, double part); /* see ops_step(); NULL: no progress */
    void *step_context;
    struct {
        struct live_tensor {
            struct tensor *tensor;
            uint64_t bytes;
            enum trace_memory_kind kind;
        } * v;
        size_t n, cap;
    } live;                                       /* tensors that were not freed, oldest first */
    uint64_t memory_bytes[TRACE_MEMORY_KIND_END]; /* bytes of the live tensors by kind */
};

struct ops *ops_open(const struct ops_backend *backend, void *context);
void ops_close(struct ops *o); /* frees all tensors and closes the backend; accepts NULL */
const char *ops_device(const struct ops *o);
const char *ops_name(const struct ops *o);
const char *ops_uuid(const struct ops *o); /* "": unknown */
int ops_units(const struct ops *o);
/* Memory in which the tensors are; *name: whose. */
size_t ops_memory_bytes(const struct ops *o, const char **name);
void ops_finish(struct ops *o);
void ops_host_send(struct ops *o, const void *p, size_t bytes); /* see ops_backend.host_send; optional */
/* Starts the recording of a request; NULL ends it. Tensors from ops_alloc() count as activations during
 * a recording, otherwise as workspace. */
void ops_record(struct ops *o, struct recorder *rec);
void ops_set_exact(struct ops *o,
                   bool exact); /* the default is false; ignored if the backend has no set_exact */

/* Reports one finished layer. `part` is the layer's share of the current image view, or of the current
 * rows of the prompt. */
static inline void ops_step(struct ops *o, double part) {
    if (o->on_step) o->on_step(o->step_context, part);
}

struct tensor *ops_alloc(struct ops *o, size_t floats, enum tensor_content content);
/* Makes a tensor from host memory, which must stay valid as long as the tensor. The CPU backend uses that
 * memory directly. Call ops_commit() when the contents are final; a device backend then copies them. */
struct tensor *ops_wrap(struct ops *o, const void *host, size_t bytes);
void ops_commit(struct ops *o, struct tensor *t);
void ops_free(struct ops *o, struct tensor *t); /* accepts NULL */
/* Frees the tensors made since `live.n` was `mark`, for example after a request ran out of memory. */
void ops_free_since(struct ops *o, size_t mark);
struct tensor *ops_alloc_cache(struct ops *o, size_t numbers, enum dtype type);
/* See struct ops_backend. */
int ops_check(struct ops *o, struct err *err);
void ops_recover(struct ops *o);
void ops_upload(struct ops *o, struct view to, const float *from, size_t n);
/* Converts planes from[channels][area] to to[area][channels]. */
void ops_upload_planes(struct ops *o, struct view to, const float *from, int channels, size_t area);
void ops_download(struct ops *o, float *to, struct view from, size_t n);

/* y[m, out] = (y +) x[m, in] W^T + bias. ldx and ldy are the distances between rows of x and y. */
void ops_linear(struct ops *o, const char *name, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                struct view y, ptrdiff_t ldy, enum ops_store store);
/* Applies n linear layers to the same single row x. */
void ops_linear_many(struct ops *o, const char *name, const struct linear_out *v, int n, struct view x);
/* Applies n experts to one token: y += sum_e weight_e down_e(glu(gate_e x, up_e x)). Returns false if the
 * backend has no such operator for these experts; the caller then uses the linear layers of each expert. */
bool ops_experts_one(struct ops *o, const char *name, const struct expert *const *experts,
                     const float *weights, int n, struct view x, struct view y);

/* Passes m tokens through the experts that the router's logits choose for them: y[m, hidden] += sum_e
 * weight_e E_e(x). The routing runs on the device. Returns false if the backend has no such operator for
 * these experts; the caller then uses ops_route() and the linear layers of each expert. */
bool ops_experts_many(struct ops *o, const char *name, const struct expert *experts, const struct routing *r,
                      struct view logits, struct view x, int m, int hidden, struct view y);

/* y = x / sqrt(mean(x^2) + eps) w over rows of n elements; ldx and ldy are the distances between rows. */
void ops_rmsnorm(struct ops *o, const char *name, struct view x, ptrdiff_t ldx, struct tensor *w, int rows,
                 int n, float eps, struct view y, ptrdiff_t ldy);
/* y = (x - mean) / sqrt(var + eps) w + b, with the biased variance. */
void ops_layernorm(struct ops *o, const char *name, struct view x, struct tensor *w, struct tensor *b,
                   int rows, int n, float eps, struct view y);
void ops_activate(struct ops *o, enum ops_activation a, struct view x, size_t n); /* in place */
void ops_glu(struct ops *o, enum ops_glu kind, struct view gate, struct view up,
             size_t n); /* gate = glu(gate, up) */
void ops_adjust(struct ops *o, enum ops_adjust kind, float by, struct view x, size_t n); /* in place */
void ops_add(struct ops *o, const char *name, struct view y, struct view x, size_t n);   /* y += x */
/* out[i] = table[ids[i]] as floats; ids are host memory. */
void ops_embed(struct ops *o, const struct matrix *table, const uint32_t *ids, int n, struct view out);
/* The images x[views][h][w][c_in] become y[views][h'][w'][c_out]. */
void ops_conv(struct ops *o, const char *name, const struct conv *c, struct view x, int views, int h, int w,
              struct view y);
void ops_attention(struct ops *o, const char *name, const struct attention *a);
/* Computes n independent attentions as one operator, for the sequences of a batch. All have the same
 * heads and dimensions. */
void ops_attention_many(struct ops *o, const char *name, const struct attention *a, int n);
void ops_qkv_attention(struct ops *o, const char *name, const struct qkv_attention *a);

/* The first function computes out[head] = [U^T q_nope | q_rope], the second one out[head] = V sums[head].
 * U is the first `nope` rows of each head in kv_b, V the last `value` rows. */
void ops_latent_query(struct ops *o, const struct latent *l, struct view q, struct view out);
void ops_latent_value(struct ops *o, const struct latent *l, struct view sums, struct view out);
/* The first function copies the grid to rows ordered by window, with zeros outside of the grid. The second
 * function adds the rows back to the grid. */
void ops_window_partition(struct ops *o, const struct windows *s, struct view grid, struct view rows);
void ops_window_merge(struct ops *o, const struct windows *s, struct view rows, struct view grid);

/* ---- fused operators. If the backend lacks one, its parts run one after the other. Rows are contiguous. */

/* y[m, out] = a(x[m, in] W^T + bias) */
void ops_linear_act(struct ops *o, const char *name, const struct linear *l, struct view x, int m,
                    struct view y, enum ops_activation a);
/* Applies n linear layers to the same m rows. Recorded as `name` if fused, otherwise layer i as names[i]. */
void ops_linear_rows(struct ops *o, const char *name, const char *const *names, const struct linear_out *v,
                     int n, struct view x, int m);
/* grid += l(x), where x is ordered by window. `rows` is scratch of as many rows as x. */
void ops_linear_merge(struct ops *o, const char *name, const struct linear *l, struct view x,
                      const struct windows *s, struct view rows, struct view grid);
/* rows = the norm of x, ordered by window, with zeros outside of the grid. `scratch` is as large as x. */
void ops_layernorm_windows(struct ops *o, const char *name, struct view x, struct tensor *w, struct tensor *b,
                           float eps, const struct windows *s, struct view scratch, struct view rows);
/* gate[m, inner] = glu(e->gate x, e->up x); `up` is scratch of the same size. Recorded as `name` if fused,
 * otherwise gate and up as names[0] and names[1]. */
void ops_swiglu(struct ops *o, const char *name, const char *const *names, const struct expert *e,
                struct view x, int m, struct view gate, struct view up);

/* Returns true if activations of a model with weights of this type can be 16-bit numbers. */
bool ops_has_narrow(const struct ops *o, enum dtype weights);
struct tensor *ops_alloc_narrow(struct ops *o, size_t numbers);
void *ops_host_alloc(struct ops *o, size_t bytes); /* NULL: not enough memory */
void ops_host_free(struct ops *o, void *p);

/* ---- the following operators are not recorded */
/* Normalises, rotates and stores new heads; only for 16-bit activations. */
void ops_place_heads(struct ops *o, const struct place_heads *p);

/* Writes the choices of m tokens, k each, to host memory, because the host decides which experts run.
 * May overwrite the logits. If scores are equal, the expert with the lower number comes first. */
void ops_route(struct ops *o, const struct routing *r, struct view logits, int m, struct routing_choice *out);
void ops_rope(struct ops *o, const struct rope_table *t, const struct rope_rows *r);
void ops_cache_store(struct ops *o, const struct cache_rows *c);
void ops_cache_load(struct ops *o, const struct cache_rows *c);
void ops_latent_expand(struct ops *o, const struct latent *l, const struct latent_rows *r);
/* Copies `rows` rows of n floats; ldt and ldf are the distances between rows of `to` and `from`. */
void ops_copy_rows(struct ops *o, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                   size_t n);
static inline void ops_copy(struct ops *o, struct view to, struct view from, size_t n) {
    ops_copy_rows(o, to, 0, from, 0, 1, n);
}
/* The first function computes to[i] = from[index[i]], the second one to[index[i]] += weights[i] from[i].
 * index and weights are host memory. */
void ops_gather_rows(struct ops *o, struct view to, struct view from, const int *index, int n, size_t width);
void ops_scatter_add(struct ops *o, struct view to, struct view from, const int *index, const float *weights,
                     int n, size_t width);
/* Resamples a position table with antialiased bicubic interpolation, like PyTorch (a = -0.5, align_corners
 * false): in[from][from][channels] -> out[to][to][channels]. */
void ops_resample_grid(struct ops *o, struct view in, int from, int to, int channels, struct view out);
/* Linear interpolation along rows (align_corners false): in[from][channels] -> out[to][channels]. */
void ops_resample_rows(struct ops *o, struct view in, int from, int to, int channels, struct view out);

#endif

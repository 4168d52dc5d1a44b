/* The operators of the CUDA backend; ops.h describes them. */
#ifndef ENGINE_CUDA_CALLS_H
#define ENGINE_CUDA_CALLS_H

#include "engine/cuda/internal.h"

const char *cuda_linear(void *context, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                        struct view y, ptrdiff_t ldy, enum ops_store store);
const char *cuda_linear_many(void *context, const struct linear_out *v, int n, struct view x);
const char *cuda_experts_one(void *context, const struct expert *const *experts, const float *weights, int n,
                             struct view x, struct view y);
const char *cuda_rmsnorm(void *context, struct view x, ptrdiff_t ldx, struct tensor *w, int rows, int n,
                         float eps, struct view y, ptrdiff_t ldy);
const char *cuda_layernorm(void *context, struct view x, struct tensor *w, struct tensor *b, int rows, int n,
                           float eps, struct view y);
const char *cuda_activate(void *context, enum ops_activation a, struct view x, size_t n);
const char *cuda_glu(void *context, enum ops_glu kind, struct view gate, struct view up, size_t n);
const char *cuda_add(void *context, struct view y, struct view x, size_t n);
const char *cuda_embed(void *context, const struct matrix *table, const uint32_t *ids, int n,
                       struct view out);
const char *cuda_conv(void *context, const struct conv *c, struct view x, int views, int h, int w,
                      struct view y);
const char *cuda_attention(void *context, const struct attention *a);
const char *cuda_qkv_attention(void *context, const struct qkv_attention *a);
const char *cuda_latent_query(void *context, const struct latent *l, struct view q, struct view out);
const char *cuda_latent_value(void *context, const struct latent *l, struct view sums, struct view out);
const char *cuda_window_partition(void *context, const struct windows *s, struct view grid, struct view rows);
const char *cuda_window_merge(void *context, const struct windows *s, struct view rows, struct view grid);
void cuda_route(void *context, const struct routing *r, struct view logits, int m,
                struct routing_choice *out);
void cuda_rope(void *context, const struct rope_table *t, const struct rope_rows *r);
void cuda_cache_store(void *context, const struct cache_rows *c);
void cuda_cache_load(void *context, const struct cache_rows *c);
void cuda_latent_expand(void *context, const struct latent *l, const struct latent_rows *r);
void cuda_copy_rows(void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                    size_t n);
void cuda_gather_rows(void *context, struct view to, struct view from, const int *index, int n, size_t width);
void cuda_scatter_add(void *context, struct view to, struct view from, const int *index, const float *weights,
                      int n, size_t width);
void cuda_resample_grid(void *context, struct view in, int from, int to, int channels, struct view out);
void cuda_resample_rows(void *context, struct view in, int from, int to, int channels, struct view out);
const char *cuda_linear_act(void *context, const struct linear *l, struct view x, int m, struct view y,
                            enum ops_activation a);
const char *cuda_linear_rows(void *context, const struct linear_out *v, int n, struct view x, int m);
const char *cuda_linear_merge(void *context, const struct linear *l, struct view x, const struct windows *s,
                              struct view grid);
const char *cuda_layernorm_windows(void *context, struct view x, struct tensor *w, struct tensor *b,
                                   float eps, const struct windows *s, struct view rows);
const char *cuda_swiglu(void *context, const struct expert *e, struct view x, int m, struct view y);
void cuda_place_heads(void *context, const struct place_heads *p);

#endif

/* DeepSeek's latent attention. The cache contains data shared by all heads, [c | r] per position: c =
 * rms(kv_a x) with `rank` elements, and r, rotated by position, with `rope` elements. Keys and values are
 * linear in c:
 *     k_head = [U_head c | r],  v_head = V_head c         U, V: the rows of kv_b
 * For many tokens at once, keys and values are computed for one layer at a time. For one token, U is applied
 * to the query and V to the sum, so that heads attend to c itself and a step reads the cache once:
 *     q_head . U_head c = (U_head^T q_head) . c           sum_j p_j V_head c_j = V_head (sum_j p_j c_j) */
#ifndef ENGINE_DECODER_LATENT_H
#define ENGINE_DECODER_LATENT_H

#include "engine/decoder/decoder.h"

/* The norms inside latent attention use this eps. The eps of the config applies to the other norms only. */
#define LATENT_EPS 1e-6f

/* Computes d->h[rows, hidden] -> d->mixed[rows, heads * dim_v] and stores the latents in the cache.
 * a[pass.n] describes the attention of each segment; its keys and values are ignored. */
void latent_attention(struct decoder *d, const struct decoder_layer *l, struct decoder_pass pass,
                      const struct attention *a);

#endif

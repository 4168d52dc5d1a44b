/* Tensors that are stored in another layout than the engine reads: they are copied and converted when a model
 * is loaded. All other tensors are used in place. */
#ifndef ENGINE_WEIGHTS_CONVERT_H
#define ENGINE_WEIGHTS_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/compute/dtype.h"

/* One matrix [rows][cols] of a stored tensor. */
struct weight_source {
    const void *data, *more; /* `more` is the second tensor, see below */
    enum dtype type, more_type;
    int rows, cols;
    int first, step; /* row r is the stored row or column first + r step */
    size_t width;    /* stored numbers per row */
    int heads, nope; /* key and value halves of kv_b */
};

typedef void weight_convert(const struct weight_source *s, void *out);

/* MXFP4 of safetensors: data[rows][cols / 32][16] are nibbles in the order of the numbers, and
 * more[rows][cols / 32] exponents. They become blocks of DTYPE_MXFP4. */
weight_convert convert_mxfp4;
/* A transposed matrix: data[cols][width], of which column first + r step is row r. The type stays. */
weight_convert convert_transposed;
/* Every step-th number of a vector. The type stays. */
weight_convert convert_every;
/* kv_b of latent attention from its halves: data[heads][cols][nope] and
 * more[heads][rows / heads - nope][cols] become floats [heads][rows / heads][cols]. */
weight_convert convert_latent;

#endif

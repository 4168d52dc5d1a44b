/* Converts tensors whose stored layout differs from the layout that the engine reads. They are copied when
 * a model is loaded. All other tensors are used in place. */
#ifndef ENGINE_WEIGHTS_CONVERT_H
#define ENGINE_WEIGHTS_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "engine/compute/dtype.h"

/* One matrix [rows][cols] of a stored tensor. */
struct weight_source {
    const void *data, *more; /* `more`: second tensor of convert_mxfp4() and convert_latent() */
    enum dtype type, more_type;
    int rows, cols;
    int first, step; /* row or number r has the index first + r * step in the stored tensor */
    size_t width;    /* stored numbers per row */
    int heads, nope; /* convert_latent: sizes of kv_b */
};

typedef void weight_convert(const struct weight_source *s, void *out);

/* MXFP4 of safetensors: data[rows][cols / 32][16] contains nibbles in the order of the numbers, and
 * more[rows][cols / 32] contains exponents. The result consists of DTYPE_MXFP4 blocks. */
weight_convert convert_mxfp4;
/* A transposed matrix data[cols][width]: row r is its column first + r * step. The type does not change. */
weight_convert convert_transposed;
/* Selects every step-th number of a vector. The type does not change. */
weight_convert convert_every;
/* kv_b of latent attention from its halves: data[heads][cols][nope] and
 * more[heads][rows / heads - nope][cols] become floats [heads][rows / heads][cols]. */
weight_convert convert_latent;

#endif

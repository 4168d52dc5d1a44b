/* How skinny.cu divides a product. The host, its tests and the kernel share these definitions. */
#ifndef ENGINE_CUDA_SKINNY_LAYOUT_H
#define ENGINE_CUDA_SKINNY_LAYOUT_H

#ifdef __CUDACC__
#define SKINNY_BOTH static __host__ __device__ __forceinline__
#else
#define SKINNY_BOTH static inline
#endif

/* A tile has SKINNY_TILE rows of a matrix, a step SKINNY_STEP columns, or twice as many if they are fp8. */
enum { SKINNY_TILE = 64, SKINNY_STEP = 64, SKINNY_MOST_TILES = 3, SKINNY_THREADS = 160 };

/* Tiles first_tile .. first_tile + tiles - 1, steps step .. end - 1. */
struct skinny_task {
    int first_tile, tiles, slice, step, end;
};
/* Task t of a product with `all_tiles` tiles and `steps` steps, of which a task has at most `tiles` tiles and
 * one of `slices` slices of the steps. */
SKINNY_BOTH struct skinny_task skinny_task_of(int t, int tiles, int all_tiles, int slices, int steps) {
    struct skinny_task v;
    int group = t / slices, left = all_tiles - group * tiles;
    v.first_tile = group * tiles;
    v.tiles = left < tiles ? left : tiles;
    v.slice = t - group * slices;
    v.step = (int)((long)v.slice * steps / slices);
    v.end = (int)((long)(v.slice + 1) * steps / slices);
    return v;
}

#endif

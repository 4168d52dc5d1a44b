/* Small timelines for tests. Times are ns. */
#ifndef TESTS_UNIT_ANALYZE_SCENE_H
#define TESTS_UNIT_ANALYZE_SCENE_H

#include "analyze/analyze.h"

struct scene {
    struct timeline_builder *b;
    uint64_t correlation; /* last that was used */
    uint32_t device;      /* of the kernels that follow */
};

void scene_start(struct scene *s); /* one process, one GPU with the limits of an H200 */
void scene_range(struct scene *s, enum trace_range_category category, const char *name, uint32_t thread,
                 uint64_t start, uint64_t end);
/* An operator with shapes, such as "[3,5]f32 [5,7]f32". */
void scene_operator(struct scene *s, const char *name, const char *detail, uint32_t thread, uint64_t start,
                    uint64_t end);
/* A launch call and its kernel, on a stream. */
void scene_kernel(struct scene *s, const char *name, uint32_t thread, uint64_t call, uint64_t call_end,
                  uint32_t stream, uint64_t start, uint64_t end);
void scene_sync(struct scene *s, uint32_t thread, uint64_t start, uint64_t end);
const struct analysis_stage *scene_stage(const struct analysis *a,
                                         const char *path); /* fails the test: not there */
bool scene_has_note(const struct analysis *a, const char *words);
const struct analysis_finding *scene_finding(const struct analysis *a, const char *rule); /* NULL */

#endif

#include "unit/analyze/scene.h"

#include <math.h>
#include <string.h>

#include "unit/test.h"

void scene_start(struct scene *s) {
    *s = (struct scene){ .b = timeline_builder_open() };
    timeline_builder_process(s->b, "scene.ipt");
    timeline_builder_meta(s->b, "device.0.name", "NVIDIA H200");
    timeline_builder_meta(s->b, "device.0.cc", "9.0");
    timeline_builder_meta(s->b, "device.0.sms", "132");
    timeline_builder_meta(s->b, "device.0.max_threads_per_sm", "2048");
    timeline_builder_meta(s->b, "device.0.max_blocks_per_sm", "32");
    timeline_builder_meta(s->b, "device.0.regs_per_sm", "65536");
    timeline_builder_meta(s->b, "device.0.smem_per_sm_bytes", "233472");
    timeline_builder_meta(s->b, "device.0.warp_size", "32");
}

static void add_range(struct scene *s, enum trace_range_category category, const char *name,
                      const char *detail, uint32_t thread, uint64_t start, uint64_t end) {
    struct trace_range r = { .start_ns = start,
                             .end_ns = end,
                             .thread = thread,
                             .category = category,
                             .name = timeline_builder_text(s->b, name),
                             .detail = timeline_builder_text(s->b, detail),
                             .flops = NAN,
                             .bytes = NAN,
                             .payload = NAN };
    timeline_builder_range(s->b, &r, 1);
}

void scene_range(struct scene *s, enum trace_range_category category, const char *name, uint32_t thread,
                 uint64_t start, uint64_t end) {
    add_range(s, category, name, "", thread, start, end);
}

void scene_operator(struct scene *s, const char *name, const char *detail, uint32_t thread, uint64_t start,
                    uint64_t end) {
    add_range(s, TRACE_CATEGORY_OP, name, detail, thread, start, end);
}

void scene_kernel(struct scene *s, const char *name, uint32_t thread, uint64_t call, uint64_t call_end,
                  uint32_t stream, uint64_t start, uint64_t end) {
    struct trace_launch l = { .start_ns = call,
                              .end_ns = call_end,
                              .thread = thread,
                              .correlation = ++s->correlation,
                              .api = timeline_builder_text(s->b, "cudaLaunchKernel") };
    struct trace_kernel k = { .start_ns = start,
                              .end_ns = end,
                              .correlation = s->correlation,
                              .device = s->device,
                              .stream = stream,
                              .name = timeline_builder_text(s->b, name) };
    timeline_builder_launch(s->b, &l, 1);
    timeline_builder_kernel(s->b, &k, 1);
}

void scene_sync(struct scene *s, uint32_t thread, uint64_t start, uint64_t end) {
    struct trace_sync y = {
        .start_ns = start, .end_ns = end, .thread = thread, .sync_kind = TRACE_SYNC_STREAM
    };
    timeline_builder_sync(s->b, &y, 1);
}

const struct analysis_stage *scene_stage(const struct analysis *a, const char *path) {
    for (size_t i = 0; i < a->nstages; i++)
        if (strcmp(a->stages[i].path, path) == 0) return &a->stages[i];
    fail_msg("no stage %s", path);
    return NULL;
}

bool scene_has_note(const struct analysis *a, const char *words) {
    for (size_t i = 0; i < a->nnotes; i++)
        if (strstr(a->notes[i].text, words)) return true;
    return false;
}

const struct analysis_finding *scene_finding(const struct analysis *a, const char *rule) {
    for (size_t i = 0; i < a->nfindings; i++)
        if (strcmp(a->findings[i].rule, rule) == 0) return &a->findings[i];
    return NULL;
}

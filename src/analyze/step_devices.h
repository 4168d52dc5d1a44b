/* Which steps (occurrences of a stage) count on a device. A process with several devices may use all of them
 * in each step, or drive each one from a thread of its own; then the steps of one thread are not steps of the
 * other's device.
 *     struct step_devices *s = step_devices_make(c);
 *     step_devices_count(s, device, uses);
 *     step_devices_free(s); */
#ifndef ANALYZE_STEP_DEVICES_H
#define ANALYZE_STEP_DEVICES_H

#include "analyze/internal.h"
#include "analyze/work_walk.h"

/* Returns the innermost occurrence that launched the work; ANALYSIS_NONE: none. */
uint32_t occurrence_of_work(const struct context *c, const struct work *w);

/* The occurrences of all stages, sorted by stage, thread and start. The caller frees the array. */
struct step_key {
    uint32_t stage, thread, occurrence;
};
struct step_key *steps_by_thread(const struct context *c);
bool steps_of_one_thread(const struct step_key *a, const struct step_key *b);

struct step_devices;
struct step_devices *step_devices_make(const struct context *c);
void step_devices_free(struct step_devices *s);

/* Sets analysis_stage_device.steps, .open_ns and .any_open_ns of all stages on this device. uses[p]: process
 * p uses the device. A thread's steps of a stage count on the devices on which any of them has kernels (or
 * copies, if none has kernels), and on devices on which no thread has that for the stage. */
void step_devices_count(struct step_devices *s, uint32_t device, const bool *uses);

#endif

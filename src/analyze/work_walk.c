#include "analyze/work_walk.h"

struct work_walk work_walk_device(const struct timeline *tl, size_t device) {
    const struct timeline_device *d = &tl->devices[device];
    return (struct work_walk){ tl, d->first_kernel, d->first_kernel + d->kernel_count, d->first_copy,
                               d->first_copy + d->copy_count };
}

bool work_walk_next(struct work_walk *walk, struct work *w) {
    const struct timeline_kernels *k = &walk->tl->kernels;
    const struct timeline_copies *c = &walk->tl->copies;
    bool kernels_left = walk->kernel < walk->kernel_end, copies_left = walk->copy < walk->copy_end;
    if (!kernels_left && !copies_left) return false;
    bool is_kernel = kernels_left && (!copies_left || k->start_ns[walk->kernel] <= c->start_ns[walk->copy]);
    size_t i = is_kernel ? walk->kernel++ : walk->copy++;
    *w = is_kernel ? (struct work){ k->start_ns[i], k->end_ns[i], k->lane[i], true, i }
                   : (struct work){ c->start_ns[i], c->end_ns[i], c->lane[i], false, i };
    return true;
}

/* Removes the steps of clocks from the times of ranks. A step makes one kernel or gap longer or shorter, and
 * after a backward step some records end before they start. The steps are known only after the ranks were
 * compared, so the traces of the ranks concerned are read a second time. */
#ifndef RANKS_STEPS_H
#define RANKS_STEPS_H

#include "ranks/job.h"

/* Replaces the digests of ranks whose clock was stepped. A clock with a rank that has no trace is left as it
 * is. The traces show which of two clocks was set. If
 * they do not, it is the one that disagrees with most others. Returns true if a digest was replaced. */
bool clock_steps_remove(const struct rank_job *job, struct rank_digest **digests,
                        const struct digest_limits *limits, unsigned threads);

#endif

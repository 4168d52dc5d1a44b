/* Files that must not outlive an interrupted command: temporaries and half-written results.
 *     int slot = scratch_add(path);     -- from here on SIGINT, SIGTERM and SIGHUP remove it before they end the program
 *     ...
 *     scratch_forget(slot);             -- it was renamed or removed, or is whole and stays
 * A folder is removed if it is empty by then: add it before what lies in it. Where a command handles these
 * signals itself, or was started with them ignored, nothing changes. Any thread. */
#ifndef BASE_SCRATCH_H
#define BASE_SCRATCH_H

int scratch_add(const char *path); /* -1: no room, which only means that nobody cleans up */
void scratch_forget(int slot);     /* -1 is fine */

#endif

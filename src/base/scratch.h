/* Temporary files that are deleted if the command is interrupted.
 *     int slot = scratch_add(path);     -- SIGINT, SIGTERM and SIGHUP now delete it first
 *     ...
 *     scratch_forget(slot);             -- renamed, removed, or complete and kept
 * Add a folder before its files: it is removed last, if it is empty. Has no effect if the command handles
 * these signals itself or was started with them ignored. Thread-safe. */
#ifndef BASE_SCRATCH_H
#define BASE_SCRATCH_H

/* Returns -1 if the table is full. The path is not deleted then. */
int scratch_add(const char *path);
void scratch_forget(int slot); /* ignores -1 */

#endif

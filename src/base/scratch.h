/* Temporary files and partial results to delete when the command is interrupted.
 *     int slot = scratch_add(path);     -- SIGINT, SIGTERM and SIGHUP now delete it first
 *     ...
 *     scratch_forget(slot);             -- renamed, removed, or complete and kept
 * A folder is removed if it is empty by then: add it before its files. Has no effect if the command handles
 * these signals itself or was started with them ignored. Thread-safe. */
#ifndef BASE_SCRATCH_H
#define BASE_SCRATCH_H

/* returns -1 if the table is full; the path is then not deleted on a signal */
int scratch_add(const char *path);
void scratch_forget(int slot); /* ignores -1 */

#endif

/* Stores an uploaded run. The stream goes to a file first. When it is complete, it is unpacked into a private
 * folder, its digest is checked, and the folder is written to the disk (fsync) and renamed into the root
 * folder. The run is acknowledged only after that, and a partial run is never visible.
 *     struct upload *u = upload_open(h, digest, offset, total, &why, &err);
 *     upload_add(u, data, n, &why, &err);
 *     if (upload_is_complete(u)) upload_store(u, h, &name, &why, &err);
 *     upload_close(u);                                            -- an incomplete upload can be continued */
#ifndef SERVE_UPLOAD_H
#define SERVE_UPLOAD_H

#include "history/history.h"

struct upload;

/* Why an upload failed. */
enum upload_error {
    UPLOAD_FAILED,  /* disk or database */
    UPLOAD_FULL,    /* no space on the disk */
    UPLOAD_BUSY,    /* another client sends the same run */
    UPLOAD_OFFSET,  /* `offset` is larger than the stored part */
    UPLOAD_REJECTED /* not a run, or its digest or length is wrong */
};

/* `digest` NULL: unknown; the upload cannot be continued later. `total` 0: unknown. */
struct upload *upload_open(const struct history *h, const char *digest, uint64_t offset, uint64_t total,
                           enum upload_error *why, struct err *err);
int upload_add(struct upload *u, const void *data, size_t n, enum upload_error *why, struct err *err);
uint64_t upload_received(const struct upload *u);
bool upload_is_complete(const struct upload *u); /* false if `total` is unknown */
/* Returns 1 if the run is new, 0 if a run with the same content existed, -1 on failure. *name is the name of
 * the run; the caller frees it. */
int upload_store(struct upload *u, struct history *h, char **name, enum upload_error *why, struct err *err);
void upload_close(struct upload *u); /* NULL is fine */

/* Returns how many bytes of an unfinished upload are stored; 0: none. */
uint64_t upload_stored(const struct history *h, const char *digest);
bool upload_digest_valid(const char *digest); /* 64 hexadecimal digits, lower case */
/* Removes uploads that were not continued for a day. */
void upload_clean(const struct history *h);

#endif

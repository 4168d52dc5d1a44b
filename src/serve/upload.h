/* Stores an uploaded run. The stream goes to a file first. When it is complete, it is unpacked into a private
 * folder, its digest is checked, and the folder is synced to the disk and renamed. The run is acknowledged
 * only after that.
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
    UPLOAD_BUSY,    /* another client sends this run */
    UPLOAD_OFFSET,  /* `offset` exceeds the stored part */
    UPLOAD_REJECTED /* not a run, wrong digest or length */
};

/* `digest` NULL: unknown; the upload cannot be continued later. `total` 0: unknown. */
struct upload *upload_open(const struct history *h, const char *digest, uint64_t offset, uint64_t total,
                           enum upload_error *why, struct err *err);
/* Removes the oldest unfinished uploads until the others have at most `bytes` bytes. Uploads that a client is
 * sending stay. Returns false if these alone have more. */
bool upload_make_room(const struct history *h, uint64_t bytes);
int upload_add(struct upload *u, const void *data, size_t n, enum upload_error *why, struct err *err);
uint64_t upload_received(const struct upload *u);
bool upload_is_complete(const struct upload *u); /* false if `total` is unknown */
/* Returns 1 for a new run, 0 if the same content existed, -1 on failure. The caller frees *name. */
int upload_store(struct upload *u, struct history *h, char **name, enum upload_error *why, struct err *err);
void upload_close(struct upload *u); /* NULL is fine */

/* Stored bytes of an unfinished upload. */
uint64_t upload_stored(const struct history *h, const char *digest);
bool upload_digest_valid(const char *digest); /* 64 hexadecimal digits, lower case */
/* Removes uploads that were not continued for a day. */
void upload_clean(const struct history *h);

#endif

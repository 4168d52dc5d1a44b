/* The request of a profiling job. */
#ifndef SERVE_JOB_REQUEST_H
#define SERVE_JOB_REQUEST_H

#include <jansson.h>

#include "base/err.h"
#include "base/jsonw.h"
#include "base/strlist.h"

/* Checks names, types and ranges. Paths must be inside one of the roots, also after symbolic links are
 * resolved. */
int job_check(const json_t *root, const char *const *roots, size_t nroots, struct err *err);
/* Replaces `device`, or sets it, so that two names of one device are not two queues. Fails if this machine
 * does not have the device. */
int job_set_device(json_t *root, struct err *err);
/* Appends the arguments of the command, without the program. `request` has passed job_check(). */
void job_command(const char *request, const char *out_dir, const char *run_id, struct strlist *words);
/* writes the members */
void job_write_request(struct jsonw *j, const json_t *root);
char *job_new_id(void); /* "20260102-030405-job-1a2b3c"; the caller frees it */

#endif

/* Shared by jobs.c, which runs jobs, and api_jobs.c and job_events.c, which answer requests. */
#ifndef SERVE_JOBS_INTERNAL_H
#define SERVE_JOBS_INTERNAL_H

#include "history/history.h"
#include "serve/http.h"

/* caller frees */
char *job_log_path(const struct history *h, const char *run_id);

/* Columns of job_find(). */
enum job_column {
    JOB_RUN_ID,
    JOB_STATE,
    JOB_DEVICE,
    JOB_REQUEST,
    JOB_MESSAGE,
    JOB_ATTEMPTS,
    JOB_CREATED_NS,
    JOB_STARTED_NS,
    JOB_ENDED_NS,
};
/* No rows if this store has no such job. */
int job_find(struct history *h, const char *run_id, struct db_result *r, struct err *err);
/* Answers with the job and this status, or with 404. */
void job_answer(struct request *q, struct history *h, const char *run_id, unsigned status);

#endif

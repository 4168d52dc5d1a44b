/* Internal to the files of jobs: jobs.c runs them, api_jobs.c and job_events.c answer requests. */
#ifndef SERVE_JOBS_INTERNAL_H
#define SERVE_JOBS_INTERNAL_H

#include "history/history.h"
#include "serve/http.h"

/* Returns the path of the log of a job. The caller frees it. */
char *job_log_path(const struct history *h, const char *run_id);

/* Columns of a row that job_find() returns. */
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
/* Reads the row of a job. The result has no rows if this store has no such job. */
int job_find(struct history *h, const char *run_id, struct db_result *r, struct err *err);
/* Answers with the job as JSON and this status; with 404 if there is no such job. */
void job_answer(struct request *q, struct history *h, const char *run_id, unsigned status);

#endif
